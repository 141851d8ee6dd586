"""MXNet models in the IR: the zoo, files, blocks and symbols, checked against MXNet itself."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.export import export, fill
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import MxnetImporter, from_block, from_symbol, trace
from dlbricks_mxnet.params import read_specs
from dlbricks_mxnet.zoo import GluonZoo, image_size

from dlbricks_core.errors import ModelError, UnsupportedError
from dlbricks_core.importers import ImportOptions
from dlbricks_core.ir import TensorSpec
from dlbricks_core.passes import normalize

mx = import_mxnet()
nn = mx.gluon.nn

#: But for VGG, which is large, and has the layers of AlexNet and of the others.
FAMILIES = [
    "resnet18_v1",
    "resnet50_v2",
    "alexnet",
    "densenet121",
    "squeezenet1.1",
    "inceptionv3",
    "mobilenet0.25",
    "mobilenetv2_0.25",
]


def randomize(block, seed=0):
    """Values that leave the outputs far from constant, statistics included."""
    mx.random.seed(seed)
    rng = np.random.default_rng(seed)
    block.initialize(mx.init.Xavier(magnitude=3), force_reinit=True)
    return rng


def set_statistics(block, rng):
    for key, parameter in block.collect_params().items():
        low, high = (0.5, 1.5) if key.endswith(("var", "gamma")) else (-0.2, 0.2)
        if key.endswith(("var", "gamma", "mean", "beta", "bias")):
            parameter.set_data(mx.nd.array(rng.uniform(low, high, parameter.shape)))


def run_exported(block, arrays):
    """The block's outputs from ONNX Runtime, with the block's own weights."""
    shapes = {key: value.shape for key, value in arrays.items()}
    symbol, params = trace(block, shapes)
    inputs = {k: TensorSpec(str(v.dtype), v.shape) for k, v in arrays.items()}
    values = {key: p.data().asnumpy() for key, p in block.collect_params().items()}
    proto = fill(export(symbol, inputs, params), values)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, arrays)


def check_agreement(block, **arrays):
    rng = randomize(block)
    block(*(mx.nd.array(a, dtype=a.dtype) for a in arrays.values()))
    set_statistics(block, rng)
    wanted = block(*(mx.nd.array(a, dtype=a.dtype) for a in arrays.values()))
    wanted = [w.asnumpy() for w in (wanted if isinstance(wanted, list | tuple) else [wanted])]
    for ours, theirs in zip(run_exported(block, arrays), wanted, strict=True):
        assert ours.shape == theirs.shape or theirs.shape == (1,)
        assert theirs.size == 1 or theirs.std() > 1e-4 * np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3 * np.abs(theirs).max())


def uniform(*shape):
    return np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)


# -- the zoo -----------------------------------------------------------------------


def test_zoo_has_the_names_that_mxnet_has():
    with pytest.raises(ValueError, match="Available options") as caught:
        mx.gluon.model_zoo.vision.get_model("none of these")
    offered = str(caught.value).split("are")[1].split()
    assert sorted(GluonZoo().names()) == sorted(offered)
    assert len(offered) == 34


#: One of each kind of network, of each version, and the deepest of the kinds with several depths.
KINDS = [
    "resnet18_v1",
    "resnet152_v1",
    "resnet18_v2",
    "resnet101_v2",
    "vgg19",
    "vgg11_bn",
    "alexnet",
    "densenet161",
    "squeezenet1.0",
    "squeezenet1.1",
    "inceptionv3",
    "mobilenet1.0",
    "mobilenetv2_0.75",
]


@pytest.mark.parametrize("name", KINDS)
def test_zoo_networks_of_every_kind_import_and_can_be_lowered(name):
    model = GluonZoo().load(name)
    assert model.name == name
    assert model.source == f"mxnet:{name}"
    assert model.inputs == ("data",)
    assert model.tensors["data"].sizes == (1, 3, *image_size(name))
    assert model.tensors[model.outputs[0]].sizes == (1, 1000)
    read = {tensor for layer in model.layers for tensor in layer.inputs}
    assert model.weights <= read
    ops = [layer.op for layer in model.layers]
    mx.random.seed(0)
    symbol, _ = trace(mx.gluon.model_zoo.vision.get_model(name), {"data": (1, 3, 224, 224)})
    native = [node["op"] for node in __import__("json").loads(symbol.tojson())["nodes"]]
    assert ops.count("BatchNormalization") == native.count("BatchNorm")
    assert ops.count("Conv") == native.count("Convolution")
    normal = normalize(model)
    assert all(spec.is_static for spec in normal.tensors.values())
    assert MxnetBackend().check(normal) == {}


def test_zoo_takes_a_batch():
    model = GluonZoo().load("alexnet", ImportOptions(batch=4))
    assert model.tensors["data"].sizes == (4, 3, 224, 224)
    assert model.tensors[model.outputs[0]].sizes == (4, 1000)


def test_zoo_names_the_near_ones():
    with pytest.raises(ModelError, match="no model 'resnet50'") as caught:
        GluonZoo().load("resnet50")
    assert "resnet50_v1" in caught.value.hint


def test_importing_twice_gives_the_same_names():
    first, second = (GluonZoo().load("squeezenet1.1") for _ in range(2))
    assert first.layers == second.layers


@pytest.mark.parametrize("name", FAMILIES)
def test_zoo_network_computes_what_gluon_computes(name):
    block = mx.gluon.model_zoo.vision.get_model(name)
    # In full size, it has weights by the hundred million.
    size = (64, 64) if name == "alexnet" else image_size(name)
    check_agreement(block, data=uniform(1, 3, *size))


# -- blocks and symbols --------------------------------------------------------------


class _Call(mx.gluon.HybridBlock):
    """A block made of one expression."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def hybrid_forward(self, F, *inputs):
        return self._function(F, *inputs)


EXPRESSIONS = {
    "reshape codes": lambda F, x: F.reshape(x, shape=(0, -4, 2, -1, -2)),
    "reshape reverse": lambda F, x: F.reshape(x, shape=(-1, 0), reverse=True),
    "channel shuffle": lambda F, x: F.reshape(
        F.swapaxes(F.reshape(x, shape=(0, -4, 4, -1, -2)), 1, 2), shape=(0, -3, -2)
    ),
    "adaptive pooling 1": lambda F, x: F.contrib.AdaptiveAvgPooling2D(x, output_size=1),
    "adaptive pooling 3": lambda F, x: F.contrib.AdaptiveAvgPooling2D(x, output_size=(3, 4)),
    "bilinear corners": lambda F, x: F.contrib.BilinearResize2D(x, height=20, width=9),
    "bilinear pixels": lambda F, x: F.contrib.BilinearResize2D(
        x, height=20, width=9, align_corners=False
    ),
    "bilinear scale": lambda F, x: F.contrib.BilinearResize2D(
        x, scale_height=2.0, scale_width=1.5, mode="odd_scale"
    ),
    "upsampling": lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest"),
    "upsampling of two sizes": lambda F, x: F.UpSampling(
        x, F.Pooling(x, kernel=(1, 1), stride=(2, 2)), scale=2, sample_type="nearest", num_args=2
    ),
    "sum of upsampled": lambda F, x: F.UpSampling(
        x,
        F.Pooling(x, kernel=(1, 1), stride=(2, 2)),
        scale=2,
        sample_type="nearest",
        num_args=2,
        multi_input_mode="sum",
    ),
    "bilinear upsampling": lambda F, x: F.UpSampling(
        x, F.ones((8, 1, 4, 4)), scale=2, sample_type="bilinear", num_filter=8, num_args=2
    ),
    "bilinear upsampling by 3": lambda F, x: F.UpSampling(
        x, F.ones((8, 1, 5, 5)), scale=3, sample_type="bilinear", num_filter=8, num_args=2
    ),
    "reverse subtraction": lambda F, x: 1 - x,
    "reverse division": lambda F, x: 2 / (x + 3),
    "scalars": lambda F, x: F.maximum(F.minimum((x * 2 + 1) / 3 - 0.5, 0.7), -0.2) ** 2,
    "pooling full": lambda F, x: F.Pooling(
        x, kernel=(3, 3), stride=(2, 2), pooling_convention="full", pool_type="max"
    ),
    "average pooling with padding": lambda F, x: F.Pooling(
        x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg"
    ),
    "average pooling without padding": lambda F, x: F.Pooling(
        x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg", count_include_pad=False
    ),
    "softmax": lambda F, x: F.softmax(x, axis=1),
    "gelu": lambda F, x: F.LeakyReLU(x, act_type="gelu"),
    "mean": lambda F, x: F.mean(x, axis=(2, 3), keepdims=True),
    "mean without axes kept": lambda F, x: F.mean(x, axis=(2, 3)),
    "warm softmax": lambda F, x: F.softmax(x, axis=1, temperature=2.0),
    "broadcast": lambda F, x: F.broadcast_to(
        F.mean(x, axis=(2, 3), keepdims=True), shape=(0, 0, 3, 4)
    ),
    "largest": lambda F, x: F.max(x, axis=1),
    "norm": lambda F, x: F.norm(x, ord=2, axis=2),
    "layer norm of another axis": lambda F, x: F.LayerNorm(x, F.ones((8,)), F.zeros((8,)), axis=1),
    "swapped axes": lambda F, x: F.swapaxes(x, 1, -1),
    "batch product": lambda F, x: F.batch_dot(
        F.reshape(x, shape=(-3, -2)), F.reshape(x * 2, shape=(-3, -2)), transpose_b=True
    ),
    "selu": lambda F, x: F.LeakyReLU(x, act_type="selu"),
    "split": lambda F, x: list(F.split(x, num_outputs=4, axis=1)),
    "outputs in another order": lambda F, x: [F.tanh(x * 2), F.relu(x), F.exp(x)],
    "two outputs of one split": lambda F, x: [F.split(x, num_outputs=2, axis=1)[i] for i in (1, 0)],
    "sum of all": lambda F, x: F.sum(x),
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_expression_computes_what_mxnet_computes(expression):
    check_agreement(_Call(expression), data=uniform(2, 8, 12, 16))


def _dense_twice():
    shared = nn.Dense(6, activation="relu")
    block = nn.HybridSequential()
    block.add(nn.Dense(6), shared, shared, shared)
    return block


LAYERS = {
    "dense keeps axes": (lambda: nn.Dense(5, flatten=False), (2, 3, 4)),
    "dense without bias": (lambda: nn.Dense(5, use_bias=False), (2, 3, 4)),
    "one block three times": (_dense_twice, (2, 6)),
    "batch norm without scale": (lambda: nn.BatchNorm(scale=False), (2, 3, 4, 5)),
    "batch norm of two axes": (lambda: nn.BatchNorm(axis=-1), (4, 3)),
    "layer norm": (nn.LayerNorm, (2, 5, 8)),
    "one-dimensional convolution": (lambda: nn.Conv1D(4, 3, padding=1), (2, 3, 9)),
    "one-dimensional pooling": (lambda: nn.MaxPool1D(2), (2, 3, 9)),
    "transposed convolution": (lambda: nn.Conv2DTranspose(4, 3, strides=2), (1, 3, 5, 5)),
    "prelu": (nn.PReLU, (2, 3, 4, 4)),
}


@pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS.keys())
def test_layer_computes_what_gluon_computes(make, shape):
    check_agreement(make(), data=uniform(*shape))


rnn = mx.gluon.rnn
RECURRENT = {
    "lstm": lambda: rnn.LSTM(8),
    "deep lstm": lambda: rnn.LSTM(8, 3, layout="NTC"),
    "deep lstm both ways": lambda: rnn.LSTM(8, 2, bidirectional=True),
    "gru both ways": lambda: rnn.GRU(8, 2, bidirectional=True),
    "rnn": lambda: rnn.RNN(8, 2, activation="tanh"),
}


@pytest.mark.parametrize("make", RECURRENT.values(), ids=RECURRENT.keys())
def test_recurrent_layer_computes_what_gluon_computes(make):
    check_agreement(make(), data=uniform(5, 2, 4))


def test_recurrent_states_in_and_out():
    class Stateful(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.inner = rnn.LSTM(6, 2, bidirectional=True)

        def hybrid_forward(self, F, x, h, c):
            result, states = self.inner(x, [h, c])
            return [result, *states]

    check_agreement(Stateful(), x=uniform(5, 2, 4), h=uniform(4, 2, 6), c=uniform(4, 2, 6))


def test_fixed_scale_is_one_whatever_the_parameter_says():
    symbol = mx.sym.BatchNorm(mx.sym.var("x"), fix_gamma=True, name="bn")
    shapes = {"x": (2, 3, 4, 4)}
    model = from_symbol(symbol, dict.fromkeys(symbol.list_inputs()[1:]), shapes)
    assert "bn_gamma" not in model.weights
    scale = model.constants[model.layers[0].inputs[1]]
    np.testing.assert_array_equal(scale, np.ones(3))


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda F, x: F.softmax(x, axis=1), "Softmax"),
        (lambda F, x: F.mean(x, axis=(2, 3)), "ReduceMean"),
        (lambda F, x: F.broadcast_to(x, shape=(0, 0, 7, 0)), "Expand"),
    ],
)
def test_one_operator_stays_one(function, op):
    model = from_block(_Call(function), {"data": (1, 2, 1, 3)})
    assert [layer.op for layer in model.layers] == [op]


def test_layer_norm_and_gelu_stay_whole():
    block = nn.HybridSequential()
    block.add(nn.LayerNorm(), nn.GELU(), nn.Dense(4, flatten=False))
    model = from_block(block, {"data": (2, 5, 8)})
    ops = [layer.op for layer in model.layers]
    assert ops == ["LayerNormalization", "Gelu", "Reshape", "Gemm", "Reshape"]


def test_block_needs_no_values_and_no_initialization():
    block = nn.HybridSequential()
    block.add(nn.Conv2D(8, 3), nn.BatchNorm(), nn.Dense(10))
    model = from_block(block, {"image": (2, 3, 16, 16)}, name="mine")
    assert [layer.op for layer in model.layers] == ["Conv", "BatchNormalization", "Flatten", "Gemm"]
    assert model.inputs == ("image",)
    assert len(model.weights) == 8
    assert not model.weights & set(model.constants)


def test_loss_label_is_not_an_input():
    symbol = mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc"), name="softmax"
    )
    model = from_symbol(symbol, {"fc_weight": None, "fc_bias": None}, {"data": (2, 8)})
    assert model.inputs == ("data",)
    assert [layer.op for layer in model.layers] == ["Gemm", "Softmax"]


def test_plain_block_is_refused():
    with pytest.raises(ModelError, match="not a HybridBlock"):
        from_block(mx.gluon.nn.Sequential(), {"data": (1, 3)})


def test_operators_without_counterpart_are_all_named():
    block = _Call(lambda F, x: F.contrib.fft(F.sort(x)))
    with pytest.raises(UnsupportedError, match=r"operators sort \('.*'\), _contrib_fft \('"):
        from_block(block, {"data": (2, 8)})


def test_windows_of_different_sizes_are_refused():
    block = _Call(lambda F, x: F.contrib.AdaptiveAvgPooling2D(x, output_size=5))
    with pytest.raises(UnsupportedError, match="different sizes"):
        from_block(block, {"data": (1, 3, 12, 12)})


def test_wrong_shape_is_one_line():
    with pytest.raises(ModelError, match="MXNet") as caught:
        from_block(nn.Conv2D(4, 3, in_channels=3), {"data": (1, 5, 8, 8)})
    assert "\n" not in str(caught.value)


def test_export_leaves_no_trace_in_the_process():
    registry = __import__("mxnet.onnx.mx2onnx._export_onnx", fromlist=["x"]).MXNetGraph.registry_
    before = {version: dict(table) for version, table in registry.items()}
    check = onnx.checker.check_graph
    from_block(nn.Dense(3), {"data": (1, 4)})
    assert {version: dict(table) for version, table in registry.items()} == before
    assert onnx.checker.check_graph is check
    assert not hasattr(onnx, "mapping")
    assert "onnx.mapping" not in sys.modules


# -- files -----------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    block = nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(nn.Conv2D(8, 3), nn.BatchNorm(), nn.Dense(10))
    block.initialize()
    block.hybridize()
    block(mx.nd.zeros((1, 3, 16, 16)))
    block.export(str(tmp_path / "net"), epoch=3)
    return tmp_path / "net-symbol.json"


SHAPED = ImportOptions(shapes={"data": (2, 3, 16, 16)})


def test_exported_files_load(saved):
    model = MxnetImporter().load(saved, SHAPED)
    assert model.name == "net"
    assert model.source == str(saved)
    assert [layer.op for layer in model.layers] == ["Conv", "BatchNormalization", "Flatten", "Gemm"]
    assert model.inputs == ("data",)
    assert model.tensors[model.outputs[0]].sizes == (2, 10)


def test_parameter_headers_say_what_mxnet_says(saved):
    file = saved.with_name("net-0003.params")
    specs = read_specs(file)
    arrays = mx.nd.load(str(file))
    assert {k: s.sizes for k, s in specs.items()} == {k: a.shape for k, a in arrays.items()}
    assert {s.dtype for s in specs.values()} == {"float32"}


def test_the_last_epoch_counts_and_values_are_not_read(saved):
    older = saved.with_name("net-0003.params")
    saved.with_name("net-0001.params").write_bytes(b"damaged")
    assert MxnetImporter().load(saved, SHAPED).name == "net"
    older.unlink()
    with pytest.raises(ModelError, match=r"net-0001\.params holds no MXNet parameters"):
        MxnetImporter().load(saved, SHAPED)


def test_missing_shape_names_the_input(saved):
    with pytest.raises(ModelError, match="no shape for the input data") as caught:
        MxnetImporter().load(saved)
    assert "--dim data=" in caught.value.hint


def test_shape_in_the_graph_is_used(saved, tmp_path):
    symbol = mx.sym.relu(mx.sym.var("data", shape=(0, 3, 8, 8)))
    symbol.save(str(tmp_path / "open-symbol.json"))
    mx.nd.save(str(tmp_path / "open.params"), {"arg:unused": mx.nd.ones((1,))})
    model = MxnetImporter().load(tmp_path / "open-symbol.json", ImportOptions(batch=5))
    assert model.tensors["data"].sizes == (5, 3, 8, 8)


def test_shapes_of_weights_follow_from_inputs_without_a_file_of_them(saved):
    known = MxnetImporter().load(saved, SHAPED)
    saved.with_name("net-0003.params").unlink()
    found = MxnetImporter().load(saved, SHAPED)
    assert found.weights == known.weights
    assert {n: found.tensors[n] for n in found.weights} == {
        n: known.tensors[n] for n in known.weights
    }


def test_damaged_files_are_one_line(saved):
    params = saved.with_name("net-0003.params")
    params.write_bytes(params.read_bytes()[:-100])
    with pytest.raises(ModelError, match="truncated") as caught:
        MxnetImporter().load(saved, SHAPED)
    assert "\n" not in str(caught.value)
    params.unlink()
    with pytest.raises(ModelError, match="no parameters beside it") as caught:
        MxnetImporter().load(saved)
    assert "--dim" in caught.value.hint
    saved.write_text(saved.read_text()[:200])
    with pytest.raises(ModelError, match="not JSON"):
        MxnetImporter().load(saved, SHAPED)
    saved.write_text("{}")
    with pytest.raises(ModelError, match="no MXNet graph"):
        MxnetImporter().load(saved, SHAPED)
    saved.unlink()
    with pytest.raises(ModelError, match="does not exist"):
        MxnetImporter().load(saved, SHAPED)


def test_mxnet_starts_without_what_it_does_not_need_and_hides_it_from_nobody():
    code = """
import sys
from dlbricks_mxnet.framework import import_mxnet
import_mxnet()
assert not {"scipy.stats", "sklearn"} & sys.modules.keys()
import scipy.stats
import_mxnet()
assert scipy.stats is sys.modules["scipy.stats"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)

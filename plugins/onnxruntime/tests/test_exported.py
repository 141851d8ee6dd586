"""Files that ONNX Runtime's own tools write: they run, whole and in bricks, on valid values."""

from __future__ import annotations

import json
import logging
from collections import Counter

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.sessions import session_options
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from exported import classifier, decoder, encoder
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.optimizer import optimize_model

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import extract, split
from dlbricks_core.cli import main
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

logging.getLogger("onnxruntime").setLevel(logging.ERROR)

TOKEN = {"sequence_length": 1, "past_sequence_length": 6, "total_sequence_length": 7}
FLOATS = {"DefaultTensorType": onnx.TensorProto.FLOAT}
SETTINGS = BackendSettings(1, {"optimizations": "all"})


class Images(CalibrationDataReader):
    """Two random images."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.left = [rng.random((1, 3, 16, 16), np.float32) for _ in range(2)]

    def get_next(self):
        return {"image": self.left.pop()} if self.left else None


def four_bits(folder):
    quantizer = MatMulNBitsQuantizer(
        decoder(), bits=4, block_size=32, is_symmetric=True, accuracy_level=4
    )
    quantizer.process()
    return quantizer.model.model


def dynamic(given):
    def quantized(folder):
        onnx.save(given(folder), folder / "given.onnx")
        quantize_dynamic(folder / "given.onnx", folder / "made.onnx", extra_options=FLOATS)
        return onnx.load(folder / "made.onnx")

    return quantized


def optimized(folder):
    onnx.save(encoder(), folder / "encoder.onnx")
    path = str(folder / "encoder.onnx")
    return optimize_model(path, "bert", num_heads=4, hidden_size=64, opt_level=0).model


def static(form):
    def quantized(folder):
        onnx.save(classifier(), folder / "given.onnx")
        made = folder / "made.onnx"
        quantize_static(folder / "given.onnx", made, Images(), quant_format=form)
        return onnx.load(made)

    return quantized


#: Name -> how the file is made, sizes of its dimensions, operators that it must have.
FILES = {
    "decoder": (lambda folder: decoder(), TOKEN, {"GroupQueryAttention"}),
    "decoder with a window": (
        lambda folder: decoder(window=4),
        {"sequence_length": 8, "past_sequence_length": 0, "total_sequence_length": 8},
        {"GroupQueryAttention", "SkipSimplifiedLayerNormalization"},
    ),
    "decoder of four bits": (four_bits, TOKEN, {"MatMulNBits", "SimplifiedLayerNormalization"}),
    "dynamic decoder": (dynamic(lambda folder: decoder()), TOKEN, {"MatMulInteger"}),
    "optimized encoder": (
        optimized, {"sequence_length": 8}, {"Attention", "SkipLayerNormalization", "BiasGelu"},
    ),
    "dynamic encoder": (dynamic(optimized), {"sequence_length": 8}, {"QAttention"}),
    "static classifier": (
        static(QuantFormat.QOperator),
        {},
        {"QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearConcat", "QLinearLeakyRelu",
         "QLinearGlobalAveragePool", "QLinearAveragePool", "QGemm", "QLinearSoftmax"},
    ),
    "classifier with quantized edges": (static(QuantFormat.QDQ), {}, {"DequantizeLinear"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def timer():
    return OnnxruntimeTimer(SETTINGS)


@pytest.fixture(scope="module", params=FILES)
def model(request, tmp_path_factory):
    make, dims, operators = FILES[request.param]
    proto = make(tmp_path_factory.mktemp("file"))
    assert operators <= {node.op_type for node in proto.graph.node}
    return normalize(read_model(proto, name="exported"), batch=1, dims=dims)


def runs_soundly(timer, model):
    """Whether results are finite, and neither all zero nor near the limits of floats."""
    loaded = timer.load(materialize(model))
    timer.run(loaded)
    sound = True
    for value in timer.outputs(loaded).values():
        if value.dtype == np.float32 and value.size:
            sound &= bool(np.isfinite(value).all()) and 1e-6 < float(np.abs(value).max()) < 1e6
    timer.unload(loaded)
    return sound


def test_every_layer_has_its_shape_and_runs(model, timer):
    assert [layer.opaque for layer in model.layers if layer.opaque] == []
    assert OnnxruntimeBackend().check(model) == {}
    assert runs_soundly(timer, model)


def test_layers_and_short_sequences_run_alone(model, timer):
    for granularity in (1, 3):
        for sequence in split(model, granularity):
            assert runs_soundly(timer, extract(model, sequence, "brick"))


def test_the_graph_that_is_executed_is_cut_into_bricks_that_run(model, timer):
    rewritten = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    for sequence in split(rewritten, 4):
        assert runs_soundly(timer, extract(rewritten, sequence, "brick", exact=True))


def test_a_decoder_of_four_bits_is_estimated_and_timed_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    onnx.save(four_bits(tmp_path), tmp_path / "four.onnx")
    dims = [word for dim in TOKEN.items() for word in ("--dim", "{}={}".format(*dim))]
    with pytest.raises(SystemExit) as ended:
        main(["estimate", "--measure", "--backend", "onnxruntime", "--threads", "1", "--batch", "1",
              *dims, "--end-to-end", "--precision", "50%", "--budget", "5s", "--json",
              str(tmp_path / "run.json"), str(tmp_path / "four.onnx")])  # fmt: skip
    assert ended.value.code == 0
    written = json.loads((tmp_path / "run.json").read_text())
    (found,) = written["models"]
    assert written["failures"] == []
    assert not found["partial"]
    assert found["estimate"] > 0
    assert found["measured"] > 0


def convolutions(folder):
    """Two convolutions, of which one is rectified, quantized with a scale for each channel."""
    rng = np.random.default_rng(0)
    shapes = {"v": (8, 3, 3, 3), "b": (8,), "w": (8, 8, 3, 3), "c": (8,)}
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,3,16,16] image) => (float[N,C,H,W] y)'
        " { s = Conv(image, v, b) t = Relu(s) y = Conv(t, w, c) }"
    )
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(weights)
    onnx.save(proto, folder / "given.onnx")
    made = folder / "made.onnx"
    quantize_static(folder / "given.onnx", made, Images(), per_channel=True)
    return onnx.load(made)


def rectified(folder):
    """A convolution with a rectifier that the least code as its zero point makes superfluous."""
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,3,16,16] image) => (float[N,C,H,W] y)'
        " <float s = {0.013}, float d = {0.0172}, float e = {0.0002236}, int8 z = {-128},"
        " int8 middle = {0}> {"
        " a = QuantizeLinear(image, s, middle) b = DequantizeLinear(a, s, middle)"
        " v = DequantizeLinear(filter, d, middle) c = DequantizeLinear(bias, e)"
        " t = Conv(b, v, c) r = Relu(t)"
        " q = QuantizeLinear(r, s, z) y = DequantizeLinear(q, s, z) }"
    )
    proto = onnx.parser.parse_model(text)
    filters = np.ones((8, 3, 3, 3), np.int8), np.ones(8, np.int32)
    for name, value in zip(("filter", "bias"), filters, strict=True):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return proto


@pytest.mark.parametrize("made", [convolutions, rectified])
@pytest.mark.parametrize("exact", [True, False])
def test_bricks_of_a_quantized_file_compute_with_codes_as_the_file_does(
    timer, tmp_path, made, exact
):
    """ONNX Runtime decides by scales and zero points, which bricks do not know exactly."""
    proto = made(tmp_path)
    options = session_options(SETTINGS)
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(proto.SerializeToString(), options)
    wanted = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
    model = normalize(read_model(proto, name="quantized"))
    brick = extract(model, range(len(model.layers)), "whole", exact=exact)
    found = timer.load(materialize(brick)).graph.proto.graph.node
    assert {"Conv", "FusedConv"}.isdisjoint(wanted)
    assert Counter(node.op_type for node in found) == wanted

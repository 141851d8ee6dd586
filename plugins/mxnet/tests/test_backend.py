"""The MXNet backend: executors, threads, odd networks, memory, agreement with Gluon."""

import json
import os
import subprocess
import sys
import tracemalloc
from functools import cache

import numpy as np
import psutil
import pytest
from dlbricks_mxnet import loading
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import from_block, trace
from dlbricks_mxnet.lowering import lower
from dlbricks_mxnet.zoo import GluonZoo, image_size
from dlbricks_quantities.resident import forget_peak, peak_mib

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.errors import BackendError, UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.worker.memory import give_back, resident_mib

mx = import_mxnet()

EXECUTORS = tuple(MxnetBackend.options["executor"].choices)


@pytest.fixture(params=EXECUTORS)
def timer(request):
    settings = BackendSettings(threads=1, options={"executor": request.param})
    timer = MxnetBackend().timer(settings)
    yield timer
    timer.close()


def spec(dtype, *shape):
    return TensorSpec(dtype, shape)


def network(layers, inputs, outputs, tensors, weights=()):
    """A network in canonical form with random values."""
    rng = np.random.default_rng(3)
    model = CanonicalModel(
        name="net",
        layers=tuple(layers),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        tensors=tensors,
        weights=frozenset(weights),
        opsets={"": 21},
    )

    def value(name):
        s = tensors[name]
        if s.dtype == "bool":
            return rng.integers(0, 2, s.sizes).astype(bool)
        if s.dtype.startswith("int"):
            return rng.integers(0, 3, s.sizes).astype(s.dtype)
        return rng.uniform(-1, 1, s.sizes).astype(s.dtype)

    return Network(model, {n: value(n) for n in weights}, {n: value(n) for n in inputs})


def infer(timer, net):
    """Outputs of the second run: the first one builds caches."""
    loaded = timer.load(net)
    for _ in range(2):
        timer.warm_io(loaded)
        timer.run(loaded)
        timer.synchronize(loaded)
    outputs = timer.outputs(loaded)
    timer.unload(loaded)
    for name, value in outputs.items():
        assert value.shape == net.model.tensors[name].sizes
        assert value.dtype == np.dtype(net.model.tensors[name].dtype)
    return outputs


def conv_attributes():
    return {"kernel_shape": (3, 3), "strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1),
            "group": 1}  # fmt: skip


def convolution(channels=4, size=8):
    return network(
        [Layer("Conv", ("x", "w", "b"), ("c",), conv_attributes()), Layer("Relu", ("c",), ("y",))],
        ["x"],
        ["y"],
        {
            "x": spec("float32", 1, channels, size, size),
            "w": spec("float32", channels, channels, 3, 3),
            "b": spec("float32", channels),
            "c": spec("float32", 1, channels, size, size),
            "y": spec("float32", 1, channels, size, size),
        },
        ["w", "b"],
    )


def test_executors_compute_the_same():
    net = convolution()
    results = []
    for executor in EXECUTORS:
        settings = BackendSettings(threads=1, options={"executor": executor})
        results.append(infer(MxnetBackend().timer(settings), net)["y"])
    assert results[0].max() > 0
    np.testing.assert_allclose(results[0], results[1], atol=1e-5)


def test_warming_leaves_inputs_as_they_are(timer):
    net = convolution()
    loaded = timer.load(net)
    timer.warm_io(loaded)
    np.testing.assert_array_equal(loaded.inputs[0].asnumpy(), net.inputs["x"])


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_inputs_of_other_types(timer, dtype):
    s = spec(dtype, 2, 3)
    net = network([Layer("Add", ("a", "b"), ("y",))], ["a", "b"], ["y"], {"a": s, "b": s, "y": s})
    outputs = infer(timer, net)
    np.testing.assert_array_equal(outputs["y"], net.inputs["a"] + net.inputs["b"])


def test_boolean_inputs(timer):
    s = spec("bool", 2, 3)
    net = network([Layer("Not", ("a",), ("y",))], ["a"], ["y"], {"a": s, "y": s})
    np.testing.assert_array_equal(infer(timer, net)["y"], ~net.inputs["a"])


def test_tensors_without_axes(timer):
    s = spec("float32")
    net = network([Layer("Add", ("a", "b"), ("y",))], ["a"], ["y"], {"a": s, "b": s, "y": s}, ["b"])
    wanted = net.inputs["a"] + net.weights["b"]
    np.testing.assert_allclose(infer(timer, net)["y"], wanted, rtol=1e-6)


def test_outputs_that_are_inputs_or_weights_or_twice_the_same_value(timer):
    s = spec("float32", 2, 3)
    net = network(
        [Layer("Tanh", ("a",), ("y",)), Layer("Identity", ("y",), ("z",))],
        ["a"],
        ["y", "a", "w", "z"],
        dict.fromkeys("awyz", s),
        ["w"],
    )
    outputs = infer(timer, net)
    assert list(outputs) == ["y", "a", "w", "z"]
    np.testing.assert_array_equal(outputs["a"], net.inputs["a"])
    np.testing.assert_array_equal(outputs["w"], net.weights["w"])
    np.testing.assert_allclose(outputs["y"], np.tanh(net.inputs["a"]), atol=1e-6)
    np.testing.assert_array_equal(outputs["y"], outputs["z"])


def test_unused_inputs_are_fine(timer):
    s = spec("float32", 2, 3)
    net = network([Layer("Tanh", ("a",), ("y",))], ["a", "b"], ["y"], dict.fromkeys("aby", s))
    np.testing.assert_allclose(infer(timer, net)["y"], np.tanh(net.inputs["a"]), atol=1e-6)


def test_unknown_operators_are_refused_before_anything_runs(timer):
    s = spec("float32", 2, 3)
    net = network([Layer("Mystery", ("a",), ("y",))], ["a"], ["y"], dict.fromkeys("ay", s))
    assert "Mystery" in MxnetBackend().check(net.model)[0]
    with pytest.raises(UnsupportedError, match="Mystery"):
        timer.load(net)


def test_unload_frees_memory(timer):
    net = convolution(channels=1024, size=4)  # 36 MiB of weights
    process = psutil.Process()
    used = []
    for _ in range(9):
        infer(timer, net)
        used.append(process.memory_info().rss)
    # Each of MXNet's four priority workers keeps the last weights that it reordered.
    growth = (used[-1] - used[4]) / 2**20
    assert growth < 36, f"{growth:.0f} MiB after 4 more networks of 36 MiB"


def test_opening_files_takes_one_weight_more_than_all_of_them(timer, tmp_path):
    sizes, width = 4, 3072  # 36 MiB each
    tensors = {f"x{i}": spec("float32", 1, width) for i in range(sizes + 1)}
    tensors |= {f"w{i}": spec("float32", width, width) for i in range(sizes)}
    layers = [Layer("MatMul", (f"x{i}", f"w{i}"), (f"x{i + 1}",)) for i in range(sizes)]
    weights = [f"w{i}" for i in range(sizes)]
    saved = timer.save(network(layers, ["x0"], [f"x{sizes}"], tensors, weights), tmp_path)

    def taken_mib():
        give_back()
        forget_peak()
        before = resident_mib()
        timer.unload(saved.open())
        return peak_mib() - before

    # All arrays of the file beside all copies would be 8 * 36.
    most = 7.5 * 36
    # Where other programs hold up MXNet's threads, they free the arrays of the file late.
    taken = next((mib for mib in (taken_mib() for _ in range(4)) if mib < most), most)
    assert 4 * 36 < taken < most, f"{taken:.0f} MiB for 4 weights of 36 MiB"


def test_a_transposed_weight_is_copied_once(timer, monkeypatch):
    monkeypatch.setattr(loading, "_PART_BYTES", 2**22)
    tensors = {"x": spec("float32", 1, 1024), "w": spec("float32", 1024, 2048)}
    tensors |= {"y": spec("float32", 1, 2048)}
    drawn = network([Layer("MatMul", ("x", "w"), ("y",))], ["x"], ["y"], tensors, ["w"])
    tracemalloc.start()
    loaded = timer.load(drawn)
    _, taken = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    timer.run(loaded)
    expected = drawn.inputs["x"] @ drawn.weights["w"]
    np.testing.assert_allclose(timer.outputs(loaded)["y"], expected, rtol=1e-3, atol=1e-2)
    timer.unload(loaded)
    # MXNet's own array is not among what Python traces: this is what numpy copies beside it.
    assert 0 < taken < 0.75 * drawn.weights["w"].nbytes


def test_forgotten_results_are_freed(timer):
    loaded = timer.load(convolution())
    timer.run(loaded)
    timer.forget(loaded)
    assert loaded.results == ()
    timer.unload(loaded)


def test_unloaded_networks_do_not_run(timer):
    loaded = timer.load(convolution())
    timer.unload(loaded)
    with pytest.raises(BackendError, match="unloaded"):
        timer.run(loaded)


@pytest.mark.parametrize(
    ("timer", "name"),
    zip(EXECUTORS, ["squeezenet1.1", "mobilenetv2_0.25", "resnet18_v2"], strict=True),
    indirect=["timer"],
)
def test_zoo_networks_run_as_gluon_runs_them(timer, name):
    block = mx.gluon.model_zoo.vision.get_model(name)
    mx.random.seed(0)
    block.initialize(mx.init.Xavier(magnitude=3))
    image = mx.nd.random.uniform(-1, 1, (1, 3, *image_size(name)))
    wanted = block(image).asnumpy()
    model = normalize(from_block(block, {"data": image.shape}))
    values = {k: p.data().asnumpy() for k, p in block.collect_params().items()}
    values.update(model.constants)
    weights = {k: values[k] for k in model.weights}
    (ours,) = infer(timer, Network(model, weights, {"data": image.asnumpy()})).values()
    assert wanted.std() > 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-3 * np.abs(wanted).max())


def operators(symbol):
    """Operators in order, without what inference does not need or a dense layer contains."""
    nodes = json.loads(symbol.tojson())["nodes"]
    return [n["op"] for n in nodes if n["op"] not in ("null", "Dropout", "Flatten")]


@pytest.mark.parametrize(
    "name", ["resnet50_v1", "resnet18_v2", "vgg11_bn", "alexnet", "densenet121", "squeezenet1.0",
             "inceptionv3", "mobilenet0.5", "mobilenetv2_0.5"],
)  # fmt: skip
def test_lowering_gives_back_the_operators_that_gluon_runs(name):
    block = mx.gluon.model_zoo.vision.get_model(name)
    shapes = {"data": (1, 3, *image_size(name))}
    symbol, _ = trace(block, shapes)
    model = normalize(from_block(block, shapes))
    weights = {k: np.zeros(model.tensors[k].sizes, np.float32) for k in model.weights}
    lowered = lower(Network(model, {**weights, **model.constants}, {}))
    assert operators(lowered.symbol) == operators(symbol)


# -- settings ---------------------------------------------------------------------------

_PROBE = """
import os, sys
from dlbricks_core.backends import BackendSettings
from dlbricks_mxnet.backend import MxnetBackend
threads = int(sys.argv[1])
timer = MxnetBackend().timer(BackendSettings(threads, {"executor": "symbol"}))
sys.path.insert(0, sys.argv[2])
from test_backend import convolution
loaded = timer.load(convolution(64, 64))
timer.run(loaded)
timer.synchronize(loaded)
print(len(os.listdir("/proc/self/task")))
"""


@cache
def _probe(threads):
    """What a process that runs a convolution with some threads prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "MXNET_"))}
    folder = os.path.dirname(__file__)  # noqa: PTH120
    return subprocess.run(
        [sys.executable, "-c", _PROBE, str(threads), folder],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )


def test_memory_is_that_of_the_engine_that_users_run():
    backend = MxnetBackend()
    options = {name: each.default for name, each in backend.options.items()}
    used = backend.as_used(BackendSettings(2, options))
    assert backend.environment(used)["MXNET_ENGINE_TYPE"] == "ThreadedEnginePerDevice"
    assert used == BackendSettings(2, {**options, "engine": "threaded"})


def test_memory_is_read_once_the_engine_has_finished(monkeypatch, tmp_path):
    timer = MxnetBackend().timer(BackendSettings(1))
    waited = []
    monkeypatch.setattr(mx.nd, "waitall", lambda: waited.append(True))
    saved = timer.save(convolution(8, 8), tmp_path)
    fed = saved.feed()
    loaded = saved.prepare(saved.parse(), fed)
    timer.forget(loaded)
    assert len(waited) == 3


def test_threads_take_effect():
    assert int(_probe(2).stdout) > int(_probe(1).stdout)


def test_nothing_reaches_the_user_on_stderr():
    lines = _probe(1).stderr.splitlines()
    # MXNet names its engine wherever one is chosen; the worker keeps that to itself.
    assert [line for line in lines if "MXNet start using engine" not in line] == []


def test_threads_cannot_change_later():
    with pytest.raises(BackendError, match="imported before") as caught:
        MxnetBackend().timer(BackendSettings(threads=7))
    assert "OMP_NUM_THREADS=7" in caught.value.hint


@pytest.mark.parametrize("options", [{"executor": "fast"}, {"colour": "red"}])
def test_unknown_options_are_refused(options):
    with pytest.raises(BackendError, match="mxnet has no option") as caught:
        MxnetBackend().timer(BackendSettings(threads=1, options=options))
    assert "executor=cachedop|static|symbol" in caught.value.hint


def test_version_is_that_of_the_framework():
    assert MxnetBackend().version() == mx.__version__


def test_default_models_are_in_the_zoo():
    assert len(MxnetBackend.default_models) >= 4
    for model in MxnetBackend.default_models:
        assert model.removeprefix("mxnet:") in GluonZoo().names()


def test_a_copy_reads_the_same_inputs_with_other_weights(timer):
    tensors = {"x": spec("float32", 2, 3), "w": spec("float32", 3, 4), "y": spec("float32", 2, 4)}
    first = network([Layer("MatMul", ("x", "w"), ("y",))], "x", "y", tensors, "w")
    other = Network(first.model, {"w": first.weights["w"] + 1}, {"x": first.inputs["x"] + 1})
    loaded = timer.load(first)
    copy = timer.load_copy(other, loaded, private_cache_bytes=0)
    results = []
    for each in (loaded, copy):
        timer.run(each)
        timer.synchronize(each)
        results.append(timer.outputs(each)["y"])
    for result, weights in zip(results, (first.weights, other.weights), strict=True):
        np.testing.assert_allclose(result, first.inputs["x"] @ weights["w"], rtol=1e-4)
    timer.unload(copy)
    timer.warm_io(loaded)
    timer.run(loaded)
    np.testing.assert_array_equal(timer.outputs(loaded)["y"], results[0])


@pytest.mark.parametrize(("priming", "expected"), [("displaced", ["itself"]), ("copy", [])])
def test_before_a_copy_the_network_itself_runs(priming, expected):
    timer = MxnetBackend().timer(BackendSettings(1, {"priming": priming}))
    tensors = {"x": TensorSpec("float32", (4, 4)), "y": TensorSpec("float32", (4, 4))}
    loaded = timer.load(network([Layer("Relu", ("x",), ("y",))], "x", "y", tensors))
    again = network([Layer("Relu", ("x",), ("y",))], "x", "y", tensors)
    copy = timer.load_copy(again, loaded, private_cache_bytes=0)
    order, start = [], loaded.start
    loaded.start = lambda arrays: order.append("itself") or start(arrays)
    timer.run(copy)
    assert order == expected


def weighed(timer, private_cache_bytes):
    """A product that is loaded, with a copy; what the product computed when the copy ran."""
    tensors = dict.fromkeys("xwy", spec("float32", 4, 4))
    first = network([Layer("MatMul", ("x", "w"), ("y",))], "x", "y", tensors, "w")
    other = Network(first.model, {"w": first.weights["w"] + 1}, first.inputs)
    loaded = timer.load(first)
    copy = timer.load_copy(other, loaded, private_cache_bytes=private_cache_bytes)
    computed, start = [], loaded.start

    def started(arrays):
        results = start(arrays)
        computed.append(results[0].asnumpy())
        return results

    loaded.start = started
    timer.run(copy)
    timer.synchronize(copy)
    loaded.start = start
    x = first.inputs["x"]
    return loaded, copy, computed, x @ first.weights["w"], x @ other.weights["w"]


@pytest.mark.parametrize("executor", ["cachedop", "static", "symbol"])
@pytest.mark.parametrize("private_cache_bytes", [0, 2**20])
def test_before_its_copy_a_network_runs_on_the_weights_of_that(executor, private_cache_bytes):
    timer = MxnetBackend().timer(BackendSettings(1, {"executor": executor}))
    loaded, copy, computed, own, others = weighed(timer, private_cache_bytes)
    # Executors other than the default have their weights for good.
    exchanged = executor == "cachedop"
    np.testing.assert_allclose(computed[0], others if exchanged else own, rtol=1e-4)
    np.testing.assert_allclose(timer.outputs(copy)["y"], others, rtol=1e-4)
    timer.run(loaded)
    np.testing.assert_allclose(timer.outputs(loaded)["y"], own, rtol=1e-4)
    if executor == "cachedop":
        shared = loaded.results[0].asnumpy() == copy.results[0].asnumpy()
        # The timed run puts its results where the copy had put its own.
        assert shared.all() == bool(private_cache_bytes)


@pytest.mark.parametrize(
    ("priming", "held"), [("displaced", [256, 512]), ("both", []), ("copy", [])]
)
def test_other_memory_takes_the_place_of_a_brick_in_the_near_caches(priming, held):
    timer = MxnetBackend().timer(BackendSettings(1, {"priming": priming}))
    for nbytes in (0, 2**20, 2**21):
        weighed(timer, nbytes)
    assert list(timer._elsewhere) == held


_MANY_CONVOLUTIONS = """
from dlbricks_core.backends import BackendSettings
from dlbricks_mxnet.backend import MxnetBackend
MxnetBackend().timer(BackendSettings())
import mxnet
weight = mxnet.nd.ones((16, 16, 3, 3))
for _ in range(2):
    print("pass", flush=True)
    for width in range(5, 605):
        data = mxnet.nd.ones((1, 16, 5, width))
        options = {"no_bias": True, "kernel": (3, 3), "num_filter": 16}
        mxnet.nd.Convolution(data, weight, **options).asnumpy()
"""


def test_what_many_networks_need_of_onednn_is_kept():
    done = subprocess.run(
        [sys.executable, "-c", _MANY_CONVOLUTIONS],
        env={**os.environ, "DNNL_VERBOSE": "2"},
        check=True,
        capture_output=True,
        text=True,
    )
    _, first, second = done.stdout.split("pass\n")
    assert first.count("create:cache_miss") > 1024
    assert second.count("create:cache_hit") > 1024
    assert "create:cache_miss" not in second


def test_a_reason_is_what_mxnet_puts_below_its_stack():
    with pytest.raises(mx.MXNetError) as caught:
        mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3))).wait_to_read()
    assert str(caught.value).startswith("Traceback")
    assert MxnetBackend().reason(caught.value) == ("MXNetError: dot shape error: [2,3] X [2,3]")


def test_reasons_of_other_errors_are_their_first_line():
    error = ValueError("the first\nCheck failed: of something else")
    assert MxnetBackend().reason(error) == "ValueError: the first"

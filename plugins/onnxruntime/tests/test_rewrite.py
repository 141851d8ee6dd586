"""The graph that ONNX Runtime executes, and bricks cut from it."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.buffers import places
from dlbricks_onnxruntime.rewrite import _open, _part
from dlbricks_onnxruntime.sessions import session_options
from dlbricks_onnxruntime.timer import OnnxruntimeTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet, native_to
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, packed, read_model, unpacked
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


@pytest.fixture(scope="module", params=["light_squeezenet", "light_resnet50", "light_shufflenet"])
def model(request):
    return normalize(LightModels().load(request.param))


@pytest.fixture(scope="module")
def rewritten(model):
    return OnnxruntimeBackend().rewrite(model, SETTINGS, 0)


def test_it_is_smaller_and_complete(model, rewritten):
    assert native_to(rewritten) == "onnxruntime"
    assert len(rewritten.layers) < len(model.layers)
    assert all(spec.is_static for spec in rewritten.tensors.values())
    assert rewritten.inputs == model.inputs
    assert rewritten.outputs == model.outputs


def test_what_a_store_keeps_of_it_is_cut_into_the_same_bricks(rewritten):
    again = unpacked(packed(rewritten), name="again")
    for granularity, strategy in ((1, "chain"), (128, "segments")):
        cut = [BrickSet.of([each], granularity, strategy).bricks for each in (again, rewritten)]
        assert list(cut[0]) == list(cut[1])


GELU = """<ir_version: 8, opset_import: ["" : 17]>
    gelu (float[64, 64] x) => (float[64, 64] y)
    <float root = {1.4142135}, float one = {1.0}, float half = {0.5}>
    { a = Div(x, root)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half) }
"""


def test_the_whole_model_is_fused_like_what_its_bricks_are_cut_from():
    model = normalize(read_model(onnx.parser.parse_model(GELU), name="gelu"))
    found = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    assert [layer.op for layer in found.layers] == ["Gelu"]
    (cut,) = BrickSet.of([model], 128, "segments", {0: found}).models
    profile = OnnxruntimeTimer(SETTINGS).profile(materialize(cut.whole.model), 3)
    assert [each.operator for each in profile.layers] == [
        each.qualified_op for each in found.layers
    ]


GATHERS = """<ir_version: 8, opset_import: ["" : 17]>
    gathers (float[3, 8, 64] x) => (float[8, 64] y)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}>
    { a = Gather<axis = 0>(x, zero)  b = Gather<axis = 0>(x, one)  c = Gather<axis = 0>(x, two)
      d = Mul(a, b)  y = Add(d, c) }
"""

SPLITS = """<ir_version: 8, opset_import: ["" : 17]>
    splits (float[8, 64] x) => (float[8, 32] y)
    { a, b = Split<axis = 1>(x)  c, d = Split<axis = 1>(x)  y = Mul(a, d) }
"""


@pytest.mark.parametrize("text", [GATHERS, SPLITS])
def test_the_whole_model_is_rewritten_like_the_model(text):
    model = normalize(read_model(onnx.parser.parse_model(text), name="model"))
    (cut,) = BrickSet.of([model], 128, "segments", {}).models
    of_model, of_whole = (
        [layer.op for layer in OnnxruntimeBackend().rewrite(each, SETTINGS, 0).layers]
        for each in (model, cut.whole.model)
    )
    assert of_whole == of_model
    assert of_model.count("Split") == 1


def test_shapes_that_are_inferred_are_those_of_a_run(model, rewritten, monkeypatch):
    unknown = TensorSpec("undefined", None)
    monkeypatch.setattr("dlbricks_onnxruntime.rewrite._inferred", lambda output: unknown)
    assert OnnxruntimeBackend().rewrite(model, SETTINGS, 0).tensors == rewritten.tensors


SIZES = """<ir_version: 8, opset_import: ["" : 17]>
    sizes (float[2, 64] x, bool most) => (float[2, 64] y, int64[1] n)
    <float[64, 64] w>
    { p = Mul(x, x)  positions = NonZero(p)  rows = Shape(positions)
      n = If(most) <then_branch = t () => (int64[1] a) { a = Slice(rows, one, two) },
                    else_branch = e () => (int64[1] b) { b = Slice(rows, zero, one) }>
      y = MatMul(p, w) }
"""


def test_sizes_are_computed_without_what_they_do_not_depend_on(tmp_path):
    proto = onnx.parser.parse_model(SIZES)
    weights = {name: np.array([i], np.int64) for i, name in enumerate(("zero", "one", "two"))}
    weights["w"] = np.zeros((64, 64), np.float32)
    for name, value in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    part = _part(proto, ["n"])
    assert [node.op_type for node in part.graph.node] == ["Mul", "NonZero", "Shape", "If"]
    assert {each.name for each in part.graph.initializer} == {"zero", "one", "two"}
    x = np.ones((2, 64), np.float32)
    path = tmp_path / "part.onnx"
    session = _open(part, path, session_options(SETTINGS))
    (n,) = session.run(None, {"x": x, "most": np.array(True)})
    assert n.tolist() == [128]


def test_nothing_is_rewritten_where_that_is_switched_off(model):
    off = BackendSettings(1, {"optimizations": "off"})
    assert len(OnnxruntimeBackend().rewrite(model, off, 0).layers) == len(model.layers)


def test_every_segment_of_it_runs(model, rewritten):
    timer = OnnxruntimeTimer(SETTINGS)
    bricks = BrickSet.of([model], 128, "segments", {0: rewritten}).bricks
    for brick in bricks.values():
        loaded = timer.load(materialize(brick.model))
        for _ in range(2):
            timer.warm_io(loaded)
            timer.run(loaded)
        assert all(np.isfinite(value).all() for value in timer.outputs(loaded).values())
        timer.unload(loaded)


def results(timer, model):
    """Of a second run, after what the first one may have written over."""
    loaded = timer.load(materialize(model))
    for _ in range(2):
        timer.warm_io(loaded)
        timer.run(loaded)
    found = timer.outputs(loaded)
    timer.unload(loaded)
    return found


def test_what_shares_memory_leaves_results_as_they_are(model, rewritten):
    timer = OnnxruntimeTimer(SETTINGS)
    bricks = BrickSet.of([model], 128, "segments", {0: rewritten}).bricks
    sharing = [brick.model for brick in bricks.values() if places(brick.model)]
    for brick in sharing:
        alone = results(timer, replace(brick, annotations={}))
        for name, value in results(timer, brick).items():
            np.testing.assert_allclose(value, alone[name], rtol=1e-4, atol=1e-5)
    assert sharing or model.name != "light_resnet50"


X, Y = TensorSpec("float32", (4, 6)), TensorSpec("float32", (2, 12))


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        # A sum that writes over what is fed, and another layer over the sum.
        ("Sigmoid x > a, Add x a > b, Relu b > c, Softmax c > y", {"b": "x", "c": "x"}),
        ("Add x x > y", {"y": "x"}),
        # What the last layer writes over.
        ("Sigmoid x > a, Softmax a > b, Relu b > y", {"b": "y"}),
        # All the way from what is fed to what is handed on.
        ("Relu x > a, Relu a > y", {"a": "x", "y": "x"}),
        # What is read again later, or by somebody else, stays.
        ("Relu x > a, Sigmoid a > b, Add x b > y", {"y": "x", "a": ""}),
        ("Sigmoid x > a, Relu a > y, Softmax a > z", {}),
        # Another shape of the same, at the end and at the beginning.
        ("Sigmoid x > a, Reshape a > Y", {"a": "Y"}),
        ("Reshape x > Q, Sigmoid Q > Y", {}),
        # What indices are computed from.
        ("Add x x > a, Cast a > b, Gather t b > y", {}),
    ],
)
def test_places(layers, expected):
    made = []
    for text in layers.split(", "):
        (op, *reads), (written,) = (side.split() for side in text.split(" > "))
        made.append(Layer(op, tuple(reads), (written,)))
    names = {name for layer in made for name in (*layer.inputs, *layer.outputs)}
    specs = {name: Y if name.isupper() else X for name in names}
    outputs = tuple(sorted(names & {"y", "z", "Y"}))
    found = places(CanonicalModel("m", tuple(made), ("x",), outputs, specs))
    assert found == {name: place for name, place in expected.items() if place}


def test_memory_begins_on_a_cache_line(model):
    timer = OnnxruntimeTimer(SETTINGS)
    loaded = timer.load(materialize(model))
    assert all(array.ctypes.data % 64 == 0 for array in loaded.arrays.values())


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_results_are_warmed_and_then_inputs_and_keep_their_values(dtype):
    timer = OnnxruntimeTimer(SETTINGS)
    spec = TensorSpec(dtype, (3, 5))
    same = CanonicalModel(
        "same", (Layer("Identity", ("x",), ("y",)),), ("x",), ("y",), {"x": spec, "y": spec}
    )
    loaded = timer.load(materialize(same))
    timer.run(loaded)
    before = {name: array.copy() for name, array in loaded.arrays.items()}
    timer.warm_io(loaded)
    for name, array in loaded.arrays.items():
        np.testing.assert_array_equal(array, before[name])
    addresses = [memory.ctypes.data for memory in loaded.warmed]
    assert addresses == [loaded.arrays[name].ctypes.data for name in "yx"]
    for memory in loaded.warmed:
        memory.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            timer.warm_io(loaded)
        memory.flags.writeable = True


def test_a_copy_works_on_the_same_memory():
    timer = OnnxruntimeTimer(SETTINGS)
    model = normalize(LightModels().load("light_squeezenet"))
    loaded = timer.load(materialize(model, 0))
    copy = timer.load_copy(materialize(model, 1), loaded, private_cache_bytes=0)
    timer.run(loaded)
    (name,) = model.outputs
    result = timer.outputs(loaded)[name]
    loaded.arrays[name].fill(np.nan)
    timer.run(copy)
    assert np.isfinite(timer.outputs(loaded)[name]).all()
    timer.run(loaded)
    np.testing.assert_array_equal(timer.outputs(loaded)[name], result)


def test_what_was_rewritten_is_opened_as_it_stands(model, rewritten, tmp_path):
    timer = OnnxruntimeTimer(SETTINGS)
    for each, optimizations in ((model, "all"), (rewritten, "off")):
        saved = timer.save(materialize(each), tmp_path)
        assert saved.settings.options["optimizations"] == optimizations


GROWTH = """
import sys
from dlbricks_core.backends import BackendSettings
from dlbricks_core.worker.memory import MIB, resident_mib
from dlbricks_testing.cases import build
from dlbricks_core.values import materialize
from dlbricks_onnxruntime.rewrite import _open, _part
from dlbricks_onnxruntime.sessions import session_options
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
text = "(int64[4] x, float[%s,32] w) => (y) { y = Gather<axis = 0>(w, x) }" % sys.argv[1]
model = build(text).model
timer = OnnxruntimeTimer(BackendSettings(1, {"optimizations": "all"}))
loaded = timer.load(materialize(model, 0))
other = materialize(model, 1)
before = resident_mib()
copy = timer.load_copy(other, loaded, private_cache_bytes=0)
timer.run(copy)
print((resident_mib() - before) * MIB / model.weight_bytes)
"""
"""Prints what a copy adds to the memory of a process that has freed little before, as a share of
the weights."""


@pytest.mark.parametrize("rows", [2**18, 2**19], ids=["optimized beforehand", "as it stands"])
def test_the_weights_of_a_copy_lie_in_other_memory(rows):
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(rows)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) > 0.9


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "float8e4m3fn", "float8e5m2"])
def test_large_weights_of_every_type_are_loaded(dtype):
    square = TensorSpec("float32", (128, 128))
    model = CanonicalModel(
        "quantized",
        (Layer("DequantizeLinear", ("w", "s"), ("a",)), Layer("Add", ("x", "a"), ("y",))),
        ("x",),
        ("y",),
        {"w": TensorSpec(dtype, (128, 128)), "s": TensorSpec("float32", ()),
         **dict.fromkeys("xay", square)},
        frozenset({"w", "s"}),
    )  # fmt: skip
    network = materialize(model)
    weights = network.weights["w"].astype(np.float32) * network.weights["s"]
    (found,) = results(OnnxruntimeTimer(SETTINGS), model).values()
    np.testing.assert_allclose(found, network.inputs["x"] + weights, rtol=1e-5, atol=1e-6)


def test_a_model_in_float16_shows_which_kernels_compute_in_float32():
    model = convert(normalize(LightModels().load("light_squeezenet")), "float16")
    rewritten = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    casts = [layer for layer in rewritten.layers if layer.op == "Cast"]
    types = {rewritten.tensors[layer.outputs[0]].dtype for layer in rewritten.layers}
    assert rewritten.tensors[rewritten.inputs[0]].dtype == "float16"
    assert rewritten.tensors[rewritten.outputs[0]].dtype == "float16"
    assert casts
    assert "float32" in types


def test_a_type_without_kernels_is_named():
    model = convert(normalize(LightModels().load("light_squeezenet")), "bfloat16")
    reasons = OnnxruntimeBackend().check(model)
    assert reasons[0] == "ONNX Runtime: no CPU kernel for Conv of bfloat16"

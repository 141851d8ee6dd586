"""Different spellings of the same layer come to the same form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx.defs
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, Layer, RawModel, TensorSpec, read_model
from dlbricks_core.operators import OPERATORS, operator
from dlbricks_core.passes import normalize
from dlbricks_core.passes.shapes import infer


def canonical(
    op: str,
    shape: tuple[int, ...],
    *weights: Any,
    opset: int = 17,
    outputs: int = 1,
    dtype: int = TensorProto.FLOAT,
    **attributes: Any,
) -> CanonicalModel:
    """The canonical form of one layer that reads x and weights."""
    held = {f"w{i}": np.asarray(value) for i, value in enumerate(weights) if value is not None}
    names = ["x", *(f"w{i}" if value is not None else "" for i, value in enumerate(weights))]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return normalize(read_model(proto, name="m"))


def form(model: CanonicalModel) -> list[Any]:
    """Everything about a model's layers but names; parameters by value."""
    return [
        (
            layer.op,
            dict(layer.attributes),
            [
                None
                if not name
                else (model.tensors[name], model.constants[name].tolist())
                if name in model.constants
                else model.tensors[name]
                for name in layer.inputs
            ],
            [model.tensors[name] for name in layer.outputs if name],
        )
        for layer in model.layers
    ]


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


W = np.zeros((4, 3, 3, 3), np.float32)
S = (2, 3, 8, 8)

SPELLINGS: dict[str, list[CanonicalModel]] = {
    "conv defaults": [
        canonical("Conv", S, W),
        canonical("Conv", S, W, kernel_shape=[3, 3], strides=[1, 1], group=1, pads=[0] * 4,
                  dilations=[1, 1], auto_pad="NOTSET", opset=9),
        canonical("Conv", S, W, auto_pad="VALID", opset=22),
    ],
    "conv same": [
        canonical("Conv", S, W, auto_pad="SAME_UPPER"),
        canonical("Conv", S, W, auto_pad="SAME_LOWER", opset=8),
        canonical("Conv", S, W, pads=[1, 1, 1, 1]),
    ],
    "max pool": [
        canonical("MaxPool", S, kernel_shape=[2, 2], strides=[2, 2]),
        canonical("MaxPool", S, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        canonical("MaxPool", S, kernel_shape=[2, 2], strides=[2, 2], opset=7),
    ],
    "clip": [
        canonical("Clip", S, min=0.0, max=6.0, opset=7),
        canonical("Clip", S, np.float32(0), np.float32(6), opset=11),
        canonical("Clip", S, np.zeros(1, np.float32), np.full(1, 6, np.float32), opset=13),
    ],
    "clip below": [
        canonical("Clip", S, min=0.0, opset=9),
        canonical("Clip", S, np.float32(0)),
        canonical("Clip", S, np.float32(0), np.float32(np.finfo(np.float32).max)),
        canonical("Clip", S, np.float32(0), np.float32(np.inf)),
    ],
    "pad": [
        canonical("Pad", S, pads=[0, 0, 1, 1, 0, 0, 1, 1], opset=10),
        canonical("Pad", S, i64(0, 0, 1, 1, 0, 0, 1, 1), opset=13),
        canonical("Pad", S, i64(0, 0, 1, 1, 0, 0, 1, 1), np.float32(0), mode="constant"),
        canonical("Pad", S, i64(1, 1, 1, 1), None, i64(-2, 3), opset=19),
        canonical("Pad", S, i64(1, 1, 1, 1), None, i64(3, 2), opset=21),
    ],
    "slice": [
        canonical("Slice", S, starts=[1], ends=[3], axes=[1], opset=9),
        canonical("Slice", S, i64(1), i64(2**63 - 1), i64(1)),
        canonical("Slice", S, i64(-2), i64(3), i64(-3), i64(1)),
        canonical("Slice", S, np.array([1], np.int32), np.array([3], np.int32),
                  np.array([1], np.int32)),
        canonical("Slice", S, i64(0, 1), i64(9, 3)),
    ],
    "squeeze": [
        canonical("Squeeze", (1, 3, 1), opset=7),
        canonical("Squeeze", (1, 3, 1), axes=[2, 0], opset=7),
        canonical("Squeeze", (1, 3, 1), axes=[-1, 0], opset=11),
        canonical("Squeeze", (1, 3, 1), i64(0, 2)),
        canonical("Squeeze", (1, 3, 1), i64(-1, -3)),
    ],
    "unsqueeze": [
        canonical("Unsqueeze", S, axes=[5, 0], opset=7),
        canonical("Unsqueeze", S, i64(-6, -1)),
    ],
    "reduce": [
        canonical("ReduceMean", S, axes=[3, 2], opset=7),
        canonical("ReduceMean", S, axes=[-1, -2], keepdims=1, opset=13),
        canonical("ReduceMean", S, i64(2, 3), opset=18),
        canonical("ReduceMean", S, i64(-1, 2), opset=18, noop_with_empty_axes=1),
    ],
    "reduce all": [
        canonical("ReduceSum", S, opset=7),
        canonical("ReduceSum", S, i64(0, 1, 2, 3)),
        canonical("ReduceSum", S, i64()),
    ],
    "split": [
        canonical("Split", S, axis=3, outputs=2, opset=7),
        canonical("Split", S, split=[4, 4], axis=-1, outputs=2, opset=11),
        canonical("Split", S, i64(4, 4), axis=3, outputs=2),
        canonical("Split", S, axis=3, num_outputs=2, outputs=2, opset=18),
    ],
    "reshape": [
        canonical("Reshape", S, i64(2, -1)),
        canonical("Reshape", S, i64(0, -1), allowzero=0),
        canonical("Reshape", S, i64(2, 192), allowzero=1),
    ],
    "flatten": [canonical("Flatten", S), canonical("Flatten", S, axis=-3)],
    "expand": [
        canonical("Expand", (3, 1), i64(2, 1, 4)),
        canonical("Expand", (3, 1), i64(2, 3, 4)),
    ],
    "transpose": [
        canonical("Transpose", S),
        canonical("Transpose", S, perm=[3, 2, 1, 0]),
    ],
    "softmax": [
        canonical("Softmax", (2, 5)),
        canonical("Softmax", (2, 5), opset=7),
        canonical("Softmax", (2, 5), axis=1, opset=11),
    ],
    "resize": [
        canonical("Upsample", S, scales=[1.0, 1.0, 2.0, 2.0], opset=7),
        canonical("Upsample", S, np.array([1, 1, 2, 2], np.float32), opset=9),
        canonical("Resize", S, np.array([1, 1, 2, 2], np.float32), opset=10),
        canonical("Resize", S, np.zeros(0, np.float32), np.zeros(0, np.float32), i64(2, 3, 16, 16),
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor", opset=11),
        canonical("Resize", S, None, np.array([2, 2], np.float32), axes=[2, 3], opset=18,
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        canonical("Resize", S, None, None, i64(16, 16), axes=[-2, -1], opset=19,
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ],
    "top k": [
        canonical("TopK", S, k=2, outputs=2, opset=7),
        canonical("TopK", S, i64(2), axis=3, outputs=2, largest=1, sorted=1),
    ],
    "cast": [
        canonical("Cast", S, to=TensorProto.DOUBLE, opset=9),
        canonical("Cast", S, to=TensorProto.DOUBLE, saturate=1, opset=19),
        canonical("Cast", S, to=TensorProto.DOUBLE, saturate=1, round_mode="up", opset=24),
        canonical("CastLike", S, np.zeros(1), opset=15),
    ],
    "layer normalization": [
        canonical("LayerNormalization", (2, 4), np.ones(4, np.float32)),
        canonical("LayerNormalization", (2, 4), np.ones(4, np.float32), axis=1, epsilon=1e-5,
                  stash_type=1),
    ],
    "convolution transpose": [
        canonical("ConvTranspose", S, W.transpose(1, 0, 2, 3), strides=[2, 2], pads=[1, 1, 1, 1],
                  output_padding=[1, 1]),
        canonical("ConvTranspose", S, W.transpose(1, 0, 2, 3), strides=[2, 2],
                  output_padding=[1, 1], output_shape=[16, 16]),
    ],
    "trilu": [canonical("Trilu", (4, 4)), canonical("Trilu", (4, 4), np.int64(0), upper=1)],
    "cumulative sum": [
        canonical("CumSum", S, np.int64(-1)),
        canonical("CumSum", S, np.int32(3), exclusive=0),
    ],
    "batch normalization": [
        canonical("BatchNormalization", S, *[np.ones(3, np.float32)] * 4, opset=7),
        canonical("BatchNormalization", S, *[np.ones(3, np.float32)] * 4, epsilon=1e-5,
                  momentum=0.1, opset=9),
        canonical("BatchNormalization", S, *[np.ones(3, np.float32)] * 4, training_mode=0,
                  opset=15),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_equal_layers_have_one_form_however_they_are_written(name: str) -> None:
    first, *others = SPELLINGS[name]
    assert len(first.layers) == 1
    assert not first.layers[0].opaque
    for other in others:
        assert form(other) == form(first)


@pytest.mark.parametrize(
    "different",
    [
        canonical("Conv", S, W, strides=[2, 2]),
        canonical("Conv", S, W, pads=[1, 0, 1, 0]),
        canonical("Conv", (1, 3, 8, 8), W),
        canonical("Conv", S, W, W[:, 0, 0, 0]),
    ],
    ids=["strides", "pads", "batch", "bias"],
)
def test_different_layers_have_different_forms(different: CanonicalModel) -> None:
    assert form(different) != form(SPELLINGS["conv defaults"][0])


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@pytest.mark.long
@settings(max_examples=150)
@given(shape=sizes, data=st.data())
def test_any_slice_computes_the_same(shape: tuple[int, ...], data: st.DataObject) -> None:
    bounds = st.integers(-7, 7)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    # Where a start lies before the first element, the definition is not Python's.
    starts = [max(data.draw(bounds), -shape[axis]) for axis in axes]
    ends = [data.draw(bounds) for _ in axes]
    steps = [data.draw(st.integers(-3, 3).filter(bool)) for _ in axes]
    x = np.arange(math.prod(shape)).reshape(shape)
    expected = x
    for axis, *cut in zip(axes, starts, ends, steps, strict=True):
        expected = expected[(slice(None),) * axis + (slice(*cut),)]
    model = canonical("Slice", shape, i64(*starts), i64(*ends), i64(*axes), i64(*steps))
    (layer,) = model.layers
    assert model.tensors["y0"].sizes == expected.shape
    found, (starts, ends, axes, steps) = x, (model.constants[name] for name in layer.inputs[1:])
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end < -shape[axis] else end
        found = found[(slice(None),) * axis + (slice(start, stop, step),)]
    np.testing.assert_array_equal(found, expected)
    assert normalize(model.as_raw()).layers == model.layers


@pytest.mark.long
@settings(max_examples=150)
@given(shape=sizes, data=st.data())
def test_any_axes_compute_the_same(shape: tuple[int, ...], data: st.DataObject) -> None:
    rank = len(shape)
    axes = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
    signed = [axis - rank if data.draw(st.booleans()) else axis for axis in axes]
    keepdims = data.draw(st.integers(0, 1))
    old = canonical("ReduceMax", shape, axes=axes, keepdims=keepdims, opset=7)
    new = canonical("ReduceMax", shape, i64(*signed), keepdims=keepdims, opset=18)
    assert form(old) == form(new)
    assert old.tensors["y0"].sizes == np.ones(shape).max(tuple(axes), keepdims=keepdims).shape


@pytest.mark.long
@settings(max_examples=150)
@given(
    size=st.integers(1, 12), kernel=st.integers(1, 5), stride=st.integers(1, 4),
    dilation=st.integers(1, 2), mode=st.sampled_from(["SAME_UPPER", "SAME_LOWER"]),
)  # fmt: skip
def test_automatic_padding_divides_evenly(
    size: int, kernel: int, stride: int, dilation: int, mode: str
) -> None:
    weight = np.zeros((1, 1, kernel), np.float32)
    model = canonical("Conv", (1, 1, size), weight, auto_pad=mode, strides=[stride],
                      dilations=[dilation])  # fmt: skip
    (layer,) = model.layers
    assert "auto_pad" not in layer.attributes
    assert model.tensors["y0"].sizes == (1, 1, -(-size // stride))
    begin, end = layer.attributes["pads"]
    assert (end - begin if mode == "SAME_UPPER" else begin - end) in (0, 1)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("Add", [(2, 3), (3,)], {}),
        ("Max", [(2, 1, 3), (4, 1), (1,)], {}),
        ("BatchNormalization", [S, (3,), (3,), (3,), (3,)], {"epsilon": 1e-5}),
        ("Conv", [S, (4, 3, 3, 3), (4,)], {"group": 1, "kernel_shape": (3, 3), "pads": (1, 0, 1, 2),
                                           "strides": (2, 1), "dilations": (1, 2)}),
        ("Conv", [S, (6, 1, 2, 2)], {"group": 3, "kernel_shape": (2, 2), "pads": (0, 0, 0, 0),
                                     "strides": (1, 1), "dilations": (1, 1)}),
        ("MaxPool", [S], {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1), "strides": (2, 3),
                          "dilations": (2, 1), "ceil_mode": 0, "storage_order": 0}),
        ("GlobalAveragePool", [S], {}),
        ("Concat", [(2, 3), (2, 5), (2, 1)], {"axis": 1}),
        ("MatMul", [(5, 1, 2, 3), (4, 3, 6)], {}),
        ("Gemm", [(3, 2), (4, 3), (1, 4)], {"transA": 1, "transB": 1, "alpha": 1.0, "beta": 1.0}),
        ("Transpose", [(2, 3, 4)], {"perm": (2, 0, 1)}),
        ("Flatten", [S], {"axis": 3}),
        ("Softmax", [S], {"axis": 1}),
    ],
)  # fmt: skip
def test_quick_shapes_agree_with_general_inference(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    names = tuple(f"x{i}" for i in range(len(shapes)))
    layer = Layer(op, names, ("y",), attributes)
    specs = {name: TensorSpec("float32", shape) for name, shape in zip(names, shapes, strict=True)}
    quick = operator(op).shape(layer, shapes, [None] * len(shapes))
    assert quick is not None
    assert quick == infer(layer, specs, {}, opset=21)["y"].shape


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("Add", [(2, 3), (4,)], {}),
        ("MatMul", [(2, 3), (4, 5)], {}),
        ("Concat", [(2, 3), (4, 5)], {"axis": 1}),
        ("Gemm", [(2, 3), (4, 5)], {"transA": 0, "transB": 0}),
        ("Conv", [S, (4, 3, 3, 3)], {"group": 1, "kernel_shape": (1, 1), "pads": (0,) * 4,
                                     "strides": (1, 1), "dilations": (1, 1)}),
    ],
)  # fmt: skip
def test_quick_shapes_leave_misfits_to_general_inference(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    names = tuple(f"x{i}" for i in range(len(shapes)))
    layer = Layer(op, names, ("y",), attributes)
    assert operator(op).shape(layer, shapes, [None] * len(shapes)) is None


def test_quick_shapes_are_of_operators_with_one_required_output() -> None:
    for op, row in OPERATORS.items():
        if row.shape is not None and "." not in op:
            assert onnx.defs.get_schema(op).outputs[0].option.name != "Variadic"


def test_shapes_that_do_not_fit_are_reported_with_their_layer() -> None:
    for op, shape, weight in (("Add", (2, 3), np.zeros(4, np.float32)),
                              ("MatMul", (2, 3), np.zeros((4, 5), np.float32)),
                              ("Reshape", (2, 3), i64(4, 2)),
                              ("Expand", (2, 3), i64(2, 4))):  # fmt: skip
        with pytest.raises(ModelError, match=f"'y0'.*{op}"):
            canonical(op, shape, weight)
    with pytest.raises(ModelError, match="MaxPool"):
        canonical("MaxPool", S)


def test_a_concat_drops_parts_without_elements():
    empty = np.zeros((2, 0), np.float32)
    (layer,) = canonical("Concat", (2, 3), empty, axis=1).layers
    assert layer.inputs == ("x",)


def test_a_concat_of_nothing_reads_one_tensor_without_elements():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        g (float[2,3] x) => (float[2,0] y)
        <int64[1] zero = {0}, int64[1] axis = {1}> {
            e = Slice(x, zero, zero, axis)
            y = Concat<axis = 1>(e, e)
        }"""
    model = normalize(read_model(onnx.parser.parse_model(text), name="m"))
    assert [len(layer.inputs) for layer in model.layers if layer.op == "Concat"] == [1]


def test_normalizing_a_canonical_model_changes_nothing() -> None:
    model = canonical("Relu", S)
    raw = model.as_raw()
    again = normalize(raw)
    assert (type(raw), type(again)) == (RawModel, CanonicalModel)
    assert again.layers == model.layers


def attention(queries: int, past: int | None, **attributes: Any) -> CanonicalModel:
    """Canonical form of an attention of two heads on one, with a cache of some length."""
    tensors = {
        "q": TensorSpec("float32", (1, queries, 16)),
        "k": TensorSpec("float32", (1, queries, 8)),
        "v": TensorSpec("float32", (1, queries, 8)),
    }
    inputs = ("q", "k", "v")
    if past is not None:
        cache = TensorSpec("float32", (1, 1, past, 8))
        tensors |= {"past_k": cache, "past_v": cache}
        inputs = (*inputs, "", "past_k", "past_v")
    outputs = ("y", "present_k", "present_v")
    heads = {"q_num_heads": 2, "kv_num_heads": 1}
    layer = Layer("Attention", inputs, outputs, {**heads, **attributes})
    unknown = dict.fromkeys(outputs, TensorSpec("undefined", None))
    raw = RawModel("m", (layer,), tuple(tensors), outputs, {**tensors, **unknown},
                   opsets={"": 24})  # fmt: skip
    return normalize(raw)


@pytest.mark.parametrize("queries", [1, 8192])
def test_attention_with_an_empty_cache_is_one_without(queries):
    empty, none = (attention(queries, past, is_causal=1) for past in (0, None))
    assert empty.layers[0].inputs == none.layers[0].inputs == ("q", "k", "v")
    assert dict(empty.layers[0].attributes) == dict(none.layers[0].attributes)
    for model in (empty, none):
        assert not model.layers[0].opaque
        assert model.tensors["present_k"] == TensorSpec("float32", (1, 1, queries, 8))


def test_attention_of_one_query_hides_nothing():
    assert attention(1, 7, is_causal=1).layers[0].attributes["is_causal"] == 0
    assert attention(2, 7, is_causal=1).layers[0].attributes["is_causal"] == 1


@pytest.mark.parametrize("row", [4, -5])
def test_a_row_beyond_the_end_of_a_table_is_refused_even_where_its_values_are_unknown(row):
    def read(row: int) -> CanonicalModel:
        return canonical("Gather", (4, 3), np.array([[0, row], [1, 2]], np.int64))

    assert read(3).layers
    with pytest.raises(ModelError, match=f"reads row {row} of 'x', which has 4"):
        read(row)

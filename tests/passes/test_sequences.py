"""Sequences and optionals are removed if constants decide what they hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize

HEADER = '<ir_version: 8, opset_import: ["" : {opset}]>\n'


def proto_of(text: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER.format(opset=opset) + text)


def lowered(text: str, opset: int = 18) -> CanonicalModel:
    return normalize(read_model(proto_of(text, opset), name="m"))


def operators(model: CanonicalModel) -> list[str]:
    return [layer.op for layer in model.layers]


CHUNK = """g (float[3,{size}] x) => (y)
<int64{kind} s = {split}, int64 i = {{{i}}}, int64 j = {{{j}}}>
{{ q = SplitToSequence<axis={axis}>(x, s)  a = SequenceAt(q, i)  b = SequenceAt(q, j)
   r = Relu(a)  t = Tanh(b)  y = Concat<axis=1>(r, t) }}"""


@pytest.mark.parametrize(("size", "kind", "split", "i", "j", "widths"), [
    (8, "", "{4}", 0, 1, [4, 4]),
    (8, "", "{3}", 2, -3, [3, 3, 2]),
    (8, "[3]", "{1, 5, 2}", -1, -2, [1, 5, 2]),
    (8, "", "{9}", 0, -1, [8]),
])  # fmt: skip
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_chunks_become_a_split(
    compared: Callable[..., CanonicalModel], size, kind, split, i, j, widths, axis, opset
) -> None:
    text = CHUNK.format(size=size, kind=kind, split=split, i=i, j=j, axis=axis)
    x = np.arange(24, dtype=np.float32).reshape(3, 8) / 24
    model = compared(proto_of(text, opset), {"x": x})
    assert operators(model) == ["Split", "Relu", "Tanh", "Concat"]
    assert model.constants[model.layers[0].inputs[1]].tolist() == widths


def test_parts_of_a_sequence_may_be_empty(compared: Callable[..., CanonicalModel]) -> None:
    text = CHUNK.format(size=8, kind="[3]", split="{0, 5, 3}", i=0, j=2, axis=1)
    model = compared(proto_of(text), {"x": np.ones((3, 8), np.float32)})
    assert operators(model) == ["Split", "Tanh", "Concat"]


def test_parts_of_a_sequence_may_lose_their_axis(compared: Callable[..., CanonicalModel]) -> None:
    text = """g (float[3,2,4] x) => (y) <int64 i = {-1}, int64 j = {0}>
    { q = SplitToSequence<axis=-2, keepdims=0>(x)  a = SequenceAt(q, i)  b = SequenceAt(q, j)
      y = Add(a, b) }"""
    model = compared(proto_of(text), {"x": np.random.rand(3, 2, 4).astype(np.float32)})
    assert operators(model) == ["Split", "Squeeze", "Squeeze", "Add"]
    assert model.tensors["y"].sizes == (3, 4)


def test_a_sequence_that_is_built_up_becomes_a_concat(
    compared: Callable[..., CanonicalModel],
) -> None:
    text = """g (float[2,3] x) => (y, z, n, same) <int64 front = {0}, int64 last = {-1}>
    { e = SequenceEmpty<dtype=1>()  r = Relu(x)  t = Tanh(x)  s0 = SequenceInsert(e, r)
      s1 = SequenceInsert(s0, t, front)  s2 = SequenceInsert(s1, x, last)  s3 = Identity(s2)
      y = ConcatFromSequence<axis=-1>(s3)  z = ConcatFromSequence<axis=1, new_axis=1>(s3)
      s4 = SequenceErase(s3)  n = SequenceLength(s4)  same = SequenceAt(s4, last) }"""
    model = compared(proto_of(text), {"x": np.random.rand(2, 3).astype(np.float32)})
    assert not {op for op in operators(model) if "Sequence" in op}
    assert model.constants["n"] == 2


def test_the_length_of_a_sequence_may_decide_shapes() -> None:
    model = lowered("""g (float[6,4] x) => (y)
    <int64 s = {2}, int64[1] zero = {0}, int64[1] w = {8}>
    { q = SplitToSequence<axis=0>(x, s)  n = SequenceLength(q)  h = Unsqueeze(n, zero)
      shape = Concat<axis=0>(h, w)  y = Reshape(x, shape) }""")
    assert model.tensors["y"].sizes == (3, 8)


@pytest.mark.parametrize("inside", ["x", "SequenceConstruct(x)"])
def test_an_optional_is_replaced_by_its_element(inside: str) -> None:
    made = "s = Identity(x)" if inside == "x" else f"s = {inside}"
    after = "e = OptionalGetElement(o)" + ("" if inside == "x" else "  t = SequenceAt(e, zero)")
    text = f"""g (float[2,3] x) => (y) <int64 zero = {{0}}>
    {{ {made}  o = Optional(s)  {after}
       h = OptionalHasElement(o)  c = Cast<to=1>(h)  r = Relu({"e" if inside == "x" else "t"})
       y = Add(r, c) }}"""
    model = lowered(text)
    assert operators(model) == ["Relu", "Add"]
    assert model.constants["c"] == 1


def test_an_empty_optional_has_no_element() -> None:
    text = """g (float[2,3] x) => (y)
    { h = OptionalHasElement()  c = Cast<to=1>(h)  y = Add(x, c) }"""
    model = lowered(text)
    assert operators(model) == ["Add"]
    assert not model.constants["c"]


RUNTIME = """g (float[4,{width}] x, int64 i) => (y) <int64 s = {{8}}>
{{ r = Relu(x)  q = SplitToSequence<axis=1>(r, s)  a = SequenceAt(q, i)  y = Tanh(a) }}"""


def test_a_position_that_the_user_feeds_is_named_and_the_rest_is_timed() -> None:
    model = lowered(RUNTIME.format(width=16))
    opaque = {layer.op: bool(layer.opaque) for layer in model.layers}
    assert opaque == {"Relu": False, "SplitToSequence": True, "SequenceAt": True, "Tanh": False}
    assert model.tensors["y"].sizes == (4, 8)


def test_parts_of_different_shapes_leave_later_shapes_unknown() -> None:
    model = lowered(RUNTIME.format(width=20))
    assert [layer.op for layer in model.layers if not layer.opaque] == ["Relu"]


def test_a_sequence_that_is_an_output_stays() -> None:
    text = """g (float[4,16] x) => (seq(float[4,8]) q, y) <int64 s = {8}, int64 i = {0}>
    { q = SplitToSequence<axis=1>(x, s)  a = SequenceAt(q, i)  y = Tanh(a) }"""
    model = lowered(text)
    assert {layer.op: layer.opaque for layer in model.layers} == {
        "SplitToSequence": "result that is no tensor (SplitToSequence)", "Split": "", "Tanh": "",
    }  # fmt: skip


@pytest.mark.parametrize("position", [2, -3])
def test_a_position_out_of_range_is_an_error(position: int) -> None:
    with pytest.raises(ModelError, match=f"position {position} of a sequence with 2"):
        lowered(CHUNK.format(size=8, kind="", split="{4}", i=position, j=0, axis=1))


def test_sizes_that_do_not_add_up_are_an_error() -> None:
    with pytest.raises(ModelError, match="does not fit"):
        lowered(CHUNK.format(size=8, kind="[2]", split="{4, 5}", i=0, j=1, axis=1))


def test_a_sequence_of_very_many_parts_is_left_to_the_runtime() -> None:
    text = """g (float[1000000] x) => (y) <int64 i = {5}>
    { q = SplitToSequence(x)  y = SequenceAt(q, i) }"""
    assert [layer.opaque != "" for layer in lowered(text).layers] == [True, True]


@pytest.mark.parametrize(
    "layer",
    [
        "SequenceAt(q)",
        "SequenceInsert(q)",
        "SplitToSequence(x, q)",
        "SequenceLength()",
        "ConcatFromSequence<axis=1.5>(q)",
    ],
)
def test_incomplete_layers_are_errors_or_opaque(layer: str) -> None:
    text = f"g (float[4] x) => (y) {{ q = SequenceConstruct(x)  y = {layer} }}"
    try:
        assert lowered(text).layers[-1].opaque
    except ModelError as error:
        assert "layer 'y'" in error.message  # noqa: PT017

"""Dynamic dimensions."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.commands.options.spelling import option_of
from dlbricks_core.errors import ModelError, UnboundDimensionsError
from dlbricks_core.ir import CanonicalModel, TensorSpec, read_model
from dlbricks_core.passes import expressions, normalize
from dlbricks_core.wording import arguments_spelled

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,?,W] data, float[N,3,8,W] mask, float[?,4] other)
    => (float[N,3,H2,W] y, float[?,4] z)
{ y = Mul(data, mask)  z = Relu(other) }
"""


def model() -> CanonicalModel:
    return read_model(onnx.parser.parse_model(TEXT), name="net")


def test_every_unbound_dimension_is_listed() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(model())
    for place in ("data.0 (N)", "data.2", "data.3 (W)", "mask.0 (N)", "mask.3 (W)", "other.0"):
        assert place in caught.value.message
    assert "batch=N" in caught.value.hint
    assert "'data.2': N" in caught.value.hint
    assert caught.value.hint.count("'W': N") == 1


def test_on_the_command_line_the_hint_can_be_copied() -> None:
    with arguments_spelled(option_of), pytest.raises(UnboundDimensionsError) as caught:
        normalize(model())
    assert "--batch N --dim data.2=N --dim W=N." in caught.value.hint


def test_a_dimension_called_question_mark_has_no_name() -> None:
    proto = onnx.parser.parse_model(TEXT)
    for axis in (0, 2):  # as Paddle writes sizes that have nothing to do with each other
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "?"
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(read_model(proto, name="net"), batch=1)
    assert "'data.2': N" in caught.value.hint
    assert "?" not in caught.value.hint


def test_batch_and_names_bind_everything() -> None:
    normal = normalize(model(), batch=2, dims={"W": 5, "data.2": 8})
    assert normal.tensors["data"] == TensorSpec("float32", (2, 3, 8, 5))
    assert normal.tensors["mask"].sizes == (2, 3, 8, 5)
    assert normal.tensors["other"].sizes == (2, 4)
    assert normal.tensors["y"].sizes == (2, 3, 8, 5)


def test_a_size_given_by_place_binds_its_symbol_everywhere() -> None:
    dims = {"mask.3": 5, "data.2": 8, "other.0": 7, "N": 2}
    normal = normalize(model(), batch=9, dims=dims)
    assert normal.tensors["data"].sizes == (2, 3, 8, 5)
    assert normal.tensors["other"].sizes == (7, 4)


def test_batch_alone_leaves_the_rest_unbound() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(model(), batch=1)
    assert "data.0" not in caught.value.message
    assert "--batch" not in caught.value.hint


@pytest.mark.parametrize("name", ["X", "data.9", "nobody.0", "data.-1"])
def test_a_name_that_matches_nothing_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match="no dimension is called") as caught:
        normalize(model(), batch=1, dims={"W": 5, "data.2": 8, name: 3})
    assert "data.2" in caught.value.hint


def test_a_fixed_dimension_cannot_change() -> None:
    with pytest.raises(ModelError, match="fixed size 3"):
        normalize(model(), dims={"data.1": 4})


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ModelError, match="cannot have size -1"):
        normalize(model(), batch=-1)


def test_a_size_of_zero_is_allowed() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,past,4] cache, float[1,1,4] new) => (float[1,all,4] y)
    { y = Concat<axis=1>(cache, new) }"""
    normal = normalize(read_model(onnx.parser.parse_model(text), name="m"), dims={"past": 0})
    assert normal.tensors["y"].sizes == (1, 1, 4)


def test_batch_that_does_not_fit_names_the_layer() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,6] x) => (float[2,3] y)
    <int64[2] shape = {2, 3}>
    { y = Reshape(x, shape) }"""
    raw = read_model(onnx.parser.parse_model(text), name="net")
    assert normalize(raw, batch=1).tensors["y"].sizes == (2, 3)
    with pytest.raises(ModelError, match="Reshape does not fit its inputs") as caught:
        normalize(raw, batch=2)
    assert "'y'" in caught.value.message


def test_a_convolution_of_other_channels_is_refused() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8,5,5] x, float[4,3,1,1] w) => (float[1,4,5,5] y) { y = Conv(x, w) }"""
    with pytest.raises(ModelError, match="8 channels, where its weight is for 3"):
        normalize(read_model(onnx.parser.parse_model(text), name="net"))


def without_rank(element: int = onnx.TensorProto.FLOAT) -> CanonicalModel:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N] x, float[N, 4] other) => (float[N] y, float[N, 4] z)
    { y = Relu(x)  z = Tanh(other) }""")
    for value in (proto.graph.input[0], proto.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
        value.type.tensor_type.elem_type = element
    return read_model(proto, name="net")


def test_an_input_without_rank_asks_for_its_whole_shape() -> None:
    with pytest.raises(UnboundDimensionsError, match="'x' has no shape") as caught:
        normalize(without_rank(), batch=1)
    assert "shapes={'x': (1, 3, 224, 224)}" in caught.value.hint
    with arguments_spelled(option_of), pytest.raises(UnboundDimensionsError) as caught:
        normalize(without_rank(), batch=1)
    assert "--dim x=1x3x224x224" in caught.value.hint


@pytest.mark.parametrize("shape", [(1, 3, 16, 16), (2, 0), (7,)])
def test_a_whole_shape_binds_an_input_without_rank(shape: tuple[int, ...]) -> None:
    normal = normalize(without_rank(), batch=1, shapes={"x": shape})
    assert normal.tensors["y"] == TensorSpec("float32", shape)


def test_a_size_for_an_input_is_its_only_axis() -> None:
    assert normalize(without_rank(), batch=1, dims={"x": 7}).tensors["y"].sizes == (7,)
    with pytest.raises(ModelError, match=r"'other' .* another number of dimensions than 7"):
        normalize(without_rank(), batch=1, dims={"x": 7, "other": 7})


def test_a_shape_is_not_enough_without_an_element_type() -> None:
    with pytest.raises(ModelError, match=r"'x' is not a tensor with an element type"):
        normalize(without_rank(onnx.TensorProto.UNDEFINED), batch=1, shapes={"x": (1, 3)})


def test_a_shape_of_another_rank_is_refused() -> None:
    with pytest.raises(ModelError, match="another number of dimensions than 2x3"):
        normalize(model(), shapes={"data": (2, 3)})


def cached(mask: str = "past + seq") -> CanonicalModel:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,past,4] cache, float[N,seq,4] new, float[N,M] mask)
        => (float[N,all,4] y, float[N,M] z)
    { y = Concat<axis=1>(cache, new)  z = Relu(mask) }""")
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = mask
    return read_model(proto, name="net")


@pytest.mark.parametrize(("mask", "size"), [
    ("past + seq", 4), ("past + 1", 1), ("2 * (seq - 1) // 3", 2), (" seq-past ", 4),
    ("seq/2", 2), ("floor(seq/3)", 1), ("ceiling(seq/3) + 1", 3), ("seq**2", 16),
    ("Max(1, past)", 1),
    ("Min(past, seq) + 7 % seq", 3), ("CeilToInt(IntTrueDiv(seq, 3))", 2), ("-(-seq)", 4),
    ("Mod(seq, 3)", 1), ("ModularIndexing(seq, 2, 8)", 2),
])  # fmt: skip
def test_an_expression_follows_from_its_parts(mask: str, size: int) -> None:
    normal = normalize(cached(mask), batch=2, dims={"past": 0}, shapes={"new": (2, 4, 4)})
    assert normal.tensors["mask"].sizes == (2, size)
    assert normal.tensors["y"].sizes == (2, 4, 4)


def test_only_the_missing_parts_of_an_expression_are_asked_for() -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(cached(), batch=1, dims={"past": 0})
    assert caught.value.hint == "Give a size for each N: dims={'seq': N}."


@pytest.mark.parametrize("mask", ["__import__('os').remove('x')", "open(past)", "past + 'a'",
                                  "past ** 99", "past ** (seq - 2)", "past // (seq - 1)",
                                  "max(*past)", "max(past, key=seq)", "(" * 150,
                                  "+".join(["past"] * 99)])  # fmt: skip
def test_texts_that_are_no_expressions_are_names(mask: str) -> None:
    dims = {"past": 2, "seq": 1}
    with pytest.raises(UnboundDimensionsError):
        normalize(cached(mask), batch=1, dims=dims)
    assert normalize(cached(mask), batch=1, dims=dims | {mask: 5}).tensors["z"].sizes == (1, 5)


@pytest.mark.parametrize(("mask", "total", "seq"), [
    ("2 * seq + past", 9, 3), ("seq", 5, 5), ("(seq - 1) / 3", 2, 7),
    ("past * 3 + seq - seq // 1 + seq", 9, 0),
])  # fmt: skip
def test_an_expression_of_a_given_size_gives_its_missing_part(
    mask: str, total: int, seq: int
) -> None:
    normal = normalize(cached(mask), batch=1, dims={"past": 3}, shapes={"mask": (1, total)})
    assert normal.tensors["new"].sizes == (1, seq, 4)


@pytest.mark.parametrize("mask", ["seq // 2", "Max(seq, 5)", "0 * seq + 5"])
def test_an_expression_that_several_sizes_fit_gives_none(mask: str) -> None:
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(cached(mask), batch=1, dims={"past": 3}, shapes={"mask": (1, 5)})
    assert caught.value.hint == "Give a size for each N: dims={'seq': N}."


@pytest.mark.parametrize(("mask", "shape", "cache", "reason"), [
    ("Max(seq, 9)", (1, 5), "past", "no size of 'seq' gives mask.1=5"),
    ("s // 2", (1, 8), "s // 4", "no size of 's' gives mask.1=8 and cache.1=3"),
    ("9 - s // 2", (1, 8), "s // 4", "no size of 's' gives mask.1=8 and cache.1=3"),
])  # fmt: skip
def test_formulas_that_no_size_fits_are_refused(
    mask: str, shape: tuple[int, ...], cache: str, reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        normalize(two(mask, cache), batch=1, shapes={"mask": shape, "cache": (1, 3, 4)})


def test_formulas_that_one_size_fits_pass() -> None:
    shapes = {"mask": (1, 7), "cache": (1, 3, 4), "new": (1, 1, 4)}
    normal = normalize(two("s // 2", "s // 4"), batch=1, shapes=shapes)
    assert normal.tensors["cache"].sizes == (1, 3, 4)


def two(mask: str, cache: str) -> CanonicalModel:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,past,4] cache, float[N,seq,4] new, float[N,M] mask)
        => (float[N,past,4] x, float[N,seq,4] y, float[N,M] z)
    { x = Relu(cache) y = Relu(new) z = Relu(mask) }""")
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = cache
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = mask
    return read_model(proto, name="net")


@given(
    st.integers(-3, 3).filter(bool), st.integers(-9, 9), st.integers(1, 4), st.integers(0, 10**6)
)
def test_solving_undoes_evaluating(factor: int, shift: int, divisor: int, size: int) -> None:
    text = f"({factor} * n + {shift}) / {divisor}"
    total = expressions.value(text, {"n": size})
    assert total is not None
    found = expressions.solved(text, total, {})  # type: ignore[arg-type]  # a fraction is no size
    assert found == ("n", size)


@pytest.mark.parametrize(("dims", "shapes", "reason"), [
    ({"past": 1, "seq": 2, "past + seq": 4}, {}, r"two sizes: past \+ seq=4 and 3"),
    ({}, {"cache": (1, 3, 4), "new": (2, 1, 4)}, "'N' cannot have two sizes"),
    ({"past": 1, "cache.1": 2}, {}, "two sizes: past=1 and cache.1=2"),
])  # fmt: skip
def test_contradicting_sizes_are_named(
    dims: dict[str, int], shapes: dict[str, tuple[int, ...]], reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        normalize(cached(), batch=1, dims=dims, shapes=shapes)


def test_an_expression_that_is_not_whole_is_refused() -> None:
    with pytest.raises(ModelError, match="'seq / 2' cannot have size 5/2") as caught:
        normalize(cached("seq / 2"), batch=1, dims={"past": 1, "seq": 5})
    assert "seq=5" in caught.value.hint


def test_an_expression_below_zero_is_refused() -> None:
    with pytest.raises(ModelError, match="'past - seq' cannot have size -3") as caught:
        normalize(cached("past - seq"), batch=1, dims={"past": 1, "seq": 4})
    assert "past=1, seq=4" in caught.value.hint


@pytest.mark.parametrize(
    ("rows", "sizes", "hint"),
    [
        ("2", {}, "not a valid ONNX model"),
        ("N", {"batch": 2}, "sizes given for dynamic dimensions"),
    ],
)
def test_sizes_are_hinted_at_only_where_the_model_leaves_some_open(rows, sizes, hint) -> None:
    text = f"""
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[{rows},8] x, float[9,4] w) => (float[{rows},4] y) {{ y = MatMul(x, w) }}
    """
    with pytest.raises(ModelError) as caught:
        normalize(read_model(onnx.parser.parse_model(text), name="net"), **sizes)
    assert "MatMul does not fit its inputs" in caught.value.message
    assert hint in caught.value.hint


DECODER = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[B,S] input_ids, float[B,2,P,4] past_keys) => (float[B,2,P,4] y)
{ y = Relu(past_keys) }
"""


@pytest.mark.parametrize(("past", "answers"), [("P", True), ("7", False)])
def test_exported_language_models_are_offered_prompts(past: str, answers: bool) -> None:
    decoder = read_model(onnx.parser.parse_model(DECODER.replace("P", past)), name="net")
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(decoder)
    assert ("Estimates and advice take prompt=N, generate=N" in caught.value.hint) is answers


@pytest.mark.parametrize(
    ("formula", "size", "wrong"), [("2 * seq", 9, "9/2"), ("seq + 5", 3, "-2")]
)
def test_a_size_that_no_size_of_its_formula_makes_is_refused_by_name(
    formula: str, size: int, wrong: str
) -> None:
    with pytest.raises(ModelError, match=f"dimension 'seq' cannot have size {wrong}") as caught:
        normalize(cached(formula), batch=1, dims={"past": 3}, shapes={"mask": (1, size)})
    assert f"mask.1={size}, which is {formula}" in caught.value.hint


RECURRENT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[?,?,8] x, float[1,32,8] w, float[1,32,8] r) => (y)
{ BEFORE y = LSTM<hidden_size=8, layout=LAYOUT>(t, w, r) }"""


@pytest.mark.parametrize(
    ("before", "layout", "axis"),
    [
        ("t = Identity(x)", 0, 1),
        ("a = Relu(x) t = Add(a, a)", 0, 1),
        ("t = Transpose<perm=[1,0,2]>(x)", 0, 0),
        ("t = Identity(x)", 1, 0),
        ("t = Transpose<perm=[1,0,2]>(x)", 1, 1),
    ],
)
def test_the_batch_of_a_recurrent_layer_is_not_its_time(
    before: str, layout: int, axis: int
) -> None:
    text = RECURRENT.replace("BEFORE", before).replace("LAYOUT", str(layout))
    raw = read_model(onnx.parser.parse_model(text), name="m")
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(raw, batch=2)
    assert f"dimensions without a size: x.{1 - axis}" in caught.value.message
    sizes = [3, 3]
    sizes[axis] = 2
    normal = normalize(raw, batch=2, dims={f"x.{1 - axis}": 3})
    assert normal.tensors["x"].sizes == (*sizes, 8)
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(raw)
    assert "batch=N" in caught.value.hint
    assert f"x.{1 - axis}" in caught.value.hint


def test_the_batch_is_the_dimension_of_that_name() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[seq,batch_size,4] x, float[batch,4] z) => (y) { a = Relu(x) y = Add(a, z) }"""
    raw = read_model(onnx.parser.parse_model(text), name="m")
    normal = normalize(raw, batch=2, dims={"seq": 5})
    assert (normal.tensors["x"].sizes, normal.tensors["z"].sizes) == ((5, 2, 4), (2, 4))


def test_steps_of_a_scan_are_no_batch() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] s, float[T,4] x) => (f, y) {
        f, y = Scan<num_scan_inputs=1, body = b (float[4] i, float[4] e) => (float[4] o, float[4] p)
            { o = Add(i, e) p = Relu(o) }>(s, x)
    }"""
    raw = read_model(onnx.parser.parse_model(text), name="m")
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(raw, batch=3)
    assert "'T': N" in caught.value.hint
    assert "batch" not in caught.value.hint

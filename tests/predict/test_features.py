"""Features of layers: by hand where it matters, and finite for whatever a model may hold."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_testing import cases
from onnx.backend.test.case.node import collect_testcases

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import System
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, read_model
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert
from dlbricks_core.predict.baseline import Processor, expected_ms
from dlbricks_core.predict.features import NAMES, Features
from dlbricks_core.predict.kinds import class_of


def features(text):
    return Features.of(cases.build(text).model)


def numbers(text, layer=0):
    """Numbers of a layer by name: sizes as they are, shares of empty lanes as logarithms."""
    row = dict(zip(NAMES, features(text).numbers[layer], strict=True))
    return {n: v if n.endswith("waste") else 2**v - 1 for n, v in row.items()}


def holds(text, layer=0, **expected):
    found = numbers(text, layer)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_convolution_is_a_product_of_windows_with_filters():
    holds(
        "(float[1,3,9,8] x, float[4,3,3,3] w1, float[4] w2) => (y)"
        "{ y = Conv<pads=[1,1,1,1]>(x, w1, w2) }",
        # Windows at the edges read padding, which costs nothing.
        flops=round(4 * 9 * 8 * (2 * 27 + 1) * (25 / 27) * (22 / 24)),
        read_bytes=4 * 3 * 9 * 8,
        weight_bytes=4 * (4 * 27 + 4),
        written_bytes=4 * 4 * 9 * 8,
        rows=9 * 8,
        columns=4,
        depth=27,
        window=9,
        stride=1,
        groups=1,
        column_waste=2,  # 4 of 16 lanes
        depth_waste=np.log2(32 / 27),
    )


def test_groups_of_a_convolution_are_products_of_their_own():
    holds(
        "(float[1,32,14,14] x, float[64,8,3,3] w1) => (y)"
        "{ y = Conv<group=4, pads=[1,1,1,1], strides=[2,2]>(x, w1) }",
        flops=round(64 * 7 * 7 * 2 * 72 * (20 / 21) ** 2), rows=49,
        columns=16, depth=72, groups=4, stride=4, column_waste=0,
    )  # fmt: skip
    holds(
        "(float[1,24,5,5] x, float[24,1,3,3] w1) => (y)"
        "{ y = Conv<group=24, pads=[1,1,1,1]>(x, w1) }",
        rows=25, columns=1, depth=9, groups=24,
    )  # fmt: skip


def test_a_transposed_convolution_writes_more_than_it_reads():
    holds(
        "(float[1,3,5,5] x, float[3,2,2,2] w1) => (y) { y = ConvTranspose<strides=[2,2]>(x, w1) }",
        flops=2 * 75 * 8, rows=100, columns=2, depth=12, window=4, stride=4, groups=1,
    )  # fmt: skip


def test_a_product_with_a_weight_has_all_tokens_as_rows():
    holds(
        "(float[2,196,48] x, float[48,192] w1) => (y) { y = MatMul(x, w1) }",
        flops=2 * 2 * 196 * 48 * 192, rows=2 * 196, columns=192, depth=48, groups=1,
        weight_bytes=4 * 48 * 192, column_waste=0, depth_waste=0,
    )  # fmt: skip


def test_a_weight_may_come_first():
    holds(
        "(float[48,20] x, float[192,48] w1) => (y) { y = MatMul(w1, x) }",
        flops=2 * 192 * 48 * 20, rows=192, columns=20, depth=48,
    )  # fmt: skip


def test_a_product_of_activations_counts_each_of_its_heads():
    holds(
        "(float[1,12,196,64] a, float[1,12,64,190] b) => (y) { y = MatMul(a, b) }",
        rows=196, columns=190, depth=64, groups=12, weight_bytes=0,
        read_bytes=4 * 12 * (196 * 64 + 64 * 190),
    )  # fmt: skip


def test_an_einstein_sum_is_a_product_whatever_the_places_of_its_axes():
    holds(
        "(float[1,20,30,12] a, float[1,25,30,12] b) => (y)"
        '{ y = Einsum<equation="bikc,bjkc->bijc">(a, b) }',
        flops=2 * 12 * 20 * 25 * 30, rows=20, columns=25, depth=30, groups=12,
    )  # fmt: skip


@pytest.mark.parametrize(("shape", "transposed"), [("2,6", 0), ("6,2", 1)])
def test_a_fully_connected_layer_may_read_its_input_transposed(shape, transposed):
    holds(
        f"(float[{shape}] x, float[4,6] w1, float[4] w2) => (y)"
        f"{{ y = Gemm<transA={transposed}, transB=1>(x, w1, w2) }}",
        flops=8 * 13, rows=2, columns=4, depth=6,
    )  # fmt: skip


def test_a_recurrent_layer_has_a_product_at_each_step():
    holds(
        "(float[8,1,32] x, float[1,256,32] w1, float[1,256,64] w2) => (y)"
        "{ y = LSTM<hidden_size=64>(x, w1, w2) }",
        flops=8 * (256 * (2 * 96 + 1) + 5 * 64), rows=1, columns=256, window=8, groups=1,
    )  # fmt: skip


def test_the_smallest_recurrent_layer_has_features():
    text = (
        "(float[3,1,1] x, float[1,4,1] w1, float[1,4,1] w2, float[1,8] w3) => (y)"
        "{ y = LSTM<hidden_size=1>(x, w1, w2, w3) }"
    )
    assert numbers(text)["rows"] == pytest.approx(1)


@pytest.mark.parametrize("key", ["k", "q"])
def test_attention_reads_queries_and_keys(key):
    """They may be one tensor, as the queries' own."""
    other = ", float[1,12,196,64] k" if key == "k" else ""
    holds(
        f"(float[1,12,196,64] q{other}) => (y) {{ y = Attention({', '.join(('q', key, key))}) }}",
        flops=12 * 196 * 196 * (4 * 64 + 5), rows=196, columns=196, depth=64,
    )  # fmt: skip


def test_a_pool_has_a_window_and_a_stride():
    holds(
        "(float[1,3,8,8] x) => (y) { y = MaxPool<kernel_shape=[3,3], strides=[2,2]>(x) }",
        flops=3 * 9 * 9, window=9, stride=4, read_bytes=4 * 3 * 64, written_bytes=4 * 3 * 9,
    )  # fmt: skip


def test_a_pool_that_says_where_its_maxima_are_is_of_another_kind():
    pool = "MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)"
    plain = features(f"(float[1,3,8,8] x) => (y) {{ y = {pool} }}")
    both = features(f"(float[1,3,8,8] x) => (y, i) {{ y, i = {pool} }}")
    assert (*plain.kinds, *both.kinds) == ("pool:max", "pool:places")


def test_what_an_unknown_operator_reads_is_to_be_handled_too():
    """Scattering costs as much as there are updates, however small the result."""
    text = (
        "(float[4,8] x, int64[90,8] i, float[90,8] u) => (y)"
        ' { y = ScatterElements<axis=0, reduction="add">(x, i, u) }'
    )
    holds(text, flops=90 * 8)


def test_a_view_moves_nothing():
    holds(
        "(float[2,3,4] x) => (y) { s = Constant<value_ints=[4,6]>() y = Reshape(x, s) }",
        flops=0, read_bytes=0, written_bytes=0,
    )  # fmt: skip


def test_a_slice_reads_what_it_keeps():
    holds(
        "(float[4,100] x) => (y) { a = Constant<value_ints=[0]>() b = Constant<value_ints=[5]>()"
        " c = Constant<value_ints=[1]>() y = Slice(x, a, b, c) }",
        written_bytes=4 * 4 * 5, read_bytes=4 * 4 * 5,
    )  # fmt: skip


def test_rows_that_are_gathered_are_not_the_whole_table():
    found = numbers("(int64[7] i, float[30000,64] w1) => (y) { y = Gather<axis=0>(w1, i) }")
    assert found["written_bytes"] == pytest.approx(4 * 7 * 64)
    assert found["weight_bytes"] + found["read_bytes"] <= 4 * 7 * 64 + 8 * 7 + 1


@pytest.mark.parametrize(
    ("text", "picks", "columns"),
    [
        ("(float[2,30,64] x, int64[7] i) => (y) { y = Gather<axis=1>(x, i) }", 2 * 7, 64),
        ("(float[2,30] x, int64[7] i) => (y) { y = Gather<axis=1>(x, i) }", 2 * 7, 1),
        ("(float[2,8,3] x, int64[2,5,3] i) => (y) { y = GatherElements<axis=1>(x, i) }", 30, 3),
        ("(float[1,2,4,4] x) => (y) { s = Constant<value_ints=[1,2,8,8]>()"
         ' y = Resize<mode="nearest">(x, , , s) }', 128, 8),
    ],
)  # fmt: skip
def test_each_place_that_is_looked_up_is_an_operation(text, picks, columns):
    """However many elements lie together there."""
    holds(text, flops=picks, columns=columns)


def test_a_reduction_is_as_deep_as_its_rows_are_long():
    reduced = "(float[1,64,512] x) => (y) { a = Constant<value_ints=[2]>() y = ReduceMax(x, a) }"
    holds(reduced, rows=64, columns=1, depth=512)
    holds("(float[1,5,8,9] x) => (y) { y = Softmax<axis=1>(x) }", rows=5, columns=72, depth=5)


def test_twice_as_large_is_one_more():
    small, large = (
        features(f"(float[1,{c},8,8] x, float[{c},{c},3,3] w1) => (y) {{ y = Conv(x, w1) }}")
        for c in (256, 512)
    )
    grown = dict(zip(NAMES, (large.numbers - small.numbers)[0], strict=True))
    expected = {"flops": 2, "read_bytes": 1, "weight_bytes": 2, "columns": 1, "depth": 1, "rows": 0}
    assert {name: grown[name] for name in expected} == pytest.approx(expected, abs=0.01)


KINDS = {
    "(float[1,8,5,5] x, float[8,8,1,1] w1) => (y) { y = Conv(x, w1) }": ["convolution:dense"],
    "(float[1,8,5,5] x, float[8,4,1,1] w1) => (y) { y = Conv<group=2>(x, w1) }": [
        "convolution:grouped-fours"
    ],
    "(float[1,8,5,5] x, float[8,1,1,1] w1) => (y) { y = Conv<group=8>(x, w1) }": [
        "convolution:depthwise"
    ],
    "(float[2,8] x, float[8,4] w1) => (y) { y = MatMul(x, w1) }": ["product:weights"],
    "(float[2,8] a, float[8,4] b) => (y) { y = MatMul(a, b) }": ["product:activations"],
    '(float[2,8] a, float[8,4] b) => (y) { y = Einsum<equation="ij,jk->ik">(a, b) }': [
        "product:einsum"
    ],
    "(float[2,8] x) => (y) { y = Tanh(x) }": ["function:tanh"],
    "(float[2,8] x) => (y) { y = Relu(x) }": ["elementwise:relu"],
    "(float[2,8] a, float[2,8] b) => (y) { y = Add(a, b) }": ["elementwise:add-maps"],
    "(float[2,8] x, float[8] w1) => (y) { y = Add(x, w1) }": ["elementwise:add-vector"],
    "(float[2,8] x) => (y) { y = Softmax(x) }": ["softmax:last"],
    "(float[2,8,3] x) => (y) { y = Softmax<axis=1>(x) }": ["softmax:inner"],
    "(float[1,8,4,5,5] x, float[6,8,1,1,1] w1) => (y) { y = Conv(x, w1) }": [
        "convolution:dense-volume"
    ],
    "(float[1,8,4,5,5] x, float[8,6,2,2,2] w1) => (y) { y = ConvTranspose(x, w1) }": [
        "convolution:transposed-volume"
    ],
    "(float[1,8,4,4,4] x) => (y) { y = MaxPool<kernel_shape=[2,2,2]>(x) }": ["pool:max-volume"],
    '(float[1,2,4,4] x) => (y) { s = Constant<value_ints=[1,2,8,8]>() y = Resize<mode="cubic">'
    "(x, , , s) }": ["resize:cubic"],
    "(float[8,1,32] x, float[1,192,32] w1, float[1,192,64] w2) => (y)"
    "{ y = GRU<hidden_size=64>(x, w1, w2) }": ["recurrent:gru"],
    "(float[2,8,3] x, int64[2,5,3] i) => (y) { y = GatherElements<axis=1>(x, i) }": [
        "gather:elements"
    ],
    '(float[2,8,3] a, float[2,6,3] b) => (y) { y = Einsum<equation="ikc,ijc->kjc">(a, b) }': [
        "product:einsum-apart"
    ],
    "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (y) { y = Attention(q, k, v) }": [
        "attention:free"
    ],
    "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (y)"
    "{ y = Attention<is_causal=1>(q, k, v) }": ["attention:masked"],
}


@pytest.mark.parametrize("text", KINDS, ids=lambda text: text[text.rindex("=") + 2 : -2])
def test_operators_that_are_computed_alike_are_of_one_class(text):
    assert list(features(text).kinds) == KINDS[text]


def fusions(text):
    """Class of each layer, and of the layer that it may be fused into."""
    kinds = Features.of(cases.build(text).model).kinds
    return [(class_of(kind), kind.partition("@")[2]) for kind in kinds]


CONVOLUTION = "(float[1,8,5,5] x, float[8,8,1,1] w1, float[8] w2) => "


def test_what_follows_a_convolution_may_be_fused_into_it():
    assert fusions(CONVOLUTION + "(y) { a = Conv(x, w1) b = Mul(a, x) y = Sigmoid(b) }") == [
        ("convolution", ""), ("elementwise", "convolution"), ("function", "convolution")
    ]  # fmt: skip


def test_what_others_read_too_is_not_fused():
    found = fusions(
        CONVOLUTION + "(y, z) { a = Conv(x, w1) y = Relu(a) z = MaxPool<kernel_shape=[1,1]>(a) }"
    )
    assert sorted(found) == [("convolution", ""), ("elementwise", ""), ("pool", "")]


def test_what_the_model_hands_out_is_not_fused():
    assert fusions(CONVOLUTION + "(a, y) { a = Conv(x, w1) y = Relu(a) }") == [
        ("convolution", ""), ("elementwise", "")
    ]  # fmt: skip


def test_a_pool_ends_what_is_fused():
    found = fusions(
        CONVOLUTION + "(y) { a = Conv(x, w1) b = MaxPool<kernel_shape=[1,1]>(a) y = Relu(b) }"
    )
    assert found == [("convolution", ""), ("pool", ""), ("elementwise", "")]


def test_what_a_framework_fused_counts_as_the_operator():
    """ONNX Runtime's FusedConv, for example, with an activation as an attribute."""
    model = cases.build(CONVOLUTION + "(y) { y = Conv(x, w1) }").model
    (layer,) = model.layers
    fused = replace(layer, op="FusedConv", domain="com.microsoft")
    found = Features.of(replace(model, layers=(fused,)))
    assert found.kinds == Features.of(model).kinds
    assert found.numbers == pytest.approx(Features.of(model).numbers)


def test_ends_say_what_is_handed_over_and_to_whom():
    model = cases.build(CONVOLUTION + "(y) { a = Conv(x, w1) y = Relu(a) }").model
    ends = Features.of_ends(model)
    assert ends.kinds == ("enter:convolution", "leave:elementwise")
    found = [dict(zip(NAMES, 2**row - 1, strict=True)) for row in ends.numbers]
    assert found[0]["read_bytes"] == found[1]["written_bytes"] == pytest.approx(4 * 8 * 25)
    assert [sum(each.values()) for each in found] == pytest.approx([800, 800])


def test_ends_come_in_the_order_of_the_model():
    """Draws depend on the order of layers, and must be the same in every process."""
    sizes = range(2, 12)
    outputs = ", ".join(f"y{size}" for size in sizes)
    layers = " ".join(f"y{size} = Relu(x{size})" for size in sizes)
    inputs = ", ".join(f"float[{size}] x{size}" for size in sizes)
    model = cases.build(f"({inputs}) => ({outputs}) {{ {layers} }}").model
    ends = dict(zip(NAMES, Features.of_ends(model).numbers.T, strict=True))
    assert 2 ** ends["written_bytes"][len(sizes) :] - 1 == pytest.approx([4 * s for s in sizes])


def sound(model):
    """Checks that features are numbers, and that the baseline makes a time of each layer."""
    for found in (Features.of(model), Features.of_ends(model)):
        assert found.numbers.shape == (len(found.kinds), len(NAMES))
        assert np.isfinite(found.numbers).all(), (model.name, found.kinds)
        assert (found.numbers >= 0).all(), (model.name, found.kinds)
        expected = expected_ms(found, Processor.of(System(), 1))
        assert np.isfinite(np.log(expected)).all(), (model.name, found.kinds)


@pytest.mark.parametrize("name", [*cases.COMMON, *cases.UNCOMMON, *cases.REWRITTEN])
def test_every_case_of_the_suite_has_features(name):
    sound(cases.network(name).model)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_has_features_whatever_is_unknown():
    """Parameters are inputs here: many layers are opaque, and sizes are left open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case for case in collect_testcases(None) if "_expanded" not in case.name]
    models = 0
    for case in found:
        try:
            model = normalize(read_model(case.model, name=case.name))
        except DLBricksError:
            continue
        sound(model)
        models += 1
    assert models > 700


def test_layers_that_no_standard_knows_have_features():
    sound(cases.odd_model("Relu", "Quux", "FusedQuux", "Attention", "LSTM", "Conv", "Gemm"))


def test_layers_of_unknown_sizes_have_features():
    """So has a layer without results or attributes, as a framework's own may be."""
    specs = {"x": TensorSpec("float32", (1, None)), "y": TensorSpec("float32", None),
             "z": TensorSpec("undefined", ("n",)), "w": TensorSpec("float32", (4, 4))}  # fmt: skip
    layers = tuple(
        Layer(op, ("x", "w", ""), ("y", "", "z"), opaque=reason)
        for op in ("Conv", "MatMul", "Gemm", "LSTM", "Attention", "Gather", "Reshape", "If")
        for reason in ("", "subgraph (If)")
    )
    model = CanonicalModel("unknown", layers, ("x",), ("y", "z"), specs, frozenset("w"))
    sound(model)


def test_attention_of_another_domain_has_features():
    """It reads a mask in the place of the keys."""
    specs = {"x": TensorSpec("float32", (1, 8, 16)), "w": TensorSpec("float32", (16, 48)),
             "m": TensorSpec("int32", (1,)), "y": TensorSpec("float32", (1, 8, 16))}  # fmt: skip
    layer = Layer("Attention", ("x", "w", "", "m"), ("y",), domain="com.microsoft")
    sound(CanonicalModel("a", (layer,), ("x", "m"), ("y",), specs, frozenset("w")))


def test_rare_operators_tell_nothing_about_each_other():
    """Only what all layers have in common, and what all rare ones have, do they share."""
    spec = TensorSpec("float32", (4, 8, 8))
    layers = tuple(
        Layer(op, ("x",), (op,)) for op in ("Det", "AffineGrid", "LpPool", "AveragePool")
    )
    names = tuple(layer.op for layer in layers)
    model = CanonicalModel("rare", layers, ("x",), names, dict.fromkeys(("x", *names), spec))
    found = Features.of(model)
    assert found.kinds == ("other:det", "other:affinegrid", "pool:powers", "pool:mean-line")
    sound(model)


@pytest.mark.parametrize(("axes", "mark"), [(1, "-line"), (2, ""), (3, "-volume")])
def test_pools_have_a_kind_for_each_number_of_axes(axes: int, mark: str):
    spec = TensorSpec("float32", (1, 8, *(6,) * axes))
    layer = Layer("MaxPool", ("x",), ("y",), {"kernel_shape": (2,) * axes})
    model = CanonicalModel("pool", (layer,), ("x",), ("y",), {"x": spec, "y": spec})
    assert Features.of(model).kinds == (f"pool:max{mark}",)


@pytest.mark.parametrize("op", ["MatMul", "Conv", "Relu", "MaxPool", "Softmax", "Reshape"])
def test_tensors_without_elements_have_features(op):
    nothing = TensorSpec("float32", (0, 8))
    layer = Layer(op, ("x", "x"), ("y",))
    sound(CanonicalModel("none", (layer,), ("x",), ("y",), {"x": nothing, "y": nothing}))


def test_a_model_without_layers_has_no_features():
    spec = TensorSpec("float32", (1,))
    model = CanonicalModel("none", (), ("x",), ("x",), {"x": spec})
    assert Features.of(model).kinds == ()
    assert Features.of_ends(model).kinds == ("enter:nothing", "leave:nothing")
    sound(model)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_short_type_makes_another_kind_and_half_the_bytes(dtype):
    own = cases.network("residual_block").model
    usual, short = Features.of(own), Features.of(convert(own, dtype))
    assert short.kinds == tuple(
        f"{own}~{dtype}{at}{head}" for own, at, head in (k.partition("@") for k in usual.kinds)
    )
    assert [*map(class_of, short.kinds)] == [*map(class_of, usual.kinds)]
    for name in ("read_bytes", "weight_bytes", "written_bytes"):
        at = NAMES.index(name)
        full, half = (2 ** each.numbers[:, at] - 1 for each in (usual, short))
        assert half == pytest.approx(full / 2)
    at = NAMES.index("flops")
    assert (short.numbers[:, at] == usual.numbers[:, at]).all()


def coded(results):
    """A convolution between tensors that are kept as codes."""
    return cases.build(
        "(uint8[1,8,9,9] x, float w1, uint8 w2, int8[4,8,3,3] w3, float w4, int8 w5,"
        f" int32[4] w6) => ({results})"
        "{ a = DequantizeLinear(x, w1, w2)"
        "  b = DequantizeLinear(w3, w4, w5)"
        "  c = DequantizeLinear(w6, w4)"
        "  y = Conv<pads=[1,1,1,1]>(a, b, c)"
        "  r = Relu(y)"
        "  z = QuantizeLinear(r, w1, w2) }"
    ).model


def test_a_convolution_of_codes_is_the_same_product():
    """Whether codes are read by the convolution itself or by layers before it."""
    (at,) = (i for i, layer in enumerate(coded("z").layers) if layer.op == "Conv")
    found = dict(zip(NAMES, Features.of(coded("z")).numbers[at], strict=True))
    text = (
        "(uint8[1,8,9,9] x, float w1, uint8 w2, int8[4,8,3,3] w3, float w4, int8 w5,"
        " int32[4] w6) => (y)"
        "{ y = QLinearConv<pads=[1,1,1,1]>(x, w1, w2, w3, w4, w5, w1, w2, w6) }"
    )
    (own,) = Features.of(cases.build(text).model).numbers
    for name in ("rows", "columns", "depth", "window", "groups", "stride", "column_waste"):
        assert found[name] == pytest.approx(own[NAMES.index(name)])
    share = (25 / 27) ** 2  # at the edges, windows read padding
    assert 2 ** own[0] - 1 == pytest.approx(4 * 81 * (2 * 72 + 3) * share, abs=1)
    assert features(text).kinds == ("convolution:dense~uint8",)


def test_what_computes_with_codes_is_of_another_kind():
    """A framework may compute with codes where the model says that it reads floats."""
    assert {*Features.of(coded("z")).kinds} == {
        "codes:read~uint8@convolution",
        "codes:read-weights~int8@convolution",
        "codes:read-weights@convolution",
        "convolution:dense~codes",
        "elementwise:relu@convolution",
        "codes:written~uint8@convolution",
    }


def test_codes_that_become_floats_for_others_are_read_indeed():
    assert "codes:read~uint8" in Features.of(coded("a,z")).kinds
    alone = (
        "(uint8[2,8] x, float w1, uint8 w2) => (y){ a = DequantizeLinear(x, w1, w2) y = Relu(a) }"
    )
    assert features(alone).kinds == ("codes:read~uint8", "elementwise:relu~codes")


@pytest.mark.parametrize(("dtype", "read"), [("float8e4m3fn", ""), ("int8", "@product")])
def test_no_product_takes_tiny_floats_as_they_are(dtype, read):
    text = (
        f"(float[2,8] x, {dtype}[8,4] w1, float w2) => (y)"
        "{ b = DequantizeLinear(w1, w2) y = MatMul(x, b) }"
    )
    assert features(text).kinds[0] == f"codes:read-weights~{dtype}{read}"


def test_a_filter_of_codes_tells_whether_channels_are_convolved_alone():
    text = (
        "(float[1,8,9,9] x, int8[8,1,3,3] w1, float w2) => (y)"
        "{ b = DequantizeLinear(w1, w2) y = Conv<group=8, pads=[1,1,1,1]>(x, b) }"
    )
    assert features(text).kinds[-1] == "convolution:depthwise"


def test_the_baseline_of_a_short_type_is_as_efficient_and_moves_less():
    own = cases.network("attention_by_hand").model
    processor = Processor.of(System(), 1)
    usual, short = (expected_ms(Features.of(m), processor) for m in (own, convert(own, "float16")))
    assert (short <= usual).all()
    assert (short > usual / 2.1).all()

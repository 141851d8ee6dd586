"""Numbers of layers, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction.features import NAMES, Features, distinct
from dlbricks_testing import cases


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


def test_ends_say_what_is_handed_over_and_to_whom():
    model = cases.build(
        "(float[1,8,5,5] x, float[8,8,1,1] w1, float[8] w2) => (y) { a = Conv(x, w1) y = Relu(a) }"
    ).model
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


def test_layers_that_several_lists_hold_are_kept_once():
    numbers = np.random.default_rng(0).random((3, len(NAMES)))
    one = Features(("convolution", "product", "product"), numbers)
    other = Features(("product", "convolution"), numbers[[1, 1]])
    every, places = distinct([one, other])
    assert len(every.kinds) == 4  # another kind with the same numbers is another layer
    for part, own in zip((one, other), places, strict=True):
        assert every.part(own).kinds == part.kinds
        assert (every.part(own).numbers == part.numbers).all()

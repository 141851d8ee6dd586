"""Patterns of memory access, by hand."""

import pytest
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.patterns import Pattern, pattern_of
from dlbricks_testing import cases


def pattern(text):
    model = cases.build(text).model
    return pattern_of(model, model.layers[-1])


@pytest.mark.parametrize(
    ("shape", "order", "expected"),
    [
        ("1,3,5,7", "0,1,2,3", Pattern("none", 105)),
        ("1,3,1,7", "2,1,0,3", Pattern("none", 21)),  # only axes of size 1 move
        ("1,196,12,64", "0,2,1,3", Pattern("blocks", 64)),
        ("4,5,2,3,7", "2,0,1,3,4", Pattern("blocks", 21)),
        ("1,3136,256", "0,2,1", Pattern("matrix")),
        ("8,56,56,96", "0,3,1,2", Pattern("matrix")),  # of 3136 rows and 96 columns
        ("2,3,5,7", "1,0,3,2", Pattern("elements")),
        ("2,3,5", "2,1,0", Pattern("elements")),
    ],
)
def test_a_transposition_moves_nothing_blocks_or_elements(shape, order, expected):
    text = f"(float[{shape}] x) => (y) {{ y = Transpose<perm=[{order}]>(x) }}"
    assert pattern(text) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1,196,384", "1,196,384", Pattern("maps")),
        ("1,196,384", "384", Pattern("vector", 384)),
        ("2,196,384", "196,384", Pattern("vector", 196 * 384)),
        ("196,384", "1,196,384", Pattern("maps")),  # equal sizes, other ranks
        ("1,196,384", "1,196,1", Pattern("rows", 384)),
        ("1,8,7,5", "1,8,1,1", Pattern("rows", 35)),
        ("2,8,7,5", "8,1,1", Pattern("rows", 35)),
        ("2,8,7,5", "2,1,1,5", Pattern("mixed", 5)),
        ("2,3,4", "1", Pattern("scalar", 24)),
        ("8,1", "1,7", Pattern("crossed")),
        ("384", "1,196,384", Pattern("vector", 384)),  # the smaller one may come first
    ],
)
def test_operands_are_spread_over_the_result(left, right, expected):
    text = f"(float[{left}] a, float[{right}] b) => (y) {{ y = Add(a, b) }}"
    assert pattern(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[1,3,8] a, float[1,5,8] b) => (y) { y = Concat<axis=1>(a, b) }", ("outer", 24)),
        ("(float[2,3,8] a, float[2,5,8] b) => (y) { y = Concat<axis=1>(a, b) }", ("inner", 24)),
        ("(float[1,6,8] x) => (a, b) { a, b = Split<axis=1, num_outputs=2>(x) }", ("outer", 24)),
        (
            "(float[1,6,8] x) => (y) { s = Constant<value_ints=[0]>()"
            " e = Constant<value_ints=[5]>() a = Constant<value_ints=[2]>()"
            " y = Slice(x, s, e, a) }",
            ("inner", 5),
        ),
        (
            "(float[1,3,6] x) => (y) { p = Constant<value_ints=[0,0,1,0,0,1]>() y = Pad(x, p) }",
            ("inner", 6),
        ),
        ("(int64[2,5] i, float[11,4] w1) => (y) { y = Gather(w1, i) }", ("rows", 4)),
        (
            "(float[3,6,5] x) => (y) { i = Constant<value_ints=[4,0]>() y = Gather<axis=1>(x, i) }",
            ("parts", 5),
        ),
        ("(float[2,3,4] x) => (y) { a = Constant<value_ints=[2]>() y = ReduceMean(x, a) }",
         ("last", 1, 4)),
        ("(float[2,3,4] x) => (y) { a = Constant<value_ints=[1]>() y = ReduceMax(x, a) }",
         ("inner", 4, 3)),
        ("(float[2,3,4] x) => (y) { y = ReduceSum(x) }", ("all", 24, 24)),
        ("(float[2,3,4] x) => (y) { y = ArgMax<axis=1, keepdims=0>(x) }", ("inner", 4, 3)),
        ("(float[1,5,4] a, float[1,5,2] b) => (y) { y = Concat<axis=2>(a, b) }", ("last", 4)),
        ("(float[1,4] a, float[1,2] b) => (y) { y = Concat<axis=-1>(a, b) }", ("outer", 4)),
        ("(float[2,3,4] x) => (y) { y = Softmax(x) }", ("last", 4)),
        ("(float[2,3,4] x) => (y) { y = Softmax<axis=1>(x) }", ("inner", 4, 3)),
        ("(float[2,3,1] x) => (y) { y = LogSoftmax<axis=1>(x) }", ("last", 3)),
    ],
)  # fmt: skip
def test_rows_stay_together_in_copies_and_reductions(text, expected):
    assert pattern(text) == Pattern(*expected)


def test_other_layers_have_no_pattern():
    assert pattern("(float[2,3] x) => (y) { y = Relu(x) }") is None


def test_patterns_are_part_of_the_kind_and_their_runs_are_columns():
    model = cases.build(
        "(float[1,8,7,5] x, float[1,8,1,1] g) => (z) { y = Mul(x, g) z = Transpose(y) }"
    ).model
    found = Features.of(model)
    assert found.kinds == ("elementwise:mul-rows", "transpose:elements")
    row = dict(zip(NAMES, found.numbers[0], strict=True))
    assert 2 ** row["columns"] - 1 == pytest.approx(35)
    assert 2 ** row["rows"] - 1 == pytest.approx(8)

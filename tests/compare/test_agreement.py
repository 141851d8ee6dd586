"""Distance of results, for all element types, and which of several results agree."""

import ml_dtypes
import numpy as np
import pytest
from dlbricks_compare.agreement import all_vary, difference, majority, relative_error

VALUES = np.array([0.5, 1.0, 2.0, 4.0])


def texts(*words, dtype=object):
    return np.array(words, dtype=dtype)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint64", "float16", "float64", "complex64", ml_dtypes.bfloat16,
     ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint2],
)  # fmt: skip
def test_every_element_type_is_compared(dtype):
    values = np.array([0, 1, 1, 0]).astype(dtype)
    assert relative_error(values, values) == 0.0
    assert relative_error(values, values[::-1]) == 0.0
    assert relative_error(1 - values.real.astype(np.float32), values) > 0.5
    assert all_vary({"y": values})


def test_equal_numbers_of_other_types_agree():
    assert (
        relative_error(VALUES.astype(np.float32), VALUES.astype(np.int32) + 0.5 * (VALUES < 1)) == 0
    )
    assert relative_error(np.array([True, False]), np.array([1, 0], np.int64)) == 0
    assert relative_error(VALUES.astype(np.complex64), VALUES) == 0


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_the_rounding_of_short_floats_is_not_counted_as_an_error(dtype):
    precision = float(ml_dtypes.finfo(dtype).eps)
    values = np.linspace(1.0, 1.2, 50)  # their common part is larger than what they vary by
    rounded = values.astype(dtype).astype(np.float64)
    for units, error in ((1, False), (40, True)):
        off = (rounded + units * precision).astype(dtype)
        assert (relative_error(off, rounded.astype(dtype)) > 1e-3) == error


def test_a_lower_precision_counts_for_the_output_that_has_it():
    exact = {"rounded": VALUES, "strict": VALUES}
    for name, error in (("rounded", False), ("strict", True)):
        off = {**exact, name: VALUES * 1.02}
        assert (difference(off, exact, {"rounded": 2**-7}) > 1e-3) == error
        assert difference(off, exact) > 1e-3
    assert difference({**exact, "rounded": VALUES * 1.2}, exact, {"rounded": 2**-7}) > 0.05
    assert majority([exact, {**exact, "rounded": VALUES * 1.02}], 1e-3, {"rounded": 2**-7}) == (
        0,
        1,
    )


def test_texts_agree_only_if_they_are_equal():
    assert relative_error(texts("ham", "spam"), texts("ham", "spam", dtype=str)) == 0.0
    assert relative_error(texts("ham", "spam"), texts("ham", "ham")) == np.inf
    assert relative_error(texts("1", "2"), np.array([1.0, 2.0])) == np.inf
    assert relative_error(np.array([1.0, 2.0]), texts("1", "2")) == np.inf


def test_constant_outputs_do_not_show_agreement():
    assert all_vary({"label": texts("ham", "spam"), "p": VALUES})
    assert not all_vary({"label": texts("ham", "ham"), "p": VALUES})
    assert not all_vary({"label": texts("ham", "spam"), "p": np.ones(3)})


def test_results_without_elements_agree_by_their_shape():
    empty = np.zeros((0, 4), np.float32)
    assert relative_error(empty, empty) == 0.0
    assert relative_error(empty, empty.T) == np.inf
    assert all_vary({"y": empty, "text": texts()})


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ([1.0], ()),
        ([1.0, 1.0], (0, 1)),
        ([1.0, 1.1], ()),
        ([1.0, 1.1, 1.0], (0, 2)),
        ([1.1, 1.0, 1.0], (1, 2)),
        ([1.0, 1.1, 1.2], ()),
        ([1.0, 1.0, 1.1, 1.1], ()),
        ([1.0, 1.1, 1.1, 1.1], (1, 2, 3)),
    ],
)
def test_a_majority_agrees_with_each_other(factors, expected):
    assert majority([{"y": factor * VALUES} for factor in factors], 1e-3) == expected


def test_codes_that_differ_by_one_unit_agree_where_a_layer_rounds_to_them():
    codes = np.array([3, 3, 4, 5], np.int8)
    beside = {"y": codes + np.int8(1)}
    assert difference(beside, {"y": codes}) > 0
    assert difference(beside, {"y": codes}, {"y": 2**-7}) == 0
    assert difference({"y": codes + np.int8(2)}, {"y": codes}, {"y": 2**-7}) > 0

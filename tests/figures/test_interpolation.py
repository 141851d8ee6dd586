"""Means over whole numbers of something that is known at a few of them."""

import numpy as np
import pytest
from dlbricks_sizes.interpolation import mean_weights, spread_over
from hypothesis import given
from hypothesis import strategies as st

RANGES = st.builds(
    lambda first, count: range(first, first + count), st.integers(0, 5000), st.integers(1, 300)
)


@given(RANGES, st.integers(2, 6))
def test_both_ends_are_among_the_numbers(numbers, most):
    known = spread_over(numbers, most)
    assert (known[0], known[-1]) == (numbers[0], numbers[-1])
    assert len(known) == min(most, len(numbers))
    assert list(known) == sorted(set(known))


@given(RANGES, st.integers(2, 6), st.floats(-5, 5), st.floats(0, 1e3))
def test_the_mean_of_a_straight_line_is_exact(numbers, most, slope, start):
    known = spread_over(numbers, most)
    weights = mean_weights(numbers, known)
    values = start + slope * np.array(known)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    true = np.mean(start + slope * np.array(numbers))
    assert float(weights @ values) == pytest.approx(true, rel=1e-9, abs=1e-6)


def test_a_bend_between_known_numbers_is_followed():
    weights = mean_weights(range(5), [0, 2, 4])
    assert float(weights @ [0, 0, 10]) == pytest.approx(np.mean([0, 0, 0, 5, 10]))

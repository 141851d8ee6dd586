"""Widths of intervals in words, which stay true where an interval is wide."""

import doctest

import numpy as np
import pytest

from dlbricks_core.figures import statistics
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.statistics import spread_text, widest_text, width_text


def test_examples_in_docstrings_are_right():
    assert doctest.testmod(statistics).failed == 0


@pytest.mark.parametrize("factor", [2.5, 8, 66])
def test_a_skewed_interval_is_told_by_the_factor_between_estimate_and_ends(factor):
    told = f"within a factor of {factor:g}"
    assert width_text(relative_half_width((10.0 / factor, 10.0 * factor))) == told
    assert spread_text(np.sinh(np.log(factor))) == told


def test_narrow_intervals_and_intervals_without_a_factor_are_told_in_percent():
    assert width_text(0.6) == spread_text(0.6) == "±60%"
    assert width_text(0.096, 1) == "±9.6%"
    assert width_text(1.2) == "±120%"


def test_the_widest_of_several_bounds_all():
    assert widest_text([0.1]) == "±10%"
    assert widest_text([0.1, 0.125], 1) == "at most ±12.5%"
    assert widest_text([0.1, 0.8]) == "within a factor of 3"

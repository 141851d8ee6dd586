"""What a comparison concludes from figures of whole models and of their parts."""

import numpy as np
import pytest
from dlbricks_compare.comparison import ModelComparison, PartComparison
from dlbricks_compare.ranking import Ranking, Ratio
from dlbricks_compare.report import margin

from dlbricks_core.compose import Estimate
from dlbricks_core.figures.figure import RESAMPLES, Cost


def cost(ms):
    return Cost(ms, np.full(RESAMPLES, ms))


def compared(wholes, sums):
    ranking = Ranking.of({name: cost(ms) for name, ms in wholes.items()})
    sums = {name: cost(ms) for name, ms in sums.items()}
    return ModelComparison({}, (), ranking, sums, Estimate(None, None), {})


def test_sums_of_parts_are_compared_with_the_winners():
    found = compared({"a": 2.0, "b": 3.0, "c": 4.0}, {"a": 1.0, "b": 2.0})
    assert {name: ratio.value for name, ratio in found.sum_ratios.items()} == {"b": 2.0}
    assert not found.is_contradicted
    assert compared({"a": 2.0, "b": 3.0}, {"b": 1.0}).sum_ratios == {}
    assert compared({}, {}).sum_ratios == {}


@pytest.mark.parametrize(
    ("wholes", "sums", "contradicted"),
    [
        ({"a": 2.0, "b": 3.0}, {"a": 2.0, "b": 1.5}, True),
        ({"a": 2.0, "b": 3.0}, {"a": 1.5, "b": 2.0}, False),
        ({"a": 2.0, "b": 2.0}, {"a": 2.0, "b": 1.5}, False),  # there is no winner
    ],
)
def test_a_contradiction_between_parts_and_model_is_noticed(wholes, sums, contradicted):
    assert compared(wholes, sums).is_contradicted == contradicted


def test_the_difference_is_between_the_slowest_and_the_fastest():
    costs = {"a": cost(2.0), "b": cost(5.0), "c": cost(3.0)}
    assert PartComparison(None, 1, {}, Ranking.of(costs)).difference_ms == 3.0
    assert PartComparison(None, 1, {}, Ranking.of({"a": cost(2.0)})).difference_ms is None


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(2.07, 1.31, 2.52), "2.07x (1.31-2.52)"),
        (Ratio(75.1, 0.0, 209.0), "75.1x (209 or less)"),
        (Ratio(75.1, 0.0004, 209.0), "75.1x (209 or less)"),
        (Ratio(75.1, 1.31, None), "75.1x (1.31 or more)"),
        (Ratio(75.1, 0.0, None), "75.1x (uncertain)"),
        (Ratio(None, None, None), "-"),
        (None, "-"),
    ],
)
def test_ends_of_an_interval_that_say_nothing_are_left_out(ratio, text):
    assert margin(ratio) == text

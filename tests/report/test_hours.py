"""Widths of intervals in this hour and on another day, in words."""

from types import SimpleNamespace

import numpy as np
import pytest

from dlbricks_core.commands.estimate.terminal import _of_model, hours
from dlbricks_core.compose import Estimate
from dlbricks_core.figures.figure import RESAMPLES, interval

NORMAL = np.random.default_rng(3).standard_normal(RESAMPLES)


@pytest.fixture
def model():
    """A model with an estimate of 12 ms, by the standard deviations within an hour and between."""

    def build(within, between, partial=False):
        draws = 12 * (1 + within * NORMAL)
        missing = ("a",) if partial else ()
        estimate = Estimate(12.0, interval(draws), missing, None, draws)
        return SimpleNamespace(
            estimate=estimate.in_any_hour(between, measured=True), measured=None, normalized=None
        )

    return build


def several(*models):
    return SimpleNamespace(models=models)


def test_one_model_has_both_widths_beside_its_interval(model):
    said = _of_model(model(0.02, 0.06), "ms")
    assert said.startswith("estimated 12.0 ms (10.")
    assert said.endswith("; ±3% in this hour, ±10% on another day)")


def test_several_models_have_the_widest_of_both(model):
    said = hours(several(model(0.02, 0.06), model(0.03, 0.06), model(0.5, 0.06, partial=True)))
    assert said == "90% intervals: at most ±5% in this hour, at most ±11% on another day."


def test_one_width_in_words_is_said_once(model):
    said = _of_model(model(0.02, 0.001), "ms")
    assert said.endswith("; ±3% in this hour and on another day)")


def test_where_one_width_holds_always_nothing_is_added(model):
    assert hours(several(model(0.02, 0.0), model(0.03, 0.0))) == ""
    assert "hour" not in _of_model(model(0.02, 0.0), "ms")
    assert hours(several(model(0.02, 0.06))) == ""

"""Numbers of composers, fitted to networks and bricks whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.compose import Segmented, Sequential
from dlbricks_core.compose.fitting import (
    PRIOR_COUNT,
    Deviation,
    FittingData,
    LogRatio,
    fitted_deviation,
    fitted_share,
)
from dlbricks_core.compose.similar import Similar

RANDOM = np.random.default_rng(5)
small = st.floats(-0.5, 0.5)


def test_without_observations_the_own_value_stays():
    assert fitted_deviation(0.03, []) == pytest.approx(0.03)
    assert fitted_share(0.7, 0.17, []) == pytest.approx(0.7)


def test_a_few_networks_move_the_deviation_and_many_decide_it():
    exact = [Deviation(0.0, 0.0)] * int(PRIOR_COUNT)
    assert fitted_deviation(0.03, exact) == pytest.approx(0.03 / math.sqrt(2))
    many = [Deviation(error, 0.0) for error in RANDOM.normal(0, 0.08, 5000)]
    assert fitted_deviation(0.03, many) == pytest.approx(0.08, rel=0.03)


def test_deviations_that_scatter_explains_are_not_counted():
    scatter = 0.06
    off = np.hypot(RANDOM.normal(0, 0.02, 5000), 0) + RANDOM.normal(0, scatter, 5000)
    deviations = [Deviation(error, scatter) for error in off]
    assert fitted_deviation(0.03, deviations) == pytest.approx(0.02, rel=0.2)
    unlucky = [Deviation(0.001, scatter)] * 10  # scatter alone explains more than this
    assert fitted_deviation(0.03, unlucky) == fitted_deviation(0.03, [Deviation(0, 0)] * 10)


@given(st.lists(st.builds(Deviation, small, st.floats(0, 0.5))))
def test_a_deviation_is_a_number_between_the_own_and_the_largest_error(deviations):
    found = fitted_deviation(0.03, deviations)
    largest = max((abs(each.error) for each in deviations), default=0.0)
    least = 0.03 * math.sqrt(PRIOR_COUNT / (PRIOR_COUNT + len(deviations)))
    assert least * 0.999 <= found <= max(0.03, largest) * 1.001


def ratios(share, number, scatter=0.0):
    flops, nbytes = RANDOM.normal(0.5, 0.4, (2, number))
    noise = RANDOM.normal(0, scatter, number) if scatter else np.zeros(number)
    costs = share * flops + (1 - share) * nbytes + noise
    return [LogRatio(*each, scatter) for each in zip(flops, nbytes, costs, strict=True)]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_the_share_of_operations_is_found(share):
    assert fitted_share(0.7, 0.17, ratios(share, 2000)) == pytest.approx(share, abs=0.01)
    few = fitted_share(0.7, 0.17, ratios(share, 1))
    assert abs(few - 0.7) < abs(share - 0.7) / 2 + 1e-9


def test_bricks_that_scatter_widely_hardly_count():
    mixed = ratios(0.3, 200) + ratios(1.0, 200, scatter=3.0)
    assert fitted_share(0.7, 0.17, mixed) == pytest.approx(0.3, abs=0.05)


@given(st.lists(st.builds(LogRatio, small, small, st.floats(-9, 9), st.floats(0, 1))))
def test_a_share_lies_between_zero_and_one(found):
    assert 0 <= fitted_share(0.7, 0.17, found) <= 1


def test_composers_say_what_can_be_fitted(place):
    nothing = FittingData([], {}, {}, *place)
    assert Sequential().fit(nothing) == {}
    for composer in (Segmented(), Similar()):
        own = {name: getattr(composer, name) for name in composer.fitted}
        assert composer.fit(nothing) == pytest.approx(own)
    assert Similar.fitted.keys() > Segmented.fitted.keys()


def test_calibrating_a_composer_makes_a_new_one():
    own = Similar()
    found = own.calibrated({"composing_error": 0.01, "computing_share": 0.5, "unknown": 3.0})
    assert (found.composing_error, found.computing_share) == (0.01, 0.5)
    assert found.inference_error == own.inference_error == Similar.inference_error
    assert (own.composing_error, own.computing_share) == (0.03, 0.7)
    assert not hasattr(found, "unknown")
    assert Sequential().calibrated({"composing_error": 0.01}).composing_error == 0

"""Weighted sums of estimates that rest on the same figures."""

import numpy as np
import pytest

from dlbricks_core.compose import Estimate
from dlbricks_core.figures.figure import RESAMPLES, Combined, Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS

NORMAL = np.random.default_rng(1).standard_normal((2, RESAMPLES))


def estimate(value, draws, error=0.0, missing=()):
    return Estimate(value, interval(draws), missing, None, np.asarray(draws), error)


def width(ends):
    return ends[1] - ends[0]


def test_a_weight_of_one_changes_nothing():
    one = estimate(10.0, 10 + NORMAL[0])
    whole = Estimate.weighted([(1.0, one)])
    assert (whole.value, whole.interval) == (one.value, pytest.approx(one.interval))


def test_common_errors_stay_common():
    one, same = estimate(10.0, 10 + NORMAL[0]), estimate(20.0, 20 + NORMAL[0])
    apart = estimate(20.0, 20 + NORMAL[1])
    common = Estimate.weighted([(0.5, one), (0.5, same)])
    independent = Estimate.weighted([(0.5, one), (0.5, apart)])
    assert common.value == independent.value == 15.0
    assert width(common.interval) == pytest.approx(width(one.interval))
    assert width(independent.interval) < 0.8 * width(common.interval)


def test_the_error_of_composing_does_not_average_out():
    parts = [(0.25, estimate(8.0, np.full(RESAMPLES, 8.0), 0.03)) for _ in range(4)]
    whole = Estimate.weighted(parts)
    assert whole.composing_error == pytest.approx(0.03)
    assert width(whole.interval) == pytest.approx(8 * 0.03 * 2 * 1.645, rel=0.1)


def test_the_error_of_composing_is_a_mean_by_shares():
    exact = estimate(30.0, np.full(RESAMPLES, 30.0))
    off = estimate(10.0, np.full(RESAMPLES, 10.0), 0.04)
    assert Estimate.weighted([(1.0, exact), (1.0, off)]).composing_error == pytest.approx(0.01)


def test_what_is_missing_makes_the_sum_partial():
    some = estimate(5.0, np.full(RESAMPLES, 5.0), missing=("a", "b"))
    whole = Estimate.weighted([(1.0, some), (2.0, estimate(1.0, np.ones(RESAMPLES)))])
    assert (whole.value, whole.missing) == (7.0, ("a", "b"))
    unknown = Estimate.weighted([(1.0, some), (1.0, Estimate(None, None, ("c",)))])
    assert (unknown.value, unknown.interval) == (None, None)
    assert unknown.missing == ("a", "b", "c")


def test_measured_figures_of_the_same_rounds_vary_together():
    drift = 1 + 0.1 * np.random.default_rng(2).random(40)
    fast, slow = (Measured(tuple(ms * drift), PROTOCOLS["interleaved"]) for ms in (1.0, 3.0))
    mean = Combined(((0.5, fast), (0.5, slow)))
    assert mean.value == pytest.approx((fast.value + slow.value) / 2)
    relative = width(interval(mean.replicates)) / mean.value
    assert relative == pytest.approx(width(interval(fast.replicates)) / fast.value, rel=1e-6)


def test_an_estimate_for_any_hour_is_wider_and_keeps_the_interval_of_this_one():
    now = estimate(10.0, 10 + 0.1 * NORMAL[0], 0.01)
    then = now.in_any_hour(0.06, measured=True)
    assert then.this_hour == then.interval_now == now.interval == now.interval_now
    assert width(then.interval) == pytest.approx(2 * 1.645 * 10 * 0.0617, rel=0.1)
    assert then.composing_error == pytest.approx(0.0608, rel=0.01)
    assert now.in_any_hour(0.0, measured=True) is now
    nothing = now.in_any_hour(0.06, measured=False)
    assert nothing.interval == nothing.interval_now == then.interval
    assert Estimate(None, None).in_any_hour(0.06, measured=True) == Estimate(None, None)


def test_another_hour_is_another_one_for_all_parts():
    parts = [
        (0.5, estimate(10.0, np.full(RESAMPLES, 10.0)).in_any_hour(0.06, measured=True))
        for _ in range(2)
    ]
    assert width(Estimate.weighted(parts).interval) == pytest.approx(width(parts[0][1].interval))


def test_no_interval_of_another_day_has_a_negative_end():
    then = estimate(10.0, np.full(RESAMPLES, 10.0)).in_any_hour(0.7, measured=True)
    assert 0 < then.interval[0] < 10 < then.interval[1]

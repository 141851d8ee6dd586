"""MLPerf's early-stopping rule, against numbers that MLCommons and others have published."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_serving.scenarios import (
    early_stopping_estimate,
    meets_bound,
    overlatency_allowed,
    percentile,
    percentile_interval,
    queries_needed,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

SHARES = st.sampled_from([0.5, 0.9, 0.95, 0.97, 0.99, 0.999])


def test_fewest_queries_are_those_that_loadgen_prints():
    # "Processed at least 64 queries", "would need to process at least 662 total queries"
    assert queries_needed(1, 0.90) == 64
    assert queries_needed(1, 0.99) == 662
    # With none over the bound: 0.9**44 and 0.99**459 are the first at most 1%.
    assert queries_needed(0, 0.90) == 44
    assert queries_needed(0, 0.99) == 459


@pytest.mark.parametrize(
    ("queries", "discarded"),
    [(201, 9), (659, 47), (708, 51), (2_048, 172), (2_145, 181), (79_944, 7_796)],
)
def test_as_many_queries_are_discarded_as_in_published_results(queries, discarded):
    assert overlatency_allowed(queries, 0.90) == discarded + 1


def test_an_estimate_is_the_highest_latency_after_those_discarded():
    latencies = np.random.default_rng(0).permutation(708)
    assert early_stopping_estimate(latencies, 0.90) == 707 - 51
    assert early_stopping_estimate(latencies[:63], 0.90) is None
    assert early_stopping_estimate(latencies[:64], 0.90) == latencies[:64].max()


@given(st.integers(0, 3000), SHARES)
def test_queries_needed_are_the_fewest_by_the_binomial_distribution(overlatency, share):
    needed = queries_needed(overlatency, share)
    assert stats.binom.cdf(overlatency, needed, 1 - share) <= 0.01
    assert stats.binom.cdf(overlatency, needed - 1, 1 - share) > 0.01
    assert needed > overlatency / (1 - share)


@given(st.integers(1, 20_000), SHARES)
def test_allowed_and_needed_are_two_sides_of_one_rule(queries, share):
    allowed = overlatency_allowed(queries, share)
    if allowed is None:
        assert queries_needed(0, share) > queries
    else:
        assert queries_needed(allowed, share) <= queries < queries_needed(allowed + 1, share)


@given(st.lists(st.floats(0.1, 1e4), min_size=64, max_size=400), st.floats(0.1, 1e4))
def test_a_run_meets_the_bounds_from_its_estimate_on(latencies, bound):
    estimate = early_stopping_estimate(latencies, 0.90)
    assert estimate is not None
    assert estimate >= percentile(latencies, 0.90)
    assert meets_bound(latencies, estimate, 0.90)
    if meets_bound(latencies, bound, 0.90):
        assert sorted(latencies)[-overlatency_allowed(len(latencies), 0.90) - 1] <= bound


def test_estimates_come_near_the_percentile_with_many_queries():
    latencies = np.random.default_rng(1).exponential(size=100_000)
    assert early_stopping_estimate(latencies, 0.99) == pytest.approx(np.log(100), rel=0.03)


def test_a_percentile_is_an_element_as_loadgen_takes_it():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile(range(100), 0.9) == 90


def test_an_interval_holds_the_true_percentile_as_often_as_it_says():
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        low, high = percentile_interval(rng.exponential(size=500), 0.9)
        held += low <= np.log(10) <= high
    assert held / 400 == pytest.approx(0.9, abs=0.04)

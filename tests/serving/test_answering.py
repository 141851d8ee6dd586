"""Answers of scenarios, from how long instances serve a sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dlbricks_serving.scenarios import (
    Scenario,
    ServiceTimes,
    answer,
    most_qps_under,
    percentile,
    poisson_arrivals,
    served_at,
    simulate,
)
from hypothesis import given, settings
from hypothesis import strategies as st

RNG = np.random.default_rng(0)
EVEN = np.full(10, 10.0)
SCATTERED = RNG.gamma(25, 0.4, size=300)
EXPONENTIAL = -10 * np.log(1 - (np.arange(5000) + 0.5) / 5000)
FEW = 3_000


def test_offline_throughput_is_that_of_all_instances_busy():
    found = answer(Scenario.OFFLINE, ServiceTimes(4, EVEN, {1: EVEN / 2}), None)
    assert found.throughput == pytest.approx(400)
    assert found.holds is None
    assert found.early_stopping_ms is None


def test_a_single_stream_keeps_one_instance_busy():
    found = answer(Scenario.SINGLE_STREAM, ServiceTimes(4, EVEN, {1: EVEN / 2}), 6)
    assert (found.throughput, found.p90, found.holds) == (pytest.approx(200), 5, True)


@pytest.mark.parametrize(("instances", "ms"), [(1, 80), (2, 40), (3, 30), (8, 10), (9, 10)])
def test_eight_samples_of_a_query_are_shared_out(instances, ms):
    found = answer(Scenario.MULTI_STREAM, ServiceTimes(instances, EVEN), None)
    assert found.p99 == pytest.approx(ms)
    assert found.throughput == pytest.approx(1e3 / ms)


def test_samples_left_over_run_as_fast_as_few_instances_do():
    # Eight samples on three instances: six of them in two turns of 10 ms, and two at once in 8 ms.
    found = answer(Scenario.MULTI_STREAM, ServiceTimes(3, EVEN, {2: EVEN * 0.8}), None)
    assert found.p99 == pytest.approx(28)


def test_the_rate_under_a_bound_is_that_of_theory():
    # Latencies of an M/M/1 queue are exponential with the mean 1 / (1 / service - rate).
    bound_ms = 200.0
    expected = 100 - 1e3 * math.log(100) / bound_ms
    found = most_qps_under(bound_ms, 0.99, ServiceTimes(1, EXPONENTIAL), queries=100_000)
    assert found == pytest.approx(expected, rel=0.03)


@pytest.mark.long
def test_the_run_at_that_rate_has_the_bound_as_its_percentile():
    service = ServiceTimes(2, SCATTERED, {1: SCATTERED * 0.8})
    found = answer(Scenario.SERVER, service, 30.0)
    assert found.holds
    assert 29 < found.p99 <= 30
    assert percentile(served_at(service, found.throughput).latency_ms, 0.99) == found.p99
    assert found.throughput_interval[0] <= found.throughput <= found.throughput_interval[1]


def test_no_rate_keeps_a_bound_below_one_inference():
    found = answer(Scenario.SERVER, ServiceTimes(2, SCATTERED), 5.0)
    assert (found.throughput, found.holds) == (0, False)


def test_a_server_never_serves_more_than_it_could_offline():
    found = answer(Scenario.SERVER, ServiceTimes(2, EVEN), 1e9)
    assert 190 < found.throughput <= 200


def test_a_server_without_a_bound_has_no_answer():
    with pytest.raises(ValueError, match="bound"):
        simulate(Scenario.SERVER, ServiceTimes(1, EVEN), None, 0, FEW)


@pytest.mark.parametrize("latencies", [np.array([]), np.array([0.0]), np.array([np.nan])])
def test_latencies_must_be_positive(latencies):
    with pytest.raises(ValueError, match="positive"):
        ServiceTimes(1, latencies)


instances = st.integers(1, 4)
bounds = st.floats(12, 100)
shapes = st.floats(0.5, 200)


def drawn_with(shape: float) -> np.ndarray:
    return np.random.default_rng(1).gamma(shape, 10 / shape, size=200) + 0.1


@pytest.mark.long
@settings(max_examples=25)
@given(shapes, instances, bounds)
def test_more_instances_never_serve_fewer_queries_under_a_bound(shape, number, bound_ms):
    few, many = (
        most_qps_under(bound_ms, 0.99, ServiceTimes(n, drawn_with(shape)), queries=FEW)
        for n in (number, number + 1)
    )
    assert many >= few * 0.997


@pytest.mark.long
@settings(max_examples=25)
@given(shapes, instances, bounds, st.floats(1, 3))
def test_a_wider_bound_never_lets_fewer_queries_through(shape, number, bound_ms, factor):
    service = ServiceTimes(number, drawn_with(shape))
    narrow, wide = (
        most_qps_under(each, 0.99, service, queries=FEW) for each in (bound_ms, bound_ms * factor)
    )
    assert wide >= narrow * 0.997


@settings(max_examples=25)
@given(st.sampled_from(list(Scenario)), shapes, instances, st.floats(0.1, 10))
def test_answers_are_the_same_in_another_unit_of_time(scenario, shape, number, factor):
    taken = drawn_with(shape)
    one = simulate(scenario, ServiceTimes(number, taken), 40.0, 0, 500)
    other = simulate(scenario, ServiceTimes(number, taken * factor), 40.0 * factor, 0, 500)
    assert other.throughput * factor == pytest.approx(one.throughput, rel=0.01)


@settings(max_examples=15)
@given(st.sampled_from(list(Scenario)), shapes, instances)
def test_percentiles_are_in_order_and_the_same_seed_gives_the_same_answer(scenario, shape, number):
    service = ServiceTimes(number, drawn_with(shape))
    one, other = (simulate(scenario, service, 50.0, 3, 500) for _ in range(2))
    np.testing.assert_array_equal(one.latency_ms, other.latency_ms)
    p50, p90, p99 = (percentile(one.latency_ms, share) for share in (0.5, 0.9, 0.99))
    assert p50 <= p90 <= p99


def test_a_seed_draws_the_arrivals_of_a_load_generator():
    run = served_at(ServiceTimes(1, EVEN), qps=50, seed=3, queries=200)
    arrivals_ms = poisson_arrivals(200, np.random.default_rng(3)) * 1e3 / 50
    free_ms, expected = 0.0, []
    for arrival_ms in arrivals_ms:
        free_ms = max(free_ms, arrival_ms) + EVEN[0]
        expected.append(free_ms - arrival_ms)
    np.testing.assert_allclose(run.latency_ms, expected)

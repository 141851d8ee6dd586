"""Queues, against what theory knows of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dlbricks_serving.scenarios.queueing import (
    completions,
    contended_completions,
    poisson_arrivals,
)
from hypothesis import given
from hypothesis import strategies as st

MANY = 200_000


def waits(load: float, service: np.ndarray, instances: int, seed: int = 0) -> np.ndarray:
    """Waiting times with a mean service time of 1, where instances are busy for a share."""
    arrivals = poisson_arrivals(len(service), np.random.default_rng(seed)) / (load * instances)
    return completions(arrivals, service, instances) - arrivals - service


def erlang_c(instances: int, load: float) -> float:
    """Probability that a query waits in an M/M/n queue."""
    offered = instances * load
    served = sum(offered**k / math.factorial(k) for k in range(instances))
    waiting = offered**instances / math.factorial(instances) / (1 - load)
    return waiting / (served + waiting)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_latencies_of_one_exponential_server_are_exponential(load):
    service = np.random.default_rng(1).exponential(size=MANY)
    latencies = waits(load, service, 1) + service
    assert latencies.mean() == pytest.approx(1 / (1 - load), rel=0.05)
    # The 99th percentile of an exponential distribution is ln 100 times its mean.
    assert np.quantile(latencies, 0.99) == pytest.approx(math.log(100) / (1 - load), rel=0.08)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_equal_services_wait_half_as_long(load):
    found = waits(load, np.ones(MANY), 1)
    assert found.mean() == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    assert np.mean(found == 0) == pytest.approx(1 - load, abs=0.01)


@pytest.mark.parametrize(("instances", "load"), [(2, 0.5), (2, 0.8), (4, 0.7), (8, 0.8)])
def test_several_exponential_servers_wait_as_erlang_says(instances, load):
    service = np.random.default_rng(1).exponential(size=MANY)
    found = waits(load, service, instances)
    share = erlang_c(instances, load)
    assert np.mean(found > 1e-9) == pytest.approx(share, abs=0.02)
    assert found.mean() == pytest.approx(share / (instances * (1 - load)), rel=0.08)


@pytest.mark.parametrize(("instances", "load"), [(2, 0.8), (4, 0.8)])
def test_several_equal_servers_wait_as_cosmetatos_approximates(instances, load):
    exponential = erlang_c(instances, load) / (instances * (1 - load))
    extra = (
        (1 - load) * (instances - 1) * (math.sqrt(4 + 5 * instances) - 2) / (16 * load * instances)
    )
    found = waits(load, np.ones(MANY), instances)
    assert found.mean() == pytest.approx(exponential / 2 * (1 + extra), rel=0.05)


def test_arrivals_are_a_poisson_process():
    gaps = np.diff(poisson_arrivals(MANY, np.random.default_rng(0)))
    assert gaps.mean() == pytest.approx(1, rel=0.01)
    assert gaps.std() == pytest.approx(1, rel=0.02)


times = st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 5)), min_size=1, max_size=40)


def arrivals_and_service(drawn) -> tuple[np.ndarray, np.ndarray]:
    gaps, service = np.array(drawn).T
    return np.cumsum(gaps), service


@given(times, st.integers(1, 5))
def test_more_instances_never_make_a_query_later(drawn, instances):
    arrivals, service = arrivals_and_service(drawn)
    few, many = (np.sort(completions(arrivals, service, n)) for n in (instances, instances + 1))
    assert np.all(many <= few + 1e-9)


@given(times, st.integers(1, 5), st.floats(1, 10))
def test_a_lower_rate_never_makes_a_query_slower(drawn, instances, factor):
    arrivals, service = arrivals_and_service(drawn)
    latencies = completions(arrivals, service, instances) - arrivals
    rarer = completions(arrivals * factor, service, instances) - arrivals * factor
    assert np.all(rarer <= latencies + 1e-6)


@given(times, st.integers(1, 5))
def test_instances_that_do_not_contend_are_as_if_alone(drawn, instances):
    arrivals, service = arrivals_and_service(drawn)
    alike = contended_completions(arrivals, np.tile(service, (instances, 1)))
    np.testing.assert_allclose(alike, completions(arrivals, service, instances), rtol=1e-9)


@given(times, st.integers(1, 4), st.floats(1, 3))
def test_contention_lies_between_none_and_all_along(drawn, instances, slower):
    arrivals, service = arrivals_and_service(drawn)
    factors = np.linspace(1, slower, instances)[:, np.newaxis]
    found = np.sort(contended_completions(arrivals, factors * service))
    least = np.sort(completions(arrivals, service, instances))
    most = np.sort(completions(arrivals, slower * service, instances))
    assert np.all(found >= least - 1e-6)
    assert np.all(found <= most + 1e-6)


def test_two_samples_slow_each_other_down_only_while_both_run():
    # The first runs alone for 1 of its 2, then both run at half the speed until it is done at 3,
    # when the second has half of itself left, which takes 1 more.
    done = contended_completions(np.array([0.0, 1.0]), np.array([[2.0, 2.0], [4.0, 4.0]]))
    np.testing.assert_allclose(done, [3.0, 4.0])

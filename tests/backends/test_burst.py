"""Bursts: when a loop of runs has told enough."""

from itertools import count, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.backends import Opened, Profile, ProfiledLayer
from dlbricks_core.backends.burst import Burst


def opened(run_ms, layers_ms=0.0, **more):
    layers = [ProfiledLayer("a", "Conv", ("a",), layers_ms)]
    return Opened(lambda: None, Profile(layers, run_ms), **more)


def taken(burst, latencies):
    return burst.taken(iter(latencies).__next__)


@pytest.mark.parametrize(("precision", "runs"), [(0.2, 1), (0.1, 2), (0.05, 3), (0.01, 8)])
def test_a_finer_precision_takes_more_runs(precision, runs):
    assert len(taken(Burst.within(precision), repeat(100.0))) == runs


def test_runs_that_become_faster_are_followed_by_others():
    assert taken(Burst.within(0.1), [200.0, 150.0, 100.0, 101.0]) == [
        200.0, 150.0, 100.0, 101.0
    ]  # fmt: skip


def test_a_long_profiled_run_counts_where_one_run_suffices():
    long, short = opened(50.0, 48.0, first_ms=60.0), opened(5.0, 5.0, first_ms=6.0)
    assert Burst.within(0.2).taken(iter([]).__next__, long) == [50.0]
    assert Burst.within(0.2).taken(iter([10.0]).__next__, short) == [10.0]
    assert Burst.within(0.1).taken(iter([10.0, 10.1]).__next__, short) == [10.0, 10.1]


def test_a_run_that_the_profiler_slows_is_no_sample():
    """MXNet's profiler runs another form than the user's, and takes a third of deep networks."""
    for more in (
        {"layers_ms": 40.0, "first_ms": 50.0},
        {"layers_ms": 50.0, "first_ms": 50.0, "faults": 2000.0},
        {"layers_ms": 50.0},
    ):
        slowed = opened(50.0, **more)
        assert Burst.within(0.2).taken(iter([33.0]).__next__, slowed) == [33.0]


def test_a_long_profiled_run_may_agree_with_the_next_but_is_slower():
    long = opened(50.0)
    assert Burst.within(0.1).taken(iter([48.0]).__next__, long) == [48.0]
    assert Burst.within(0.1).taken(iter([40.0, 39.0]).__next__, long) == [40.0, 39.0]
    assert Burst.within(0.05).taken(iter([49.0, 48.0, 49.0]).__next__, long) == [49.0, 48.0, 49.0]


def test_a_profiled_run_as_fast_as_later_ones_counts_if_the_first_run_agrees():
    def runs(precision, *latencies, **more):
        return Burst.within(precision).taken(iter(latencies).__next__, opened(50.0, **more))

    assert runs(0.1, layers_ms=49.5, first_ms=54.0, faults=300) == [50.0]
    assert runs(0.1, 51.0, layers_ms=49.5, first_ms=60.0, faults=300) == [50.0, 51.0]
    assert runs(0.1, 48.0, layers_ms=49.5, first_ms=54.0, faults=500) == [48.0]
    assert runs(0.1, 48.0, layers_ms=48.5, first_ms=54.0) == [48.0]
    assert runs(0.1, 48.0, layers_ms=49.5) == [48.0]
    assert runs(0.2, layers_ms=49.5, first_ms=90.0) == [50.0]
    assert runs(0.05, 48.0, 48.0, 48.0, layers_ms=49.5, first_ms=50.0) == [48.0, 48.0, 48.0]


def test_short_models_run_until_their_time_is_more_than_a_moment():
    assert len(taken(Burst.within(0.1), repeat(1.0))) == 10
    assert len(taken(Burst.within(0.1), repeat(0.001))) == 50


@given(
    st.sampled_from([0.2, 0.1, 0.05]),
    st.lists(st.floats(20, 1000), min_size=12, max_size=12),
    st.booleans(),
)
def test_long_models_never_run_more_often_than_a_plain_script(precision, latencies, harvests):
    burst = Burst.within(precision)
    burst = burst.for_harvest() if harvests else burst
    assert 1 <= len(taken(burst, latencies)) <= 9 - burst.profiled


def test_a_loop_that_never_settles_ends():
    assert len(taken(Burst.within(0.1), count(50.0, 50.0))) == 8
    assert len(taken(Burst.within(0.05), count(50.0, 50.0))) == 7
    assert len(taken(Burst.within(0.05).for_harvest(), count(50.0, 50.0))) == 6
    assert len(taken(Burst.of(8), count(50.0, 50.0))) == 8

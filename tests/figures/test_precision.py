"""Which numbers of samples make a sum precise, at the least cost."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.facts import LATENCY, Measurement, Observation, Question, Setup, Subject
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.precision import FEWEST, MOST, PrecisionTarget, Spread, deviation
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.figures.statistics import FASTER_HALF_VARIANCE

Z = 1.6448536


def key(name):
    return Question(
        Subject(name, "brick"), LATENCY, Setup("b", "1", "{}", 1, "interleaved", "0.1.0"), "here"
    )


A, B, C = map(key, "abc")


def spread(ms, deviation_ms, run_ms=1.0, taken=FEWEST, overhead=0.0):
    return Spread(taken, ms, deviation_ms, overhead, run_ms)


def measured(each, samples, overhead=0.0):
    taken = [Observation("s", i, (float(ms),), overhead=overhead) for i, ms in enumerate(samples)]
    return Measurement(each, observations=tuple(taken))


def spread_of(measurement):
    return Spread.of(Measured.of(measurement, PROTOCOLS["interleaved"]))


def test_allocation_for_two_bricks_is_the_known_optimum():
    # n_b is proportional to c*s/sqrt(t): 4 * 0.5 / 2 = 1 to 1 * 3 / 1 = 3.
    spreads = {A: spread(20.0, 0.5, run_ms=4.0), B: spread(20.0, 3.0, run_ms=1.0)}
    demand = PrecisionTarget("m", {A: 4, B: 1})
    found = demand.allocation(spreads, 0.01)
    assert found[B] / found[A] == pytest.approx(3)
    # The interval of the sum of 100 ms then is 1 ms to both sides.
    variance = FASTER_HALF_VARIANCE * ((4 * 0.5) ** 2 / found[A] + 3.0**2 / found[B])
    assert Z * math.sqrt(variance) == pytest.approx(1.0)

    def seconds(a):
        """Cost of the same half-width with another number of runs of the first brick."""
        b = FASTER_HALF_VARIANCE * 3.0**2 / ((1 / Z) ** 2 - FASTER_HALF_VARIANCE * 2.0**2 / a)
        return 4.0 * a + 1.0 * b

    assert seconds(found[A]) < min(seconds(found[A] * 1.05), seconds(found[A] * 0.95))


def test_terms_that_are_subtracted_scatter_like_terms_that_are_added():
    """A tile may count with a negative weight in a large brick."""
    spreads = {A: spread(2.0, 0.1), B: spread(6.0, 0.3)}
    line, sum_ = PrecisionTarget("m", {A: -5.0, B: 6.0}), PrecisionTarget("m", {A: 5.0, B: 6.0})
    assert line.total_ms(spreads) == pytest.approx(26)
    half_widths = line.own_half_width(spreads) * 26, sum_.own_half_width(spreads) * 46
    assert half_widths[0] == pytest.approx(half_widths[1])
    found = line.allocation(spreads, 0.01)
    assert found[B] / found[A] == pytest.approx(6.0 * 0.3 / (5.0 * 0.1))
    assert line.needs(spreads, 0.001)[A] > FEWEST


def test_a_sum_holds_the_cost_of_a_call_once():
    spreads = {A: spread(2.0, 0.1, overhead=0.5), B: spread(3.0, 0.1, overhead=0.4)}
    assert PrecisionTarget("m", {A: 10, B: 1}).total_ms(spreads) == pytest.approx(23.5)
    assert spread_of(measured(A, [2.5, 2.5, 2.6], 0.5)).ms == pytest.approx(2.0)
    assert spread_of(measured(A, [0.2, 0.2], 0.5)).ms == 0


def test_quiet_networks_need_no_more_runs_and_hopeless_ones_the_most():
    quiet, noisy = spread(10.0, 0.01), spread(10.0, 50.0)
    assert PrecisionTarget("m", {A: 3}).needs({A: quiet}, 0.01) == {}
    assert PrecisionTarget("m", {A: 1, B: 1}).needs({A: quiet, B: noisy}, 0.01)[B] == MOST
    assert PrecisionTarget("m", {A: 1}).needs({A: spread(0.0, 0.0)}, 0.01) == {}
    assert PrecisionTarget("m", {A: 1}).needs({A: spread(0.0, 1.0)}, 0.01) == {A: MOST}


def test_bricks_without_samples_take_no_part():
    spreads = {A: spread(10.0, 1.0)}
    demand = PrecisionTarget("m", {A: 1, C: 5})
    assert demand.half_width(spreads) == PrecisionTarget("m", {A: 1}).half_width(spreads)
    assert set(demand.needs(spreads, 0.01)) == {A}
    assert PrecisionTarget("m", {C: 5}).needs(spreads, 0.01) == {}


def test_noise_that_all_share_in_a_round_needs_more_rounds():
    keys = [key(str(i)) for i in range(30)]
    demand = PrecisionTarget("m", dict.fromkeys(keys, 1))
    noise = np.random.default_rng(0).normal(10, 0.5, (30, 20))
    apart = {k: spread_of(measured(k, each)) for k, each in zip(keys, noise, strict=True)}
    together = {k: spread_of(measured(k, noise[0])) for k in keys}
    assert demand.half_width(apart) < 0.01
    assert demand.needs(apart, 0.01) == {}
    assert demand.half_width(together) == pytest.approx(
        PrecisionTarget("one", {A: 1}).half_width({A: together[keys[0]]}), rel=0.5
    )
    assert min(demand.needs(together, 0.01).values()) > 20


bricks = st.lists(
    st.tuples(
        st.integers(1, 30),  # occurrences
        st.floats(0.01, 50),  # latency
        st.floats(0, 0.2),  # relative deviation
        st.floats(0.1, 100),  # cost of a run
    ),
    min_size=1,
    max_size=30,
)


@given(bricks, st.floats(0.001, 0.2))
def test_samples_as_allocated_reach_the_wanted_half_width(parts, precision):
    keys = [key(str(i)) for i in range(len(parts))]
    spreads = {
        k: spread(ms, ms * relative, run_ms)
        for k, (_, ms, relative, run_ms) in zip(keys, parts, strict=True)
    }
    demand = PrecisionTarget("m", {k: part[0] for k, part in zip(keys, parts, strict=True)})
    needs = demand.needs(spreads, precision)
    then = {
        k: spread(each.ms, each.deviation_ms, each.run_ms, max(needs.get(k, 0), each.taken))
        for k, each in spreads.items()
    }
    capped = any(n == MOST for n in needs.values())
    assert demand.half_width(then) <= precision * (1 + 1e-9) or capped
    assert all(FEWEST <= n <= MOST for n in needs.values())
    optimum = demand.allocation(spreads, precision)
    if all(n > FEWEST for n in optimum.values()) and not capped:
        assert demand.half_width(then) > 0.8 * precision  # and not much more is spent


@pytest.mark.parametrize("count", [6, 7, 20])
def test_the_deviation_of_few_samples_is_not_underestimated(count):
    samples = np.random.default_rng(0).normal(100, 5, (4000, count))
    assert np.mean([deviation(each) for each in samples]) == pytest.approx(5, rel=0.05)


def test_an_interrupt_does_not_look_like_noise():
    quiet = list(np.random.default_rng(1).normal(100, 1, 20))
    assert deviation([*quiet, 900.0]) == pytest.approx(deviation(quiet), rel=0.2)
    assert deviation([1.0]) == math.inf

"""Disturbances of samples, and intervals that allow for them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.estimation.adaptive.posterior import drifting
from dlbricks_core.facts import LATENCY, Measurement, Observation, Question, Setup, Subject
from dlbricks_core.figures.figure import Combined, Cost, Derived, InPlace, Measured, Source
from dlbricks_core.figures.predicted import Placed
from dlbricks_core.figures.protocols import HOT, PROTOCOLS
from dlbricks_core.figures.statistics import (
    FAR_SLOWDOWN,
    MOST_SLOWDOWN,
    QUIET,
    WIDENS,
    Disturbance,
    disturbance_notes,
    slowdown,
)

INTERLEAVED = PROTOCOLS["interleaved"]
BESIDE = ("others-used-cpus",)


def measured(*taken, threads=2, protocol=INTERLEAVED):
    """A figure of observations, each of a load and of values; those above 10% are marked."""
    setup = Setup("b", "1", "{}", threads, protocol.identity, "1")
    question = Question(Subject("net", "brick"), LATENCY, setup, "sys")
    observations = tuple(
        Observation("s", i, tuple(values), flags=BESIDE if load > 0.1 else (), load=load)
        for i, (load, values) in enumerate(taken)
    )
    return Measured.of(Measurement(question, ("Conv",), observations), protocol)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([1, 2, 8]))
def test_more_load_never_slows_less(one, other, threads):
    low, high = sorted([one, other])
    assert 1 <= slowdown(low, threads) <= slowdown(high, threads)
    assert slowdown(high, 1) <= slowdown(high, threads)


def test_one_thread_has_what_a_fair_scheduler_leaves():
    assert slowdown(0.5, 1) == 2
    # Two threads beside a program that uses a third of two CPUs took up to 7 times as long.
    assert slowdown(1 / 3, 2) >= 7


@pytest.mark.parametrize("protocol", [INTERLEAVED, HOT])
def test_an_interval_reaches_from_a_quiet_machine_to_the_samples(protocol):
    quiet = measured((0.05, [10.0] * 4), protocol=protocol)
    busy = measured((0.4, [10.0] * 4), protocol=protocol)
    assert quiet.interval == (10.0, 10.0)
    assert quiet.disturbance is QUIET
    low, high = busy.interval
    assert low == pytest.approx(10 / slowdown(0.4, 2), rel=0.02)
    assert high == pytest.approx(10, rel=0.02)
    assert low <= busy.value <= high
    assert busy.scatter == (10.0, 10.0)
    assert Cost.whole(busy).interval_ms == busy.interval


def test_quiet_samples_leave_disturbed_ones_out():
    found = measured((0.5, [30.0] * 5), (0.0, [10.0] * 3))
    assert found.teaches
    assert found.interval == (10.0, 10.0)
    assert not measured((0.5, [30.0] * 5), (0.0, [10.0] * 2)).teaches


def test_all_that_rests_on_disturbed_samples_is_as_wide():
    busy = measured((0.5, [10.0] * 4))
    width = busy.interval[1] / busy.interval[0]
    others = [
        Derived.of("other", Source("net", busy, 2.0), 0.0),
        Placed(busy, drifting("net", busy, 0.0)),
        Combined(((1.0, busy), (2.0, busy))),
        InPlace((10.0,), 1, disturbed=busy.disturbance),
    ]
    for each in others:
        assert not each.teaches
        low, high = each.interval
        assert high / low >= 0.95 * width
    # Drift does not count the disturbance twice.
    assert others[1].interval == pytest.approx(busy.interval)


def test_marks_that_say_nothing_of_load_widen_nothing_but_teach_nothing():
    question = Question(
        Subject("net", "brick"), LATENCY, Setup("b", "1", "{}", 2, "interleaved/9", "1"), "sys"
    )
    for flag, factor in ((WIDENS, 1.0), ("cpus-far-apart", FAR_SLOWDOWN)):
        taken = Observation("s", 0, (1.0, 1.0, 1.0), flags=(flag,))
        found = Disturbance.of(Measurement(question, (), (taken,)))
        assert (found.load, found.slowdown, found.marked) == (0.0, factor, True)
        assert disturbance_notes(found, stored=False) == ()


def test_samples_of_earlier_versions_that_were_marked_are_doubtful():
    question = Question(
        Subject("net", "brick"), LATENCY, Setup("b", "1", "{}", 2, "interleaved/9", "1"), "sys"
    )
    taken = Observation("s", 0, (1.0, 1.0, 1.0), flags=BESIDE)
    assert Disturbance.of(Measurement(question, (), (taken,))).is_doubtful
    bytes_ = replace(LATENCY, name="peak-memory", unit="B")
    of_memory = Measurement(replace(question, quantity=bytes_), (), (taken,))
    assert Disturbance.of(of_memory) is QUIET


@pytest.mark.parametrize(("load", "severity"), [(0.2, "warning"), (0.25, "doubtful")])
def test_figures_are_doubtful_from_a_quarter_of_the_cpus(load, severity):
    [note] = disturbance_notes(measured((load, [1.0] * 3)).disturbance, stored=False)
    assert note.severity == severity
    assert note.values["load"] == pytest.approx(load)


@pytest.mark.parametrize(("load", "threads"), [(0.5, 2), (0.9, 1)])
def test_what_others_leave_suffices_up_to_a_slowdown(load, threads):
    assert slowdown(load, threads) < MOST_SLOWDOWN
    assert not measured((load, [10.0] * 4), threads=threads).measures_nothing


def test_where_others_leave_next_to_nothing_nothing_is_measured():
    # Two-thread MXNet took 200 times as long beside programs that used 84% of two CPUs.
    assert slowdown(0.84, 2) > 200
    assert measured((0.84, [10.0] * 4)).measures_nothing


def test_samples_that_scatter_without_end_measure_nothing(most_span, monkeypatch):
    monkeypatch.setattr("dlbricks_core.figures.figure.MOST_SPAN", most_span)
    scattered = measured(*((0.0, [each]) for each in (0.1, 0.1, 600.0, 580.0, 0.2, 610.0)))
    assert scattered.measures_nothing
    assert not InPlace((0.1, 600.0), 1).measures_nothing
    assert np.isfinite(scattered.plausible).all()

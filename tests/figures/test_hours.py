"""Differences between hours: usual ones, and those that a store's sessions show."""

import numpy as np
import pytest

from dlbricks_core.facts import Measurement, Observation
from dlbricks_core.figures.protocols import between_hours, usual_hours


def measurement(*sessions):
    """Samples of several sessions; a flag stands before the samples of a disturbed one."""
    taken = []
    for number, values in enumerate(sessions):
        flags = ("busy",) if values[0] == "busy" else ()
        samples = tuple(each for each in values if each != "busy")
        taken.append(Observation(f"s{number}", 0, samples, flags=flags))
    return Measurement(None, observations=tuple(taken))


def between(*measurements, virtual=True):
    return between_hours(measurements, np.mean, virtual=virtual)


def test_without_several_sessions_the_usual_difference_counts():
    usual = usual_hours()
    assert between() == between(measurement([1.0] * 3)) == pytest.approx(usual.virtual)
    assert between(virtual=False) == pytest.approx(usual.real)


def test_many_quiet_sessions_narrow_it_and_unlike_ones_widen_it():
    quiet = [measurement(*[[5.0] * 3] * 13) for _ in range(4)]
    weight = usual_hours().differences / (usual_hours().differences + 12)
    assert between(*quiet) == pytest.approx(usual_hours().virtual * weight**0.5)
    assert between(*[measurement(*[[5.0] * 3, [6.0] * 3] * 6)]) > 0.1


def test_two_sessions_differ_by_twice_the_variance_of_one():
    sessions = np.exp(0.2 * np.random.default_rng(0).standard_normal(4000))
    found = between(measurement(*[[each] * 3 for each in sessions]))
    assert found == pytest.approx(0.2 * 2**0.5, rel=0.05)


def test_sessions_count_and_not_networks():
    pair = measurement([4.0] * 3, [6.0] * 3)
    assert between(pair, pair, pair) == pytest.approx(between(pair))


def test_disturbed_and_short_sessions_say_nothing():
    quiet = [5.0] * 3
    assert between(measurement(quiet, ["busy", *[9.0] * 3])) == between(measurement(quiet))
    assert between(measurement(quiet, [9.0])) == between(measurement(quiet))

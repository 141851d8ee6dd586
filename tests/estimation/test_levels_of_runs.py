"""Levels of runs: what all bricks of a run share is no scatter of a brick."""

import numpy as np
import pytest

from dlbricks_core.estimation.adaptive.wholes import _levels
from dlbricks_core.facts import Observation
from dlbricks_core.figures.figure import InPlace, in_place_errors


def seen(*ms):
    """A brick in the first runs of a session; ``None`` where it is no part of the model."""
    return [Observation("s", i, (each,)) for i, each in enumerate(ms) if each is not None]


def test_a_slow_run_has_a_level_once_many_bricks_show_it():
    few, many = (_levels([seen(1.0, 4.0)] * bricks) for bricks in (1, 50))
    assert few["s", 1] / few["s", 0] == pytest.approx(2.0)
    assert many["s", 1] / many["s", 0] == pytest.approx(4.0, rel=0.05)


def test_bricks_of_one_run_tell_nothing_of_its_level():
    assert _levels([seen(1.0), seen(None, 9.0)]) == {}
    assert _levels([]) == {}


def test_bricks_that_take_next_to_nothing_hardly_tell():
    found = _levels([*[seen(10.0, 10.0)] * 20, *[seen(0.01, 0.1)] * 20])
    assert found["s", 1] == pytest.approx(1.0, rel=0.01)


def test_a_brick_scatters_by_what_its_runs_do_not_share():
    samples, levels = (1.0, 2.0, 1.5), (0.7, 1.4, 1.05)
    alone, beside = InPlace(samples, 0), InPlace(samples, 0, levels=levels)
    assert beside.value == alone.value == pytest.approx(1.5)
    assert np.std(alone.replicates) / alone.value == pytest.approx(1 / 3, rel=0.1)
    assert np.std(beside.replicates) / beside.value == pytest.approx(
        in_place_errors().spread, rel=0.1
    )
    odd = InPlace((1.0, 2.0, 3.0), 0, levels=levels)
    assert np.std(odd.replicates) > 5 * np.std(beside.replicates)

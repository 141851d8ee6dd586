"""Bounds of quantities as users write them, and what advice makes of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dlbricks_core.errors import DLBricksError, UnknownPluginError
from dlbricks_core.facts import LATENCY, Setup
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.machine.system import current_system
from dlbricks_core.workflows.advice import Alternative, Wanted
from dlbricks_core.workflows.advise import rank
from dlbricks_core.workflows.places import Place
from dlbricks_core.workflows.requirements import Answers, Known, Requirement


@pytest.mark.parametrize(
    ("text", "name", "most"),
    [
        ("peak-memory<=500MiB", "peak-memory", 500.0),
        (" peak-memory <= 2 GiB ", "peak-memory", 2048.0),
        ("peak-memory<=1.048576MB", "peak-memory", 1.0),
        ("load-time<=0.5s", "load-time", 500.0),
        ("load-time<=250us", "load-time", 0.25),
        ("load-time<=7", "load-time", 7.0),
        ("latency<=50ms", "latency", 50.0),
    ],
)
def test_a_bound_is_in_the_unit_of_its_quantity(text, name, most):
    read = Requirement.read(text)
    assert read.quantity.name == name
    assert read.most == pytest.approx(most)
    assert (read.probe is None) == (name == LATENCY.name)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", DLBricksError),
        ("peak-memory", DLBricksError),
        ("peak-memory>=5MiB", DLBricksError),
        ("peak-memory<=5 parsecs", DLBricksError),
        ("load-time<=5MiB", DLBricksError),
        ("load-time<=-5", DLBricksError),
        ("load-time<=nan", DLBricksError),
        ("lode-time<=5", UnknownPluginError),
    ],
)
def test_anything_else_is_an_error_with_a_hint(text, error):
    with pytest.raises(error) as caught:
        Requirement.read(text)
    assert caught.value.hint


def test_bounds_of_latency_are_one_wherever_they_are_written():
    wanted = Wanted(max_latency_ms=50.0, requirements=[Requirement.read("latency<=20ms")])
    assert wanted.longest_ms == 20.0
    assert wanted.others == []
    assert Wanted().longest_ms is None
    assert not Wanted().is_bounded


def test_the_fastest_that_keeps_every_bound_is_first():
    memory = Requirement.read("peak-memory<=100MiB")

    def alternative(ms, mib, share):
        draws = np.where(np.arange(RESAMPLES) < share * RESAMPLES, 90.0, 110.0)
        known = Known(memory, mib, draws, "measured")
        return Alternative(None, None, ms, np.full(RESAMPLES, ms), "measured", {}, required=[known])

    fast, slow, small = (
        alternative(1.0, 110.0, 0.25),
        alternative(3.0, 90.0, 1.0),
        alternative(2.0, 90.0, 0.75),
    )
    ranking = rank("m", [fast, slow, small], Wanted(requirements=[memory]))
    assert [each.alternative for each in ranking.ranked] == [small, slow, fast]
    assert [each.keeps for each in ranking.ranked] == [0.75, 1.0, 0.25]
    assert [each.is_allowed for each in ranking.ranked] == [True, True, False]
    # Of those that keep the bound in a draw, the fastest is first.
    assert sum(each.first for each in ranking.ranked) == pytest.approx(1.0)
    assert ranking.first.first == pytest.approx(0.5)


@pytest.mark.parametrize(("version", "noted"), [("2.0", False), ("2.1", True)])
def test_a_quantity_of_another_version_of_the_framework_is_noted(version, noted):
    setup = Setup("faulty", "2.0", "{}", 1, "interleaved", "0.1.0")
    observed = SimpleNamespace(request=SimpleNamespace(setup=replace(setup, version=version)))
    answers = Answers(Requirement.read("load-time<=1s"), Place(current_system(), setup), observed)
    told = "load-time is that of faulty 2.1, for nobody observed it with 2.0"
    assert answers.note.endswith(told if noted else "")
    assert bool(answers.note) == noted

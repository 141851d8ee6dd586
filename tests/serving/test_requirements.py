"""Bounds of quantities as users write them, and what advice makes of them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_serving.advice import search as advising
from dlbricks_serving.advice.advice import AdviceRequest, Alternative, order_by
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.requirements import Answers, RequiredFigure, Requirement
from dlbricks_serving.advice.search import rank
from dlbricks_serving.advice.tariff import Prices
from dlbricks_serving.advice.tasks import AdviceTask

from dlbricks_core.errors import DLBricksError, UnknownPluginError
from dlbricks_core.facts import LATENCY, Setup
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.machine.system import current_system
from dlbricks_core.report.notes import text


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
    assert (read.metric is None) == (name == LATENCY.name)


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
    wanted = AdviceRequest(max_latency_ms=50.0, requirements=[Requirement.read("latency<=20ms")])
    assert wanted.longest_ms == 20.0
    assert wanted.others == []
    assert AdviceRequest().longest_ms is None
    assert not AdviceRequest().is_bounded


def test_the_fastest_that_keeps_every_bound_is_first():
    memory = Requirement.read("peak-memory<=100MiB")

    def alternative(ms, mib, share):
        draws = np.where(np.arange(RESAMPLES) < share * RESAMPLES, 90.0, 110.0)
        known = RequiredFigure(memory, mib, draws, "measured")
        return Alternative(None, None, ms, np.full(RESAMPLES, ms), "measured", {}, required=[known])

    fast, slow, small = (
        alternative(1.0, 110.0, 0.25),
        alternative(3.0, 90.0, 1.0),
        alternative(2.0, 90.0, 0.75),
    )
    ranking = rank("m", [fast, slow, small], AdviceRequest(requirements=[memory]))
    assert [each.alternative for each in ranking.ranked] == [small, slow, fast]
    assert [each.keeps for each in ranking.ranked] == [0.75, 1.0, 0.25]
    assert [each.is_allowed for each in ranking.ranked] == [True, True, False]
    # Of those that keep the bound in a draw, the fastest is first.
    assert sum(each.first for each in ranking.ranked) == pytest.approx(1.0)
    assert ranking.first.first == pytest.approx(0.5)


def known(mib, scatter=0.0, basis="measured"):
    draws = mib * np.exp(scatter * np.random.default_rng(0).standard_normal(RESAMPLES))
    return RequiredFigure(Requirement.of("peak-memory"), mib, draws, basis)


def alternative(ms, memory, per_hour=None, place=None):
    draws = np.full(RESAMPLES, ms)
    return Alternative(None, place, ms, draws, "measured", {}, per_hour=per_hour, required=[memory])


def test_the_order_is_that_of_the_quantity_that_is_named():
    prices = Prices(Path("p.toml"), "EUR", {})
    places = [
        alternative(1.0, known(300.0), per_hour=9.0),
        alternative(2.0, known(100.0), per_hour=3.0),
        alternative(9.0, known(200.0), per_hour=0.1),
    ]
    firsts = {"latency": [1.0, 2.0, 9.0], "price": [9.0, 2.0, 1.0], "peak-memory": [2.0, 9.0, 1.0]}
    for name, expected in firsts.items():
        wanted = AdviceRequest(prices=prices, by=order_by(name, prices))
        ranking = rank("m", places, wanted)
        assert [each.alternative.ms for each in ranking.ranked] == expected
        assert [each.first for each in ranking.ranked] == [1.0, 0.0, 0.0]
        assert not wanted.is_bounded
        assert ranking.ranked[0].by.requirement.quantity.name == name
    assert AdviceRequest(prices=prices).order.quantity.name == "price"
    assert AdviceRequest().order.quantity == LATENCY


def test_what_is_ordered_by_and_bounded_is_asked_for_once():
    bound = Requirement.read("peak-memory<=2GiB")
    wanted = AdviceRequest(requirements=[bound], by=order_by("peak-memory", None))
    assert wanted.others == wanted.bounds == [bound]
    alone = AdviceRequest(by=order_by("peak-memory", None))
    assert [each.is_bound for each in alone.others] == [False]
    assert alone.bounds == []
    assert [each.quantity.name for each in AdviceRequest(by=order_by("load-time", None),
            requirements=[bound]).others] == ["load-time", "peak-memory"]  # fmt: skip


def test_the_price_is_no_order_without_prices():
    with pytest.raises(DLBricksError, match="by=price needs prices") as caught:
        order_by("price", None)
    assert "prices" in caught.value.hint


def test_predictions_of_a_quantity_in_two_places_err_together_but_not_wholly(asked):
    """Each prediction alone has the same draws: what differs least would always be first."""
    here, there = (Place(replace(asked.system, cpu=name), asked.setup) for name in ("one", "other"))
    told = [
        alternative(1.0, known(100.0, 0.3, "predicted"), place=here),
        alternative(1.0, known(101.0, 0.3, "predicted"), place=there),
    ]
    together = advising._required_in_common(told, 0)
    for before, after in zip(told, together, strict=True):
        assert sorted(before.required[0].draws) == pytest.approx(sorted(after.required[0].draws))
    logs = np.log([each.required[0].draws for each in together])
    assert np.corrcoef(logs)[0, 1] == pytest.approx(advising.OF_BACKEND, abs=0.1)
    wanted = AdviceRequest(by=order_by("peak-memory", None))
    shares = [each.first for each in rank("m", together, wanted).ranked]
    assert shares == pytest.approx([0.5, 0.5], abs=0.1)


def test_advice_knows_that_predictions_in_two_places_err_together(asked, monkeypatch):
    places = [Place(replace(asked.system, cpu=name), asked.setup) for name in ("one", "other")]
    job = AdviceTask("m", "m", [None], None)
    told = [replace(alternative(1.0, None, place=place), job=job, required=()) for place in places]
    same = SimpleNamespace(known=lambda _: known(100.0, 0.3, "predicted"), note="")
    monkeypatch.setattr(advising.Answers, "of", lambda *_, **__: same)
    wanted = AdviceRequest(by=order_by("peak-memory", None))
    found = advising._with_required(told, [job], wanted, None, advising._Collected(), True)
    one, other = (np.log(each.required[0].draws) for each in found)
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(advising.OF_BACKEND, abs=0.1)


@pytest.mark.parametrize(("version", "noted"), [("2.0", False), ("2.1", True)])
def test_a_quantity_of_another_version_of_the_framework_is_noted(version, noted):
    setup = Setup("faulty", "2.0", "{}", 1, "interleaved", "0.1.0")
    observed = SimpleNamespace(request=SimpleNamespace(setup=replace(setup, version=version)))
    answers = Answers(Requirement.read("load-time<=1s"), Place(current_system(), setup), observed)
    told = "load-time is that of faulty 2.1, because it was not observed with 2.0"
    assert (answers.note is not None and text(answers.note).endswith(told)) is noted
    assert bool(answers.note) == noted


def test_intervals_include_the_figures_beside_them():
    """A latency beside other programs is the longest of its draws, and its rate the least."""
    draws = np.linspace(1.0, 9.0, RESAMPLES)
    memory = RequiredFigure(Requirement.of("peak-memory"), 9.5, draws, "measured")
    busy = Alternative(None, None, 9.5, draws, "measured", {}, per_hour=1.0, required=[memory])
    for low, figure, high in (
        (busy.interval_ms[0], busy.ms, busy.interval_ms[1]),
        (busy.per_second_interval[0], busy.per_second, busy.per_second_interval[1]),
        (busy.price_interval[0], busy.price, busy.price_interval[1]),
        (memory.interval[0], memory.value, memory.interval[1]),
    ):
        assert low <= figure <= high

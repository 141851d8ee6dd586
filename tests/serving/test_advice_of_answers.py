"""Advice on answers of language models: orders, bounds and prices of places with known times."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_serving.advice.advice import AdviceRequest, Alternative, order_by
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.report.words import answer, explained, name_of
from dlbricks_serving.advice.requirements import RequiredFigure, Requirement
from dlbricks_serving.advice.search import rank, thread_pairs
from dlbricks_serving.advice.tariff import Prices
from dlbricks_sizes.answers import FIRST_TOKEN, OUTPUT_TOKEN
from dlbricks_sizes.workloads import Time

from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.compose import Estimate
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.model_result import Compared
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.report.notes import text

FIVE = Workload(prompt=8, generate=5)
PRICES = Prices(Path("p.toml"), "EUR", {})


def wanted(workload=FIVE, by=None, requires=(), prices=None, **others):
    required = [Requirement.read(text) for text in requires]
    order = order_by(by, prices, workload) if by else None
    return AdviceRequest(
        requirements=required, by=order, workload=workload, prices=prices, **others
    )  # fmt: skip


def alternative(asked, first, token, per_hour=None, scatter=0.0):
    """A place with known times; a common error scatters all of them."""
    errors = np.exp(scatter * np.random.default_rng(0).standard_normal(RESAMPLES))
    values = {FIRST_TOKEN: first, OUTPUT_TOKEN: token}
    figures = [
        RequiredFigure(each, values[each.quantity], values[each.quantity] * errors, "predicted")
        for each in asked.others
    ]
    total = first + (asked.workload.generate - 1) * token
    return Alternative(
        SimpleNamespace(name="m"), "here", total, total * errors, "predicted", {},
        per_run=asked.per_run, per_hour=per_hour, required=figures,
    )  # fmt: skip


#: Time to first token, time per output token, price of an hour; total times of 24, 18, 30 and 40.
PLACES = {
    "soon": (4.0, 5.0, 9.0), "even": (14.0, 1.0, 3.0), "steady": (28.0, 0.5, 5.0),
    "cheap": (20.0, 5.0, 0.1),
}  # fmt: skip


def ranked(asked, **how):
    named = {name: alternative(asked, *times, **how) for name, times in PLACES.items()}
    found = rank("m", list(named.values()), asked)
    order = [name for each in found.ranked for name in named if named[name] is each.alternative]
    return order, found


@pytest.mark.parametrize(
    ("by", "order"),
    [(None, ["even", "soon", "steady", "cheap"]), ("latency", ["even", "soon", "steady", "cheap"]),
     ("time-to-first-token", ["soon", "even", "cheap", "steady"]),
     ("time-per-output-token", ["steady", "even", "soon", "cheap"]),
     ("price", ["cheap", "even", "steady", "soon"])],
)  # fmt: skip
def test_the_order_is_that_of_the_named_figure(by, order):
    found, ranking = ranked(wanted(by=by, prices=PRICES if by == "price" else None))
    assert found == order
    assert [each.first for each in ranking.ranked] == [1.0, 0.0, 0.0, 0.0]
    name = "latency" if by is None else by
    assert ranking.first.by.requirement.quantity.name == name


def test_bounds_of_several_times_hold_together():
    asked = wanted(requires=["time-per-output-token<=2ms", "time-to-first-token<=20ms"])
    assert [each.most for each in asked.others] == [20.0, 2.0]
    found, ranking = ranked(asked)
    assert found[0] == "even"
    assert [each.is_allowed for each in ranking.ranked] == [True, False, False, False]
    assert not any(each.is_allowed for each in ranked(wanted(max_latency_ms=17.0))[1].ranked)
    assert ranked(wanted(max_latency_ms=25.0))[0] == ["even", "soon", "steady", "cheap"]


@pytest.mark.parametrize(
    ("basis", "times", "pair"),
    [("measured", {1: (9.0, 1.0), 2: (5.0, 2.0)}, (2, 1)),
     ("composed", {1: (9.0, 1.0), 4: (5.0, 2.0)}, (4, 1)),
     ("measured", {1: (9.0, 3.0), 2: (5.0, 2.0)}, None),
     ("predicted", {1: (9.0, 1.0), 2: (5.0, 2.0)}, None)],
)  # fmt: skip
def test_the_best_threads_of_both_phases_are_advised_where_they_differ(basis, times, pair):
    asked, several = wanted(), []
    for threads, (first, token) in times.items():
        one = alternative(asked, first, token)
        place = SimpleNamespace(name="lab", setup=SimpleNamespace(backend="ort", threads=threads))
        required = [replace(each, basis=basis) for each in one.required]
        several.append(replace(one, place=place, required=required))
    notes = list(thread_pairs(rank("m", several, asked)))
    found = [(each.values["prompt"], each.values["token"]) for each in notes]
    assert found == ([] if pair is None else [pair])
    for each in notes:
        assert f"threads prompt={pair[0]},token=1" in text(each)


def test_errors_of_an_answer_are_counted_together():
    """Each bound alone is kept by half of the draws; with one error, so are both of them."""
    asked = wanted(requires=["time-per-output-token<=1ms", "time-to-first-token<=14ms"])
    one = alternative(asked, 14.0, 1.0, scatter=0.2)
    (found,) = rank("m", [one], asked).ranked
    assert found.keeps == pytest.approx(0.5, abs=0.05)


def test_prices_and_rates_are_of_output_tokens():
    asked = wanted(Workload(8, 5, batch=3), prices=PRICES)
    one = alternative(asked, 14.0, 1.0, per_hour=2.0)
    seconds_of_a_token = 0.018 / (3 * 5)
    assert one.price == pytest.approx(2.0 / 3600 * seconds_of_a_token * 1e6)
    assert one.per_second == pytest.approx(1 / seconds_of_a_token)
    assert asked.order.quantity.unit == "EUR for a million output tokens"
    assert wanted(None, prices=PRICES).order.quantity.unit == "EUR for a million inferences"


def test_an_answer_always_has_its_own_times():
    assert [each.quantity for each in wanted().others] == [FIRST_TOKEN, OUTPUT_TOKEN]
    assert not wanted().bounds
    assert [each.quantity for each in wanted(Workload(8, 1)).others] == [FIRST_TOKEN]
    assert wanted(None).others == []


@pytest.mark.parametrize(
    ("workload", "how", "message"),
    [(None, {"by": "time-to-first-token"}, "is a figure of a language model's answer"),
     (None, {"requires": ["time-per-output-token<=1"]}, "is a figure of a language model's"),
     (FIVE, {"by": "peak-memory"}, "peak-memory is not known of a whole answer"),
     (FIVE, {"requires": ["cold-start<=2s"]}, "cold-start is not known of a whole answer"),
     (Workload(8, 1), {"by": "time-per-output-token"}, "one token has no time-per-output-token")],
    ids=str,
)  # fmt: skip
def test_other_figures_are_refused_with_a_hint(workload, how, message):
    with pytest.raises(DLBricksError, match=message) as caught:
        wanted(workload, **how)
    assert caught.value.hint


def test_words_name_all_times_of_an_answer(asked):
    bounded = wanted(max_latency_ms=9.0, requires=["time-to-first-token<=3ms"])
    place = Place(asked.system, asked.setup)
    one = replace(alternative(bounded, 4.0, 5.0), place=place)
    said = answer(rank("m", [one], bounded), bounded)
    assert "m, prompt 8, generate 5: nothing keeps 9.00 ms in all and 3.00 ms to the first" in said
    times = "4.00 ms to the first token, 5.00 ms per output token, 24.0 ms in all"
    assert said.endswith(f" with {times}.")
    priced = wanted(prices=PRICES)
    one = replace(alternative(priced, 4.0, 5.0, per_hour=3.6), place=place)
    said = answer(rank("m", [one], priced), priced)
    assert f": 4.80 EUR a million output tokens, {times}; probability" in said
    assert explained(bounded)[0].startswith("Total: time of the whole answer; TTFT")
    assert "TPOT" not in explained(wanted(Workload(8, 1)))[0]
    assert name_of(LATENCY, wanted()) == "total time"
    assert name_of(LATENCY, wanted(None)) == "latency"


def result(value, origin, missing=()):
    estimate = Estimate(value, (value, value), tuple(missing), draws=np.full(RESAMPLES, value))
    told = {name: f"no {name}" for name in missing}
    return SimpleNamespace(
        estimate=estimate, origin=origin, missing=told, failure="", composer="segmented"
    )


def test_origins_of_a_time_are_those_of_its_parts_by_their_shares():
    parts = [(1.0, result(6.0, {"stored": 1.0})), (2.0, result(1.0, {"predicted": 1.0}))]
    time = Time(Compared(Estimate(8.0, (8.0, 8.0))), parts)
    assert time.origin == pytest.approx({"stored": 0.75, "predicted": 0.25})
    assert (time.basis, time.is_inferred, time.is_known) == ("predicted", True, True)
    assert time.missing == "it has no figure"
    lacking = Time(Compared(Estimate(None, None, ("b",))), [(1.0, result(6.0, {}, ["b"]))])
    assert (lacking.is_known, lacking.missing) == (False, "no b")

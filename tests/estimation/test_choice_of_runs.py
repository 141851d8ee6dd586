"""The choice of the models that run: by what they tell, what they cost and what they need."""

from importlib import import_module

import numpy as np
import pytest
from dlbricks_prediction.atlas import SURVEYED

from dlbricks_core.bricks.brickset import whole
from dlbricks_core.compose.options import DEFAULT_COMPOSER, LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive.model_figures import RunCosts
from dlbricks_core.estimation.adaptive.model_loop import chosen
from dlbricks_core.estimation.adaptive.unknown import Unknown
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.run import run
from dlbricks_core.figures import RESAMPLES, Predicted
from dlbricks_core.measure.cutting import Target, cut_models
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("synthetic")]


def test_the_shortest_of_relatives_tells_about_all(adapted, stack, ran, synthetic):
    models = [stack(12), stack(4), stack(8)]
    found = adapted(models)
    assert ran == ["stack4"]
    for model, result in zip(models, found.models, strict=True):
        assert result.estimate.value == pytest.approx(synthetic.truth_ms(model), rel=0.05)
    assert found.models[0].origin == {"profiled": 1.0}
    assert found.adaptive.wholes == 1


def test_bricks_of_a_model_that_ran_have_the_figures_of_its_profile(adapted, stack):
    found = adapted([stack(4)])
    (model,) = found.models
    assert model.is_measurement
    assert {each.origin for each in found.bricks} == {"profiled"}
    total = sum(each.occurrences * each.latency.value for each in found.bricks)
    assert total == pytest.approx(model.estimate.value, rel=0.1)


def test_a_fine_precision_takes_a_run_of_each(adapted, stack, ran):
    adapted([stack(4), stack(8)], precision=0.051)
    assert sorted(ran) == ["stack4", "stack8"]


def test_a_budget_ends_between_two_models(adapted, stack):
    found = adapted([stack(4), stack(4, "other", size=3000)], budget_s=0.001)
    assert found.adaptive.wholes == 0
    assert [each.code for each in found.ledger.notes] == ["budget-ended"]


def test_models_are_chosen_by_what_they_tell_in_each_second(stack):
    request = Request.of("synthetic", threads=1)
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    models = [stack(9), stack(3), stack(3, "alone", size=5000)]
    cuts = cut_models(models, options, request, Observer()).brickset.models
    costs = RunCosts(cuts, 4)
    assert sorted(chosen(costs, range(3), range(3), (), 0.9)) == [1, 2]
    assert sorted(chosen(costs, range(3), range(3), (), 2.0)) == [0, 1, 2]
    assert list(chosen(costs, range(3), [0], cuts[1].counts, 0.9)) == []
    assert costs.share(0, cuts[1].counts) == pytest.approx(1.0)


def test_what_models_cost_is_learned_from_those_that_ran(stack):
    request = Request.of("synthetic", threads=1)
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    cuts = cut_models([stack(2), stack(9)], options, request, Observer()).brickset.models
    runs = 4
    costs = RunCosts(cuts, runs)
    before, latency = costs.running[1], costs.models[0]
    loading = costs.running[0] - runs * latency
    costs.learn(0, loading + latency, latency)
    assert costs.running[1] == pytest.approx(before)
    costs.learn(0, 9 * loading + latency, latency)
    assert costs.running[1] > 2 * before
    slow = RunCosts(cuts, runs)
    slow.learn(0, loading + 900 * latency, 900 * latency)
    assert slow.running[1] > before + runs * costs.models[1]


def test_the_order_uses_what_was_learned_meanwhile(stack):
    """Where loading takes long, a model with many layers is cheaper than one with heavy weights."""
    request = Request.of("synthetic", threads=1)
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    models = [stack(1, size=1000), stack(1, size=500_000), stack(900, size=100)]
    cuts = cut_models(models, options, request, Observer()).brickset.models
    costs = RunCosts(cuts, 4)
    assert list(chosen(costs, range(3), range(3), (), 2.0)) == [0, 1, 2]
    order = chosen(costs, range(3), range(3), (), 2.0)
    assert next(order) == 0
    costs.learn(0, 1e5, costs.models[0])
    assert list(order) == [2, 1]


@pytest.mark.parametrize(("precision", "expected"), [(0.2, ["stack3"]), (0.1, ["stack3", "long"])])
def test_models_whose_predictions_suffice_do_not_run(
    adapted, stack, ran, monkeypatch, precision, expected
):
    """A prediction is asked for models that take long, at a coarse precision on a known system."""
    place = "dlbricks_core.estimation.adaptive"
    monkeypatch.setattr(f"{place}.unknown.Unknown.system_is_known", True)
    monkeypatch.setattr(f"{place}.model_loop._PREDICTING_MS", 0.0)
    monkeypatch.setattr(f"{place}.model_figures.RunCosts.running", [1.0, 201.0])
    sure = {}

    def figures(self, signatures, *_):
        sure.update((s, Predicted(1.0, np.ones(RESAMPLES))) for s in signatures)
        return {s: sure[s] for s in signatures}

    monkeypatch.setattr(f"{place}.unknown.Unknown.figures", figures)
    found = adapted([stack(3), stack(3, "long", size=3000)], precision)
    assert sorted(ran) == sorted(expected)
    assert found.models[1].is_measurement == ("long" in expected)
    assert bool(sure) == (precision == 0.2)


@pytest.mark.parametrize(("limit", "times"), [(0.0, 1), (1e6, 2)])
def test_a_model_runs_again_until_a_plain_script_would_cost_as_much(
    adapted, stack, ran, monkeypatch, limit, times
):
    place = "dlbricks_core.estimation.adaptive"
    monkeypatch.setattr(f"{place}.model_loop._MOST_OF_PLAIN", limit)
    monkeypatch.setattr(f"{place}.model_loop._BRIEF_S", 0.0)
    monkeypatch.setattr(f"{place}.model_figures.ModelFigures.is_precise", lambda *_: False)
    monkeypatch.setattr(
        f"{place}.model_figures.ModelFigures.imprecise", lambda _, positions: positions
    )
    found = adapted([stack(4), stack(4, "other", size=3000)], precision=0.01)
    assert sorted(ran) == sorted(times * ["stack4", "other"])
    codes = [each.code for each in found.ledger.notes]
    assert ("costs-as-plain" in codes) == (limit == 0)


def test_the_cheapest_models_run_again_and_none_that_takes_more_than_is_left(
    adapted, stack, ran, monkeypatch
):
    place = "dlbricks_core.estimation.adaptive"
    monkeypatch.setattr(f"{place}.model_loop._MOST_OF_PLAIN", 0.0)
    monkeypatch.setattr(f"{place}.model_figures.ModelFigures.is_precise", lambda *_: False)
    monkeypatch.setattr(
        f"{place}.model_figures.ModelFigures.imprecise", lambda _, positions: positions
    )
    seconds = [0.2, 9.0, 0.1]
    monkeypatch.setattr(f"{place}.model_loop.ModelLoop._burst_s", lambda _, i: seconds[i])
    models = [stack(4), stack(4, "long", size=3000), stack(4, "other", size=2000)]
    found = adapted(models, precision=0.01)
    assert ran[3:] == ["other", "stack4"]
    assert [each.code for each in found.ledger.notes] == ["costs-as-plain"]


def test_large_weights_are_not_drawn(adapted, stack, ran, monkeypatch):
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.model_figures._MOST_DRAWN_BYTES", 1)
    (model,) = adapted([stack(3)]).models
    assert ran == []
    assert model.estimate.value is not None


def test_a_model_of_much_memory_runs_only_if_asked(adapted, stack, ran, monkeypatch):
    model = stack(4)
    (footprint,) = adapted([model], 0.95).cutting.footprints.values()
    ran.clear()
    monkeypatch.setattr(
        "dlbricks_core.measure.footprint.memory_to_use", lambda: 2 * footprint.needed_bytes
    )
    found = adapted([model], force=True)
    assert ran == []
    assert "whole-takes-much-memory" in {each.code for each in found.ledger.notes}
    adapted([model], force=True, end_to_end=True)
    assert ran == ["stack4"]


@pytest.fixture
def rates(builder, monkeypatch):
    """Signatures of two small networks in place of the rates, for which any model is worth it."""
    found = {}
    for size in (100, 200):
        b = builder((2, size))
        brick = whole(b.model(b.add("Relu", b.input), name=f"rate{size}"))
        found[brick.signature] = Target(brick, "brick", f"{SURVEYED}rate")
    monkeypatch.setattr("dlbricks_prediction.rates.rated", lambda: found)
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.model_loop._WORTH_RATES_MS", 1.0)
    return found.keys()


def timed_rates(result):
    return [each.values for each in result.ledger.notes if each.code == "rates-timed"]


def in_store(path, signatures):
    asked = Request.of("synthetic", threads=1)
    with ResultStore.open(path) as store:
        found = store.get([asked.key(each, "brick") for each in signatures])
    return {key.subject.signature for key, each in found.items() if each.values}


def test_on_an_unknown_system_the_rates_come_first_and_once(adapted, stack, ran, rates, tmp_path):
    first = adapted([stack(4)])
    (said,) = timed_rates(first)
    assert said["networks"] == len(rates)
    assert said["seconds"] > 0
    assert in_store(tmp_path / "results.sqlite", rates) == {*rates}
    again = adapted([stack(4), stack(3, size=3000)])
    assert timed_rates(again) == []
    assert ran == ["stack4", "stack3"]


@pytest.mark.parametrize("budget_s", [None, 5.0])
def test_rates_wait_for_models_that_take_long(adapted, stack, rates, monkeypatch, budget_s):
    worth_ms = 1e9 if budget_s is None else 6e3
    name = "dlbricks_core.estimation.adaptive.model_loop._WORTH_RATES_MS"
    monkeypatch.setattr(name, worth_ms)
    monkeypatch.setattr(RunCosts, "running", [1e6])
    assert timed_rates(adapted([stack(4)], budget_s=budget_s)) == []


def test_rates_that_were_timed_are_for_a_system_that_the_reference_data_lack(
    adapted, stack, rates, monkeypatch
):
    monkeypatch.setattr(Unknown, "system_is_known", True)
    assert timed_rates(adapted([stack(4)])) == []


@pytest.fixture
def unpredicted(monkeypatch):
    """No predictor is installed."""
    monkeypatch.setattr("dlbricks_core.predict.installed.names", lambda _kind: set())


def test_without_a_predictor_models_that_run_are_estimated(adapted, stack, ran, rates, unpredicted):
    found = adapted([stack(8), stack(4)])
    assert ran == ["stack4"]
    assert not any(each.estimate.partial for each in found.models)
    assert found.ledger.notes == ()


def test_bricks_that_did_not_run_name_the_distribution_that_predicts(adapted, stack, unpredicted):
    found = adapted([stack(4), stack(4, "other", size=3000)], budget_s=0.001)
    assert all(each.estimate.partial for each in found.models)
    (said,) = (text(each) for each in found.ledger.notes if each.code != "budget-ended")
    assert said.endswith("predictions come with dlbricks-prediction, which is not installed")


@pytest.mark.parametrize(
    ("precision", "installed", "composer"),
    [
        (0.05, {"atlas"}, DEFAULT_COMPOSER),
        (0.06, {"atlas"}, LEARNED_COMPOSER),
        (0.06, set(), DEFAULT_COMPOSER),
    ],
)
def test_models_that_run_cold_are_cut_once(
    stack, monkeypatch, tmp_path, precision, installed, composer
):
    """The precision decides for which composer, and whether few bricks or all are timed."""
    cuts, few = [], []
    monkeypatch.setattr("dlbricks_core.predict.installed.names", lambda _kind: installed)

    def noted(models, options, request, observer, store=None):
        cuts.append(options.composer)
        return cut_models(models, options, request, observer, rewrites=Rewrites())

    def estimated(cutting, request, *_, **how):
        few.append(how["few"])
        return assemble(request, cutting, Ledger())

    place = import_module("dlbricks_core.estimation.run")
    monkeypatch.setattr(place, "cut_models", noted)
    monkeypatch.setattr(place, "run_bricks", estimated)
    asked = Request.of("synthetic", threads=1, precision=precision, condition="cold")
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        found = run([stack(2)], options, asked, store, Observer())
    assert cuts == [composer] == [found.cut_options.composer]
    assert few == [composer == LEARNED_COMPOSER]

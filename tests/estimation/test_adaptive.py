"""Whole models that run, and what they tell of others."""

import math
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dlbricks_core.bricks.brickset import whole
from dlbricks_core.compose.options import DEFAULT_COMPOSER, LEARNED_COMPOSER, CutOptions
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.estimation.adaptive.ahead import begun
from dlbricks_core.estimation.adaptive.coverage import RunCosts, chosen
from dlbricks_core.estimation.adaptive.unknown import Unknown
from dlbricks_core.estimation.adaptive.wholes import WholeRuns
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.run import run
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import Pulse, Session
from dlbricks_core.facts.note import note
from dlbricks_core.figures import RESAMPLES, Predicted
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.protocols import HOT
from dlbricks_core.machine.load import LoadWatch, MachineLoad
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.cutting import Target, cut_models
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.plugins import Plugin
from dlbricks_core.predict.atlas import SURVEYED
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.report.run.terminal import precision_reached
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory
from dlbricks_core.worker.memory import limited

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def synthetic(monkeypatch):
    """The backend of ``helpers/synthetic_backend.py``."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    import synthetic_backend

    found = Plugin("backend", "synthetic", synthetic_backend.TARGET, "tests", "1",
                   synthetic_backend.SyntheticBackend)  # fmt: skip
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda *_: found)
    monkeypatch.setattr(import_module("dlbricks_core.bricks.split"), "SHORT_BYTES", 10_000)
    return synthetic_backend


@pytest.fixture
def ran(monkeypatch):
    """Names of the models that ran, in order."""
    names = []
    begin = WholeRuns.run

    def noted(self, cut, burst, *, harvest):
        names.append(cut.model.name)
        begin(self, cut, burst, harvest=harvest)

    monkeypatch.setattr(WholeRuns, "run", noted)
    return names


@pytest.fixture
def stack(builder):
    """A model of equal blocks, named by their number."""

    def built(blocks, name=None, size=2000):
        b = builder((2, size))
        x = b.input
        for _ in range(blocks):
            x = b.add("Relu", b.add("Add", x, b.weight(*b.shape)))
            x = b.add("Tanh", b.add("Add", x, b.weight(*b.shape)))
        return b.model(x, name=name or f"stack{blocks}")

    return built


@pytest.fixture
def adapted(tmp_path):
    """A run with a store that stays; its result."""

    def result(models, precision=0.1, *, end_to_end=False, observer=None, **request):
        asked = Request.of("synthetic", threads=1, precision=precision, condition="hot", **request)
        cut = CutOptions.chosen(None, None, LEARNED_COMPOSER)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            return run(models, cut, asked, store, observer or Observer(), end_to_end=end_to_end)

    return result


def test_one_model_runs_itself(adapted, stack, ran, synthetic):
    (model,) = adapted([stack(3)]).models
    assert ran == ["stack3"]
    assert model.is_measurement
    assert model.measured.value == model.estimate.value
    assert model.normalized is None
    assert model.estimate.value == pytest.approx(synthetic.truth_ms(stack(3)), rel=0.01)


def test_a_host_whose_speed_changes_widens_what_holds_on_another_day(
    adapted, stack, tmp_path, monkeypatch
):
    """Sessions of before had pulses of 0.05 and 0.1 ms; this one has 0.1 ms."""
    monkeypatch.setattr(LoadWatch, "pulse", Pulse(0.1))
    usual = adapted([stack(3)])
    assert not usual.ledger.warnings
    system, host = usual.request.system.fingerprint, current_host()
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        for number, pulse_ms in enumerate((0.05, 0.1, 0.05)):
            earlier = Session(f"s{number}", host, system, "1", load=0.0, pulse_ms=pulse_ms)
            store.keep_session(earlier)
        store.keep_session(Session("busy", host, system, "1", load=0.9, pulse_ms=1.0))
        store.keep_session(Session("other", "other", system, "1", load=0.0, pulse_ms=1.0))
    again = adapted([stack(3)], force=True)
    widths = [each.models[0].estimate for each in (usual, again)]
    assert widths[1].half_width > 3 * widths[0].half_width
    now = [relative_half_width(each.interval_now) for each in widths]
    assert now[1] == pytest.approx(now[0], rel=0.1)
    (warned,) = [each for each in again.ledger.warnings if each.code == "machine-slower-now"]
    assert "computes at 50% of the speed" in text(warned)


def test_the_shortest_of_relatives_tells_about_all(adapted, stack, ran, synthetic):
    models = [stack(12), stack(4), stack(8)]
    found = adapted(models)
    assert ran == ["stack4"]
    for model, result in zip(models, found.models, strict=True):
        assert result.estimate.value == pytest.approx(synthetic.truth_ms(model), rel=0.05)
    assert found.models[0].origin == {"profiled": 1.0}
    assert found.adaptive.wholes == 1


def test_a_fine_precision_takes_a_run_of_each(adapted, stack, ran):
    adapted([stack(4), stack(8)], precision=0.051)
    assert sorted(ran) == ["stack4", "stack8"]


def test_a_second_time_nothing_runs(adapted, stack, ran):
    first = adapted([stack(4), stack(8)])
    again = adapted([stack(4), stack(8)])
    assert ran == ["stack4"]
    assert [e.estimate.value for e in again.models] == [e.estimate.value for e in first.models]


def test_models_that_ran_only_for_comparison_tell_nothing(adapted, stack, ran):
    once = adapted([stack(4), stack(8)], end_to_end=True)
    again = adapted([stack(4), stack(8)], end_to_end=True)
    assert ran == ["stack4", "stack8"]
    for found in (once, again):
        four, eight = found.models
        assert (four.normalized, four.is_measurement) == (None, True)
        assert eight.normalized == pytest.approx(1.0, abs=0.05)
        assert eight.origin == {"profiled": 1.0}
        assert eight.measured.value != eight.estimate.value


def test_a_model_with_denormal_weights_runs_and_tells_nothing_of_others(adapted, stack, ran):
    slowed = replace(stack(4, "slowed"), denormal_share=0.5)
    for model in (slowed, stack(4), slowed):
        adapted([model])
    assert ran == ["slowed", "stack4"]
    other = replace(stack(8, "other"), denormal_share=0.25)
    found = adapted([stack(8), other]).models
    assert ran == ["slowed", "stack4", "other"]
    assert [each.origin for each in found] == [{"profiled": 1.0}, {"measured": 1.0}]


def test_profiles_of_a_model_with_denormal_weights_are_not_kept(adapted, stack, tmp_path):
    adapted([replace(stack(4), denormal_share=0.5)])
    asked = Request.of("synthetic", threads=1)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        (found,) = estimate([stack(8)], None, asked, store, "atlas").models
    assert found.origin == {"predicted": 1.0}


def test_estimates_know_what_ran(adapted, stack, tmp_path, synthetic):
    adapted([stack(4)])
    asked = Request.of("synthetic", threads=1)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        found = estimate([stack(4), stack(8)], None, asked, store, "atlas")
    four, eight = found.models
    assert four.is_measurement
    assert eight.origin == {"profiled": 1.0}
    assert eight.estimate.value == pytest.approx(synthetic.truth_ms(stack(8)), rel=0.05)
    assert not [each for each in found.ledger.notes if each.code == "no-run-narrows"]


def test_what_the_backend_lacks_makes_its_model_partial_and_no_other(adapted, builder, stack):
    b = builder((2, 2000))
    odd = b.model(b.add("Ceil", b.add("Relu", b.input)), name="odd")
    found = adapted([odd, stack(4)])
    assert found.models[0].estimate.partial
    assert found.models[0].unsupported
    assert found.models[1].is_measurement
    assert {each.subject for each in found.failures} == {"odd"}


def test_bricks_of_a_model_that_runs_and_of_one_that_cannot_count_once(adapted, builder, stack):
    b = builder((2, 2000))
    x = b.input
    for _ in range(2):
        x = b.add("Relu", b.add("Add", x, b.weight(*b.shape)))
        x = b.add("Tanh", b.add("Add", x, b.weight(*b.shape)))
    odd = b.model(b.add("Ceil", x), name="odd")
    found = adapted([stack(4), odd])
    runs, cannot = found.brickset.models
    assert runs.counts.keys() & cannot.counts.keys()
    counts = Counter(runs.counts) + Counter(cannot.counts)
    assert {each.brick.signature: each.occurrences for each in found.bricks} == counts
    # No width is known of a sum that lacks a brick.
    assert found.adaptive.half_widths[1] == math.inf


def test_a_model_that_does_not_fit_is_estimated_from_its_bricks(
    adapted, stack, ran, monkeypatch, synthetic
):
    monkeypatch.setattr("dlbricks_core.measure.footprint.Footprint.fits", False)
    (model,) = adapted([stack(3)]).models
    assert ran == []
    assert model.estimate.value == pytest.approx(synthetic.truth_ms(stack(3)), rel=0.2)
    assert "profiled" not in model.origin


def test_a_budget_ends_between_two_models(adapted, stack):
    found = adapted([stack(4), stack(4, "other", size=3000)], budget_s=0.001)
    assert found.adaptive.wholes == 0
    assert [each.code for each in found.ledger.notes] == ["budget-ended"]


def test_an_interrupted_run_loses_nothing(adapted, stack, ran):
    class Stop(Observer):
        def advance(self, what=""):
            raise KeyboardInterrupt

    pair = [stack(4), stack(4, "other", size=3000)]
    with pytest.raises(KeyboardInterrupt):
        adapted(pair, observer=Stop())
    first = list(ran)
    adapted(pair)
    assert len(first) == 1
    assert sorted(ran) == ["other", "stack4"]


def test_what_is_stored_names_its_condition(adapted, stack, tmp_path):
    adapted([stack(4)])
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        setups = {setup.protocol for setup, _ in store.setups("synthetic")}
    assert setups == {HOT.identity}


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
    monkeypatch.setattr(f"{place}.adapting._PREDICTING_MS", 0.0)
    monkeypatch.setattr(f"{place}.coverage.RunCosts.running", [1.0, 201.0])
    sure = {}

    def figures(self, signatures, seen, small):
        sure.update((s, Predicted(1.0, np.ones(RESAMPLES))) for s in signatures)
        return {s: sure[s] for s in signatures}

    monkeypatch.setattr(f"{place}.unknown.Unknown.figures", figures)
    found = adapted([stack(3), stack(3, "long", size=3000)], precision)
    assert sorted(ran) == sorted(expected)
    assert found.models[1].is_measurement == ("long" in expected)
    assert bool(sure) == (precision == 0.2)


def test_a_profile_that_fails_is_told_and_costs_no_latency(adapted, stack, monkeypatch):
    def fails(self, *_):
        raise UnsupportedError("no profile today")

    monkeypatch.setattr("dlbricks_core.measure.worker.BackendWorker.profile", fails)
    found = adapted([stack(4)])
    assert found.models[0].is_measurement
    assert note("no-brick-latencies", "stack4", reason="no profile today") in found.ledger.notes


def test_a_profile_that_names_few_layers_tells_nothing(adapted, stack, monkeypatch):
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.wholes.LEAST_ASSIGNED", 1.1)
    found = adapted([stack(4)])
    assert found.adaptive.timed == 0
    assert "names few of its layers" in " ".join(map(text, found.ledger.notes))


def test_large_weights_are_not_drawn(adapted, stack, ran, monkeypatch):
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.adapting._MOST_DRAWN_BYTES", 1)
    (model,) = adapted([stack(3)]).models
    assert ran == []
    assert model.estimate.value is not None


def test_a_process_that_holds_much_memory_starts_anew(adapted, stack, monkeypatch):
    started = []
    restart = BackendWorker.restart
    monkeypatch.setattr(BackendWorker, "restart", lambda self: (started.append(1), restart(self)))
    pair = [stack(3), stack(3, "other", size=3000)]
    adapted(pair, precision=0.11)
    assert started == []
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.wholes._MOST_HELD_BYTES", 1)
    found = adapted(pair, force=True)
    assert started
    assert all(each.is_measurement for each in found.models)


def test_a_framework_is_imported_while_models_are_read(stack, tmp_path, monkeypatch):
    processes = []
    made = BackendWorker.__init__
    monkeypatch.setattr(
        BackendWorker, "__init__", lambda self, *a: (processes.append(self), made(self, *a))[1]
    )
    asked = Request.of("synthetic", threads=1, precision=0.1, condition="hot")
    cut = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    with ResultStore.open(tmp_path / "results.sqlite") as store, limited():
        with begun(asked, store) as ahead:
            assert memory._limits, "models are read within the limits"
            found = run([stack(3)], cut, asked, store, Observer(), end_to_end=False, ahead=ahead)
            assert not memory._limits
        assert found.models[0].is_measurement
        assert processes == [ahead.worker]
        with begun(asked, store) as again:
            assert again is None, "the store may hold all that is asked"
    assert len(processes) == 1


@pytest.fixture
def others(monkeypatch):
    """Sets the share of the CPUs that others use, as far as runs see it."""

    def use(share):
        load = MachineLoad(1.0, 2, others=2 * share, steal=0.0, throttled=0.0)
        monkeypatch.setattr(LoadWatch, "lately", lambda self: load)

    return use


@pytest.mark.parametrize("force", [False, True])
def test_a_figure_rests_on_every_run_as_in_the_store(
    adapted, stack, ran, monkeypatch, tmp_path, force
):
    whole = BackendWorker.run_whole
    samples = iter([(1.0, 9.0), (2.0, 8.0)])

    def scattered(self, *arguments, **named):
        return replace(whole(self, *arguments, **named), samples_ms=next(samples))

    monkeypatch.setattr(BackendWorker, "run_whole", scattered)
    (model,) = adapted([stack(3)], force=force).models
    assert ran == ["stack3", "stack3"]
    assert sorted(model.measured.samples) == [1.0, 2.0, 8.0, 9.0]
    asked = Request.of("synthetic", threads=1)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        (known,) = estimate([stack(3)], None, asked, store, "atlas").models
    assert known.measured == model.measured
    assert known.estimate.interval == model.estimate.interval


def test_bricks_of_a_disturbed_run_stand_for_themselves_alone(adapted, stack, others):
    others(0.5)
    first, other = adapted([stack(4), stack(8)]).models
    for each in (first, other):
        assert each.disturbance.load == pytest.approx(0.5)
        low, high = each.estimate.interval
        assert high > 1.9 * low
    others(0.0)
    (again,) = adapted([stack(4)], force=True).models
    assert not again.disturbance.marked


def test_where_others_leave_nothing_an_estimate_is_predicted(adapted, stack, others):
    others(0.99)
    found = adapted([stack(4)])
    (model,) = found.models
    assert model.measured is None
    assert model.failure == "not measured: other programs used 99% of the CPUs meanwhile"
    assert set(model.origin) == {"predicted"}
    assert not found.is_sound


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
    monkeypatch.setattr("dlbricks_core.estimation.rates.rated", lambda: found)
    monkeypatch.setattr("dlbricks_core.estimation.adaptive.adapting._WORTH_RATES_MS", 1.0)
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
    name = "dlbricks_core.estimation.adaptive.adapting._WORTH_RATES_MS"
    monkeypatch.setattr(name, worth_ms)
    monkeypatch.setattr(RunCosts, "running", [1e6])
    assert timed_rates(adapted([stack(4)], budget_s=budget_s)) == []


def test_rates_that_were_timed_are_for_a_system_that_the_reference_data_lack(
    adapted, stack, rates, monkeypatch
):
    monkeypatch.setattr(Unknown, "system_is_known", True)
    assert timed_rates(adapted([stack(4)])) == []


def test_models_that_ran_are_reported_beside_others(adapted, stack, builder, tmp_path):
    """Each has its own half-width, although only some of them ran."""
    b = builder((2, 3000))
    other = b.model(b.add("Sigmoid", b.input), name="other")
    adapted([stack(4)])
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        asked = Request.of("synthetic", threads=1)
        found = estimate([other, stack(4)], None, asked, store, "atlas")
    assert [each.is_measurement for each in found.models] == [False, True]
    assert found.adaptive.half_widths == tuple(each.estimate.half_width for each in found.models)
    assert precision_reached(found).startswith("1 of 2 models ran")


@pytest.mark.parametrize(
    ("precision", "composer"), [(0.05, DEFAULT_COMPOSER), (0.06, LEARNED_COMPOSER)]
)
def test_models_that_run_cold_are_cut_once(stack, monkeypatch, tmp_path, precision, composer):
    """The precision decides for which composer, and whether few bricks or all are timed."""
    cuts, few = [], []

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

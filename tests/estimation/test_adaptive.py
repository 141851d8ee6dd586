"""Whole models that run, and what they tell of others."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from dlbricks_core.commands.estimate.terminal import precision_reached
from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.estimation.adaptive.ahead import begun
from dlbricks_core.estimation.run import run
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import Pulse, Session
from dlbricks_core.facts.note import note
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.protocols import HOT
from dlbricks_core.machine.load import LoadWatch, MachineLoad
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory
from dlbricks_core.worker.memory import limited

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("synthetic")]


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
    assert model.failure.startswith("not measured: other programs used 99% of the CPUs meanwhile")
    assert set(model.origin) == {"predicted"}
    assert not found.is_sound


def test_models_that_ran_are_reported_beside_others(adapted, stack, builder, tmp_path):
    """Each has its own half-width, although only some of them ran."""
    b = builder((2, 3000))
    other = b.model(b.add("Sigmoid", b.input), name="other")
    adapted([stack(4)])
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        asked = Request.of("synthetic", threads=1)
        found = estimate([other, stack(4)], None, asked, store, "atlas")
    assert [each.is_measurement for each in found.models] == [False, True]
    halves = [each.estimate.half_width_now for each in found.models]
    assert [*found.adaptive.half_widths] == halves
    assert precision_reached(found).startswith("1 of 2 models ran")

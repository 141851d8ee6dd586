"""The dial: what is timed for a precision, and what estimates rest on then."""

import math
from dataclasses import replace
from importlib import import_module
from itertools import count, pairwise, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.estimate.terminal import origins
from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive import brick_loop as loop
from dlbricks_core.estimation.adaptive import timings as bench
from dlbricks_core.estimation.adaptive.acquisition import Choice
from dlbricks_core.estimation.adaptive.drift import drift, scatter_within
from dlbricks_core.estimation.adaptive.timings import TimingWorker
from dlbricks_core.estimation.defaults import FINEST
from dlbricks_core.estimation.run import run, run_bricks
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.figures.figure import Figure, Measured, relative_half_width
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.predicted import Discrepancy
from dlbricks_core.figures.protocols import PROTOCOLS, between_hours
from dlbricks_core.measure.costs import START_S, Costs
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import WorkerProcess

pytestmark = pytest.mark.process

OPERATORS = ("Relu", "Tanh", "Abs", "Neg")


@pytest.fixture(autouse=True)
def plugins(monkeypatch):
    """The backend of ``helpers/synthetic_backend.py``, and a predictor of known uncertainty."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    import synthetic_backend
    from rates import Rates

    backend = Plugin("backend", "synthetic", synthetic_backend.TARGET, "tests", "1",
                     synthetic_backend.SyntheticBackend)  # fmt: skip
    atlas = Plugin("predictor", "atlas", "rates:Rates", "tests", "1", Rates)
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda *_: backend)
    monkeypatch.setattr("dlbricks_core.estimation.conditioned.find_predictor", lambda *_: atlas)
    monkeypatch.setattr(import_module("dlbricks_core.bricks.split"), "SHORT_BYTES", 10_000)
    return synthetic_backend


@pytest.fixture
def rates(plugins):
    """The predictor."""
    import rates

    return rates.Rates


@pytest.fixture
def chain(builder):
    """A chain with a brick for each pair of operators; each pair occurs three times."""

    def built(number, operators=OPERATORS, times=3):
        b = builder((2, 600 + 10 * number))
        x = b.input
        for first, second in [*product(operators, repeat=2)] * times:
            x = b.add("Add", x, b.weight(*b.shape))
            x = b.add(second, b.add(first, x))
        return b.model(name=f"chain{number}")

    return built


@pytest.fixture
def turned(tmp_path):
    """A run of the dial; what it found."""

    def turn(models, precision, *, end_to_end=False, observer=None, threads=1, **request):
        asked = Request.of("synthetic", threads=threads, precision=precision, **request)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
            cutting = cut_models(models, options, asked, Observer())
            return run_bricks(
                cutting, asked, store, observer or Observer(), end_to_end=end_to_end, few=True
            )

    return turn


@pytest.fixture
def processes(monkeypatch):
    """Numbers of the worker processes that were started."""
    started = []
    begin = WorkerProcess.__init__

    def noted(self, *arguments, **options):
        started.append(len(started))
        begin(self, *arguments, **options)

    monkeypatch.setattr(WorkerProcess, "__init__", noted)
    return started


def test_a_loose_precision_runs_nothing(turned, chain, processes):
    found = turned([chain(0), chain(1)], 0.95)
    assert processes == []
    assert (found.adaptive.timed, found.adaptive.wholes) == (0, 0)
    for model in found.models:
        assert model.origin == {"predicted": pytest.approx(1)}
        low, high = model.estimate.interval
        assert low < model.estimate.value < high
        assert model.measured is None
    assert found.adaptive.offers


def test_the_dial_times_until_the_estimates_are_precise(turned, chain, plugins, processes):
    models = [chain(i) for i in range(6)]
    found = turned(models, 0.1)
    assert found.adaptive.widest <= 0.1
    assert len(processes) == 1
    timed = found.adaptive.timed + found.adaptive.wholes
    assert 0 < timed < len(found.brickset.bricks) / 2
    for model in found.models:
        assert model.estimate.value == pytest.approx(plugins.truth_ms(model.cut.model), rel=0.15)
        assert sum(model.origin.values()) == pytest.approx(1)
    assert found.ledger.notes == ()
    assert found.effort.runs["model"] == 0
    assert found.effort.runs["brick"] >= 3 * timed


def test_what_is_timed_together_runs_in_the_order_of_its_models(turned, chain, monkeypatch):
    """Other operators drive a layer's code out of the caches."""
    batches = []
    measure = bench.measure

    def noted(targets, *rest):
        targets = list(targets)
        batches.append([each.brick.signature for each in targets])
        return measure(targets, *rest)

    monkeypatch.setattr(bench, "measure", noted)
    models = [chain(1), chain(2)]
    cuts = turned(models, 0.05).cutting.brickset.models
    order = [s for cut in cuts for s in (cut.whole.signature, *cut.counts)]
    assert max(map(len, batches)) > 2
    assert all(batch == sorted(batch, key=order.index) for batch in batches)


def test_a_finer_precision_times_more(turned, chain):
    models = [chain(i) for i in range(4)]
    before, widths = -1, []
    for precision in (0.9, 0.3, 0.1, 0.05):
        dial = turned(models, precision).adaptive
        assert dial.timed + dial.wholes >= before
        before = dial.timed + dial.wholes
        widths.append(dial.widest)
    assert all(after <= 1.1 * before for before, after in pairwise(widths))
    assert widths[-1] <= 0.05


def test_the_dial_goes_by_the_intervals_that_are_reported(turned, chain):
    found = turned([chain(i) for i in range(4)], 0.1)
    assert found.adaptive.timed > 0
    for half_width, model in zip(found.adaptive.half_widths, found.models, strict=True):
        low, high = model.estimate.interval_now
        assert (high - low) / (high + low) == pytest.approx(half_width, rel=0.1)
        assert relative_half_width(model.estimate.interval) > half_width


def test_what_a_models_bricks_are_off_by_together_goes_with_its_own_bricks(
    turned, chain, rates, monkeypatch
):
    """Bricks of another model tell nothing of it, and the model's own bricks take it away."""
    models = [chain(0), chain(1)]
    before = turned(models, 0.95)
    predict = rates.predict

    def together(*given, **named):
        apart = Discrepancy(predicted=0.25, measured=0.01)
        found = predict(*given, **named)
        return {s: replace(each, discrepancy=apart) for s, each in found.items()}

    monkeypatch.setattr(rates, "predict", together)
    loose = turned(models, 0.95)
    assert loose.adaptive.timed == 0
    virtual = loose.request.target.hypervisor is not None
    hours = between_hours((), np.mean, virtual=virtual)
    for one, other in zip(loose.adaptive.half_widths, before.adaptive.half_widths, strict=True):
        assert one > 1.2 * other
    for model, half in zip(loose.models, loose.adaptive.half_widths, strict=True):
        assert model.estimate.composing_error == pytest.approx(math.hypot(0.25, 0.03, hours))
        assert relative_half_width(model.estimate.interval_now) == pytest.approx(half, rel=0.1)
    fine = turned(models, 0.12)
    assert fine.adaptive.widest <= 0.12
    assert fine.adaptive.timed + fine.adaptive.wholes > 0
    for model in fine.models:
        assert model.estimate.composing_error < 0.1


def test_a_whole_model_is_timed_where_that_is_cheaper(turned, chain, plugins):
    # All bricks differ, and together they cost more than the model.
    model = chain(0, times=1)
    turned([chain(1, ("Tanh",))], 0.1)  # from here on the system is known
    found = turned([model], 0.045)
    assert (found.adaptive.timed, found.adaptive.wholes) == (0, 1)
    (result,) = found.models
    assert result.origin == {"measured": 1.0}
    assert result.estimate.value == pytest.approx(plugins.truth_ms(model), rel=1e-3)
    # A whole model that was timed is a measurement, and no estimate that could be off.
    assert result.measured.value == pytest.approx(result.estimate.value)
    assert (result.is_measurement, result.normalized) == (True, None)
    assert result.notes[0].code == "timed-in-place"
    assert result.parallel.value is None
    assert origins(found) == "Of the sum of estimates: 100% measured."
    assert turned([model], 0.045).models[0].origin == {"stored": 1.0}


def test_the_store_gives_the_figure_of_a_whole_model_that_was_timed(turned, chain, tmp_path):
    model = chain(0, times=1)
    turned([chain(1, ("Tanh",))], 0.1)  # from here on the system is known
    (timed,) = turned([model], 0.045).models
    asked = Request.of("synthetic", threads=1)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        (known,) = estimate([model], None, asked, store, "atlas").models
    assert known.is_measurement
    assert known.measured == timed.measured
    for name in ("value", "interval"):
        assert getattr(known.estimate, name) == pytest.approx(getattr(timed.estimate, name))


def test_a_whole_model_may_take_another_time_at_another_time(turned, chain):
    turned([chain(1, ("Tanh",))], 0.1)  # from here on the system is known
    found = turned([chain(0, times=1)], 0.045)
    assert found.adaptive.wholes == 1
    assert found.adaptive.widest == pytest.approx(NORMAL_HALF_WIDTH * drift().session, rel=0.2)
    (result,) = found.models
    assert relative_half_width(result.estimate.interval_now) == pytest.approx(found.adaptive.widest)
    assert found.ledger.notes == ()


def test_further_runs_of_a_whole_model_that_scatters_are_offered(chain):
    cut = BrickSet.of([chain(0)], 128).models[0]
    whole, half = cut.whole.signature, 0.08
    figure = Measured((10.0, 11.0, 10.0, 12.0), PROTOCOLS["interleaved"])
    subjects = SimpleNamespace(
        cutting=SimpleNamespace(brickset=SimpleNamespace(models=[cut])), every={whole: cut.whole}
    )
    stop = SimpleNamespace(subjects=subjects, known={whole: figure}, costs=lambda: Costs(1.0),
                           start_s=2.0, precision=0.1)  # fmt: skip
    state = SimpleNamespace(half_widths=np.array([half]), widest=half, measured=lambda _: True)
    settled = Choice((), None, state.half_widths, [whole], np.array([True]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Choice, "of", lambda *_: settled)
        coarse, fine = loop._offers(state, stop)
        assert [coarse.half_width, fine.half_width] == [0.07, FINEST]
        # Scatter falls with the root of the number of runs, and drift stays.
        drifted = NORMAL_HALF_WIDTH * drift().session
        more = np.ceil(4 * (half**2 - drifted**2) / (FINEST**2 - drifted**2)) - 4
        seconds = Costs(1.0).seconds(cut.whole.model, figure.value, int(more))
        assert 2.0 < coarse.seconds < fine.seconds == 2.0 + seconds
        # A network has 200 runs at most.
        stop.known[whole] = replace(figure, samples=(10.0,) * 190)
        assert not list(loop._offers(state, stop))


def test_a_whole_model_is_planned_and_timed_with_room_for_its_drift(turned, chain, monkeypatch):
    turned([chain(1, ("Tanh",))], 0.1)  # from here on the system is known
    choices, scatters = [], []
    insist = TimingWorker.insist

    def insisting(self, wholes, scatter, left_s):
        scatters.append(scatter)
        insist(self, wholes, scatter, left_s)

    monkeypatch.setattr(Choice, "batch", lambda self, *_: choices.append(self))
    monkeypatch.setattr(TimingWorker, "insist", insisting)
    turned([chain(0)], 0.06)
    assert scatters == [scatter_within(0.06)]
    uncertain = choices[0].uncertain  # the whole comes last
    assert uncertain.errors[-1] / uncertain.networks[:, -1].mean() > drift().session


@pytest.mark.parametrize("precision", [0.02, 0.05, 0.07, 0.3])
def test_scatter_and_drift_together_stay_within_a_precision(precision):
    drifted = NORMAL_HALF_WIDTH * drift().session
    assert precision / 2 <= scatter_within(precision) < precision
    if precision > 1.2 * drifted:
        assert np.hypot(scatter_within(precision), drifted) == pytest.approx(precision)


@pytest.mark.parametrize("end_to_end", [False, True])
def test_a_model_that_is_a_single_brick_is_timed_until_it_is_precise(
    turned, chain, builder, plugins, end_to_end
):
    turned([chain(1, ("Tanh",))], 0.1)  # from here on the system is known
    b = builder((2, 600))
    b.relu(b.input)
    model = b.model(name="single")
    found = turned([model], 0.05, end_to_end=end_to_end)
    (brick,) = found.brickset.bricks
    assert brick == found.models[0].cut.whole.signature
    assert found.adaptive.timed == 1
    assert found.adaptive.widest <= 0.05
    assert found.ledger.notes == ()
    assert found.models[0].estimate.value == pytest.approx(plugins.truth_ms(model), rel=0.05)


def test_a_model_that_takes_no_longer_than_a_call_has_an_origin(turned, builder, monkeypatch):
    monkeypatch.setattr(Figure, "own", 0.0)
    b = builder((2, 600))
    b.relu(b.input)
    assert turned([b.model(name="tiny")], 0.05).models[0].origin == {"measured": 1.0}


def test_what_is_compared_is_not_what_the_estimate_rests_on(turned, chain):
    model = chain(0)
    first = turned([model], 0.05, end_to_end=True)
    assert first.adaptive.wholes == 0
    assert first.models[0].measured is not None
    assert first.effort.runs["model"] > 0
    again = turned([model], 0.05, end_to_end=True)
    assert again.models[0].estimate == first.models[0].estimate
    # Without the comparison the latency of the whole is known from the store.
    assert turned([model], 0.05).models[0].origin == {"stored": 1.0}


def test_what_the_store_holds_is_not_timed_again(turned, chain, processes):
    models = [chain(i) for i in range(3)]
    first = turned(models, 0.1)
    again = turned(models, 0.1)
    assert len(processes) == 1
    assert again.ledger.anew == frozenset()
    assert again.ledger.reused == first.adaptive.timed + first.adaptive.wholes
    assert again.adaptive.half_widths == pytest.approx(first.adaptive.half_widths, rel=0.2)
    assert turned(models, 0.1, force=True).ledger.anew


def test_a_budget_that_is_too_short_times_nothing(turned, chain, processes):
    found = turned([chain(0)], 0.05, budget_s=0.001)
    assert processes == []
    note = text(*found.ledger.notes)
    assert "the budget of 0.001 s ended first, without time to start synthetic" in note
    assert "chain0 ±" in note
    assert found.adaptive.offers[0].half_width == 0.05
    assert found.adaptive.offers[0].seconds > 0


def test_a_budget_in_which_a_backend_starts_at_best_times_something(turned, chain):
    found = turned([chain(0)], 0.05, budget_s=START_S - 0.1)
    assert found.adaptive.timed + found.adaptive.wholes > 0


def test_a_model_that_takes_longer_than_the_budget_is_not_timed_as_a_whole(
    turned, chain, processes, monkeypatch
):
    monkeypatch.setattr(Costs, "seconds", lambda *_: 100.0)
    found = turned([chain(0)], 0.05, budget_s=50)
    assert processes == []
    assert "no further timing fits into the budget of 50 s" in text(*found.ledger.notes)
    assert turned([chain(0)], 0.05).adaptive.wholes == 1  # without a budget


def test_what_a_backend_lacks_makes_the_estimate_partial(turned, chain):
    found = turned([chain(0), chain(1, ("Relu", "Cos"))], 0.05)
    good, bad = found.models
    assert not good.estimate.partial
    assert bad.estimate.partial
    assert set(bad.unsupported.values()) == {"no cost for Cos"}
    assert found.failures


def test_no_later_run_or_estimate_knows_what_a_backend_lacks(turned, chain, tmp_path):
    """However precise the first run is: the store keeps what it found."""
    models = [chain(1, ("Relu", "Cos"))]
    for number, precision in enumerate((0.05, 0.2, 0.01)):
        turned(models, precision, force=True)
        again = turned(models, precision).models[0]
        assert again.estimate.partial
        (reason,) = set(again.unsupported.values())
        assert reason.startswith("no cost for Cos (earlier; "), number
        asked = Request.of("synthetic", threads=1)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            told = estimate(models, None, asked, store, "atlas").models[0]
        assert set(told.unsupported.values()) == {"no cost for Cos"}
        assert told.estimate.partial


@pytest.mark.parametrize("composer", ["segmented", "sequential"])
def test_what_one_cut_told_of_support_counts_for_others(turned, chain, tmp_path, composer):
    models, threads = [chain(1, ("Relu", "Cos")), chain(2)], 2
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        asked = Request.of("synthetic", threads=threads, runs=3)
        run(models, CutOptions.chosen(None, None, composer), asked, store, Observer())
        for other in (1, threads):
            request = Request.of("synthetic", threads=other)
            lacking, sound = estimate(models, None, request, store, "atlas").models
            assert set(lacking.unsupported.values()) == {"no cost for Cos"}
            assert lacking.estimate.partial
            assert not sound.missing
    for more in ({}, {"retry_failed": True}):
        lacking, sound = turned(models, 0.9, threads=threads, **more).models
        assert lacking.unsupported
        assert lacking.estimate.partial
        assert not sound.missing


def test_of_a_model_that_is_not_supported_nothing_is_predicted(turned, chain, tmp_path):
    """Not even where nothing tells which brick is to blame, until all of them are supported."""
    models = [chain(1), chain(2)]
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        request = Request.of("synthetic", threads=1)
        whole = request.key(turned(models, 0.9).models[0].cut.whole.signature, "model")
        store.record_failure(whole, "no cost for Cos", unsupported=True)
        told, other = estimate(models, None, request, store, "atlas").models
        assert set(told.unsupported.values()) == {"no cost for Cos"}
        assert told.estimate.value is None
        assert not other.missing
        assert not turned(models, 0.9, retry_failed=True).models[0].missing
        assert store.refused(request.setup, request.fingerprint) == {}


def test_of_an_interrupted_run_nothing_is_lost(turned, chain, tmp_path):
    class Interrupting(Observer):
        def __init__(self):
            self.steps = count()

        def advance(self, what=""):
            if next(self.steps) == 5:
                raise KeyboardInterrupt

    models = [chain(i) for i in range(4)]
    with pytest.raises(KeyboardInterrupt):
        turned(models, 0.05, observer=Interrupting())
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        kept = sum(len(each.values) for each in store.measurements())
    assert kept > 0
    assert turned(models, 0.05).adaptive.widest <= 0.05


def test_on_an_unknown_system_a_few_probes_come_first(turned, chain, tmp_path):
    models = [chain(i) for i in range(6)]
    probed = turned(models, 0.1).adaptive.probed
    assert 0 < probed.networks <= 10
    assert 0 < probed.seconds < 10
    assert probed.half_width < probed.half_width_before
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        kept = [each for each in store.measurements() if each.question.subject.kind == "brick"]
    assert len(kept) >= probed.networks
    # From then on it is known.
    assert turned([chain(7)], 0.1).adaptive.probed is None


def test_probes_take_no_more_than_their_share_of_the_budget(turned, chain, monkeypatch):
    shares = []

    def first(self, most, precision, left_s):
        shares.append((most, left_s))
        return self.signatures[:most]

    monkeypatch.setattr(Choice, "first", first)
    found = turned([chain(i) for i in range(6)], 0.06, budget_s=40)
    assert [most for most, _ in shares] == [5, 5]
    assert shares[0][1] == pytest.approx((40 - START_S) * 0.1 / 2, rel=0.1)
    assert shares[1][1] < 2 * shares[0][1]
    assert found.adaptive.probed.networks == 10
    # A long budget does not make them longer.
    shares.clear()
    turned([chain(20)], 0.06, budget_s=1e5, threads=2)
    assert shares[0][1] == 10 / 2


def test_a_precision_that_is_reached_needs_no_probes(turned, chain):
    assert turned([chain(0)], 0.95).adaptive.probed is None

"""The dial: from an estimate without any run to every brick timed, as far as precision asks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Self

import numpy as np

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.facts import Measurement, Question
from dlbricks_core.figures.figure import (
    FEWEST_QUIET,
    RESAMPLES,
    Figure,
    Measured,
    Placed,
    Predicted,
)
from dlbricks_core.figures.statistics import FloatArray, median
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.costs import START_S, Costs
from dlbricks_core.measure.planner import Uncertain, half_widths, steps
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.plugins import find, use
from dlbricks_core.predict import Contribution, Predictor
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import LEARNED_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import Cutting, cut_models
from dlbricks_core.workflows.knowledge import knowledge
from dlbricks_core.workflows.measuring import Outcome, Target, measure, open_worker
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import Dial, Offer, RunResult
from dlbricks_core.workflows.targets import not_within
from dlbricks_core.workflows.timing_order import run_targets

PREDICTOR = "atlas"

FINEST = 0.02
"""Finest precision of the dial. Below that it matters what a framework makes of a segment in its
place, and only bricks of what it executes tell."""

USUAL = 0.05
"""Precision that most users need: enough to choose between models, machines or backends, which
mostly differ by more; a machine itself differs by as much from one day to the next."""

RUNS = 4
"""Runs of each network: what is not known of all others is more than their scatter."""

_ENOUGH_S = 0.2
"""Seconds of a network's runs after which three of them are enough."""

_ERROR = 0.04
"""Relative error of what timing a network tells of its latency as a part of a model."""

_WHOLE_ERROR = 0.01
"""The same of a whole model, which is no part of anything: it scatters."""

_AHEAD = 0.95
"""Share of the precision that a batch is planned to reach: what is known then is not quite as was
planned."""

_BEYOND = 0.5
"""Share of the precision to which a batch goes on that would take less time than planning it."""

_BATCH = 0.5
"""Share of what is left of the budget that a batch may take; the next one is planned with what was
seen of the costs."""

_LEVELS = (0.2, 0.1, 0.05, 0.03, FINEST)
"""Precisions that more time may buy."""

_MOST_OFFERS = 2
_MOST_STEPS = 400
"""Networks that are planned at a time: planning must not take longer than timing."""


def dialled(precision: float | None, budget_s: float | None, *, compares: bool) -> float | None:
    """Precision to turn the dial to; ``None`` if every brick of what runs is to be timed.

    Args:
        precision: What the user asks for, if anything.
        budget_s: Seconds that the user gives, if any.
        compares: Whether the user wants to see how good estimates are, not estimates.
    """
    if precision is not None:
        return precision if precision > FINEST else None
    if compares:
        return None
    return USUAL if budget_s is None else FINEST


def dial(
    models: Sequence[CanonicalModel],
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool,
    predictor: str = PREDICTOR,
) -> RunResult:
    """Estimates models from what is known, and times what tells most until they are precise.

    Args:
        models: Models in canonical form.
        request: How to measure, how precisely, and for how long.
        store: Where measurements are kept.
        observer: Hears of progress.
        end_to_end: Whether to time the whole models as well, to compare. The estimates then rest
            on bricks alone.
        predictor: Name of the predictor.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    begin = perf_counter()
    cutting = cut_models(models, CutOptions.chosen(None, None, LEARNED_COMPOSER), request, observer)
    subjects = Subjects.of(cutting, request, end_to_end=end_to_end)
    with ExitStack() as opened:
        bench = Bench(subjects, store, observer, opened)
        bench.look_up()
        beliefs = Beliefs(predictor, subjects, bench, knowledge(store, request.setup.backend))
        end = begin + (request.budget_s or math.inf)
        reason = ""
        while not reason:
            observer.stage(f"Predicting {len(subjects.bricks)} bricks")
            asked = perf_counter()
            state = beliefs.state()
            now = perf_counter()
            # Predictors remember what they made of the atlas: the first prediction is no measure.
            reason = turn(state, bench, end - now, least_s=now - asked if bench.started else 0.0)
        offers = tuple(_offers(state, bench))
        bench.outcome.effort.add_loading("brick", perf_counter() - begin - bench.spent_s)
        if end_to_end:
            bench.time_wholes()
    found = Dial(
        tuple(map(float, state.half_widths)),
        timed=len(subjects.bricks.keys() & bench.known.keys()),
        wholes=len(subjects.wholes.keys() & bench.known.keys()),
        importing_s=bench.importing_s,
        offers=offers,
    )
    precision = subjects.precision
    lacking = [
        (half, cut.model.name)
        for half, cut in zip(found.half_widths, cutting.brickset.models, strict=True)
        if half > precision
    ]
    bench.outcome.notes = (*not_within(precision, reason, lacking), *bench.outcome.notes)
    plan = cutting.plan.believing(state.figures, bench.known)
    result = assemble(request, replace(cutting, plan=plan), bench.outcome)
    return replace(result, predictor=predictor, dial=found)


@dataclass(frozen=True)
class Subjects:
    """What could be timed.

    Attributes:
        cutting: The models and their bricks.
        request: How to measure.
        bricks: Bricks, by signature.
        wholes: Whole models that may be timed in place of their bricks, by signature.
        kept_apart: Signatures of whole models for comparison, which estimates must not rest on.
    """

    cutting: Cutting
    request: Request
    bricks: Mapping[str, Brick]
    wholes: Mapping[str, Brick]
    kept_apart: frozenset[str]

    @classmethod
    def of(cls, cutting: Cutting, request: Request, *, end_to_end: bool) -> Self:
        """Everything but opaque layers, and models that hold some."""
        every = cutting.brickset.bricks
        bricks = {signature: each for signature, each in every.items() if not each.opaque}
        wholes = {
            cut.whole.signature: cut.whole
            for cut in cutting.brickset.models
            if cut.counts.keys() <= bricks.keys() and cut.whole.signature not in bricks
        }
        if end_to_end:
            return cls(cutting, request, bricks, {}, frozenset(wholes))
        return cls(cutting, request, bricks, wholes, frozenset())

    @property
    def precision(self) -> float:
        """Half-width of all models' intervals to reach, relative to their latencies."""
        return self.request.precision or FINEST

    @property
    def every(self) -> Mapping[str, Brick]:
        """Bricks and whole models."""
        return {**self.bricks, **self.wholes}

    def target(self, signature: str) -> Target:
        """A network as what it is timed as."""
        if signature in self.bricks:
            return Target(self.bricks[signature], "brick")
        return Target(self.wholes[signature], "model")

    def key(self, signature: str) -> Question:
        """Question that the samples of a network answer."""
        return self.request.key(signature, self.target(signature).kind)


class Bench:
    """Times networks on one worker, which stays until the end.

    Args:
        subjects: What could be timed.
        store: Where measurements are kept.
        observer: Hears of progress.
        opened: Closes the worker.

    Attributes:
        subjects: What could be timed.
        outcome: Measurements and failures so far.
        known: Figures of measured networks, by signature.
        insisted: Signatures of whole models that were timed until they are precise.
        spent_s: Seconds of timing, starting the worker included.
        importing_s: Seconds of these until the framework was imported.
    """

    def __init__(
        self, subjects: Subjects, store: ResultStore, observer: Observer, opened: ExitStack
    ) -> None:
        self.outcome = Outcome()
        self.known: dict[str, Figure] = {}
        self.insisted: set[str] = set()
        self.spent_s = self.importing_s = 0.0
        self.subjects = subjects
        self.store = store
        self._observer = observer
        self._opened = opened
        self._worker: BackendWorker | None = None

    @property
    def start_s(self) -> float:
        """Seconds until the worker is ready."""
        return START_S if self._worker is None else 0.0

    @property
    def started(self) -> bool:
        """Whether something was timed."""
        return self._worker is not None

    def open(self, signature: str) -> bool:
        """Whether a network can be timed, and has not been."""
        return signature not in self.known and not self.failed(signature)

    def failed(self, signature: str) -> bool:
        """Whether timing a network failed."""
        return self.subjects.key(signature) in self.outcome.failures

    def look_up(self) -> None:
        """Takes what the store holds."""
        request = self.subjects.request
        if request.force:
            return
        found = self.store.get(map(self.subjects.key, self.subjects.every))
        for key, measurement in found.items():
            if not measurement.failure and len(measurement.values) >= FEWEST_QUIET:
                self.know(measurement)
            elif measurement.failure and not request.retry_failed:
                again = f"(earlier; {argument('retry_failed')} tries again)"
                self.outcome.failures[key] = f"{measurement.failure} {again}"
        self.outcome.reused = len(self.known)

    def time(self, signatures: Iterable[str]) -> None:
        """Times networks; the first time, all bricks are checked before."""
        begin = perf_counter()
        if self._worker is None:
            self._start()
        able = [s for s in signatures if self.open(s)]
        request = replace(
            self.subjects.request, precision=None, budget_s=None, runs=RUNS, enough_s=_ENOUGH_S
        )
        self._measure(map(self.subjects.target, able), request)
        self.spent_s += perf_counter() - begin

    def insist(self, wholes: AbstractSet[str], left_s: float) -> None:
        """Times whole models until each is as precise as asked for."""
        begin = perf_counter()
        if self._worker is None:
            self._start()
        request = replace(self.subjects.request, budget_s=left_s)
        self.insisted |= wholes
        self._measure(map(self.subjects.target, wholes), request)
        self.spent_s += perf_counter() - begin

    def time_wholes(self) -> None:
        """Times whole models, and their native forms, for comparison."""
        request, cutting = self.subjects.request, self.subjects.cutting
        targets = run_targets(cutting, end_to_end=True, backend=request.runs_natives)
        wholes = [each for each in targets if each.kind != "brick"]
        self._take(
            measure(wholes, request, self.store, self._observer, cutting, worker=self._worker)
        )

    def _measure(self, targets: Iterable[Target], request: Request) -> None:
        cutting = self.subjects.cutting
        found = measure(targets, request, self.store, self._observer, cutting, self._worker)
        # Whatever is timed for an estimate is a cost of the estimate.
        found.effort = found.effort.counted_as("brick")
        found.notes = ()
        self._take(found)

    def costs(self) -> Costs:
        """What timing costs, as far as it was seen."""
        every = self.subjects.every
        seen = self.outcome.measurements.values()
        return Costs.seen(
            (every[each.question.subject.signature].model, each)
            for each in seen
            if each.question.subject.signature in every
        )

    def _start(self) -> None:
        """Starts the worker, and asks which bricks the backend does not support."""
        begin = perf_counter()
        subjects = self.subjects
        self._worker = self._opened.enter_context(open_worker(subjects.request))
        self._worker.start()
        self.importing_s = perf_counter() - begin
        asked = {s: each.model for s, each in subjects.bricks.items() if self.open(s)}
        self._observer.stage(
            f"Checking {len(asked)} bricks against {subjects.request.backend.name}"
        )
        found = self._worker.check(asked)
        unsupported = {subjects.key(s): why for s, why in found.unsupported.items()}
        failed = {subjects.key(s): why for s, why in found.failed.items()}
        self.outcome.unsupported |= unsupported
        self.outcome.failures |= {**failed, **unsupported}

    def know(self, measurement: Measurement) -> None:
        """Takes note of a measurement."""
        key = measurement.question
        self.outcome.measurements[key] = measurement
        if key.subject.signature in self.subjects.every:
            figure = Measured.of(measurement, self.subjects.request.protocol)
            self.known[key.subject.signature] = figure

    def _take(self, found: Outcome) -> None:
        """Adds what was measured to the outcome."""
        for measurement in found.measurements.values():
            self.know(measurement)
        outcome = self.outcome
        outcome.failures |= found.failures
        outcome.unsupported |= found.unsupported
        outcome.anew = outcome.anew | found.anew
        outcome.effort = outcome.effort + found.effort
        outcome.warnings = tuple(dict.fromkeys((*outcome.warnings, *found.warnings)))
        outcome.notes = (*outcome.notes, *found.notes)


@dataclass(frozen=True, eq=False)
class State:
    """What is believed at a stop of the dial.

    Attributes:
        figures: Figures of bricks as parts of a model, and of measured whole models, by signature.
        sums: Draws of each model's latency in milliseconds: shape (draws, models).
        half_widths: Half-width of each model's 90% interval, relative to its latency.
    """

    figures: Mapping[str, Predicted | Placed]
    sums: FloatArray
    half_widths: FloatArray

    @property
    def widest(self) -> float:
        """The largest half-width; 0 if there are no models."""
        return float(self.half_widths.max(initial=0.0))


class Beliefs:
    """What a predictor makes of all that is known.

    Args:
        predictor: Name of the predictor.
        subjects: What could be timed.
        bench: What is known of it.
        atlas: What else was measured, here and elsewhere.
    """

    def __init__(
        self, predictor: str, subjects: Subjects, bench: Bench, atlas: Sequence[Contribution]
    ) -> None:
        self._plugin = find("predictor", predictor, Predictor)
        self._predictor: Predictor = use(self._plugin, self._plugin.loaded)
        self.subjects = subjects
        self._bench = bench
        # What the store holds of the networks themselves is known, or not to be known.
        apart = subjects.kept_apart | bench.known.keys()
        left = (_without(each, apart, subjects.request) for each in atlas)
        self._atlas = tuple(each for each in left if len(each))

    def state(self) -> State:
        """What is believed now."""
        figures = self._figures()
        models = self.subjects.cutting.brickset.models
        sums = np.stack([_drawn(cut, figures) for cut in models], axis=1)
        return State(figures, sums, half_widths(sums))

    def _figures(self) -> Mapping[str, Predicted | Placed]:
        subjects, known = self.subjects, self._bench.known
        asked = {
            s: each
            for s, each in subjects.every.items()
            if s in known or (s in subjects.bricks and self._bench.open(s))
        }
        request = subjects.request
        call_ms = median([each.overhead for each in known.values()]) if known else 0.0
        found = use(
            self._plugin,
            partial(
                self._predictor.predict, asked, request.setup, request.target, known, self._atlas
            ),
        )
        wholes = {cut.whole.signature for cut in subjects.cutting.brickset.models}
        figures: dict[str, Predicted | Placed] = {}
        for signature, each in found.items():
            if signature not in known:
                figures[signature] = _with_call(each, float(call_ms))
                continue
            # A whole model hands over its inputs and outputs, as it does when it is timed.
            placed = _as_measured(known[signature]) if signature in wholes else each
            figures[signature] = Placed(known[signature], _with_call(placed, float(call_ms)))
        return figures


def _without(
    contribution: Contribution, signatures: AbstractSet[str], request: Request
) -> Contribution:
    """A store's own contribution without some networks, if it is of what is asked.

    What comes with the package is of other sessions: it counts besides.
    """
    setup = contribution.setup
    same = (setup.backend, setup.threads) == (request.setup.backend, request.setup.threads)
    elsewhere = contribution.system.fingerprint != request.fingerprint
    if not same or elsewhere or contribution.pulls.size:
        return contribution
    return contribution.only(
        [i for i, s in enumerate(contribution.signatures) if s not in signatures]
    )


def _with_call(figure: Predicted, call_ms: float) -> Predicted:
    """A figure with the cost of a call, as measured ones have it; a model pays it once."""
    if figure.overhead:
        return figure
    return Predicted(figure.expected + call_ms, figure.draws + call_ms, call_ms)


def _as_measured(figure: Figure) -> Predicted:
    return Predicted(figure.value, np.maximum(figure.plausible, 0.0), figure.overhead)


def _drawn(cut: CutModel, figures: Mapping[str, Predicted | Placed]) -> FloatArray:
    """Draws of a model's latency: of the whole if that was measured, or of the sum of its bricks.

    Bricks without a figure do not count.
    """
    if cut.whole.signature in figures:
        return figures[cut.whole.signature].plausible
    known = {s: figures[s] for s in cut.counts if s in figures}
    total = np.full(RESAMPLES, max((each.overhead for each in known.values()), default=0.0))
    for signature, each in known.items():
        total += cut.counts[signature] * np.maximum(each.plausible - each.overhead, 0.0)
    return total


@dataclass(frozen=True, eq=False)
class Choice:
    """Networks that could be timed, and what that would tell.

    Attributes:
        signatures: Signatures of the networks.
        uncertain: What is known of them and of the models.
        half_widths: Half-width of each model's 90% interval, relative to its latency.
        wholes: Signature of each model as a whole.
    """

    signatures: Sequence[str]
    uncertain: Uncertain
    half_widths: FloatArray
    wholes: Sequence[str]

    @classmethod
    def of(cls, state: State, bench: Bench) -> Self:
        """All networks that were not timed, bricks and whole models."""
        subjects, costs = bench.subjects, bench.costs()
        models = subjects.cutting.brickset.models
        bricks = [s for s in subjects.bricks if s in state.figures and bench.open(s)]
        wholes = [s for s in subjects.wholes if bench.open(s)]
        place = {cut.whole.signature: i for i, cut in enumerate(models)}
        draws = [state.figures[s].plausible for s in bricks]
        draws += [state.sums[:, place[s]] for s in wholes]
        networks = np.array(draws).reshape(-1, RESAMPLES).T
        means = networks.mean(axis=0)
        signatures = [*bricks, *wholes]
        seconds = [
            costs.seconds(subjects.every[s].model, ms, RUNS)
            for s, ms in zip(signatures, means, strict=True)
        ]
        counts = [
            [cut.counts.get(s, float(cut.whole.signature == s)) for s in signatures]
            for cut in models
        ]
        errors = np.array([_ERROR] * len(bricks) + [_WHOLE_ERROR] * len(wholes))
        uncertain = Uncertain(
            state.sums,
            networks,
            np.array(counts, dtype=np.float64).reshape(len(models), len(signatures)),
            np.array(seconds),
            errors * means,
        )
        wholes_of = [cut.whole.signature for cut in models]
        return cls(signatures, uncertain, state.half_widths, wholes_of)

    def batch(self, precision: float, left_s: float, least_s: float) -> list[str]:
        """Networks to time next: until the precision is reached, or a share of the time is used.

        Args:
            precision: Half-width of all models' intervals to reach, relative to their latencies.
            left_s: Seconds that are left.
            least_s: Seconds that a batch takes at least: the next one costs a prediction.
        """
        able = np.flatnonzero(self.uncertain.seconds <= left_s)
        wholes = self._instead(precision)
        chosen: list[str] = []
        suffices = False
        for step in islice(steps(self.uncertain.only(able), precision * _BEYOND), _MOST_STEPS):
            if chosen and step.seconds > min(_BATCH * left_s, wholes.seconds):
                break
            chosen.append(self.signatures[able[step.network]])
            suffices |= step.half_widths.max() <= precision
            if suffices and step.seconds >= least_s:
                break
        # One by one, bricks may tell more in each second than a whole model, and all of them less.
        return [*wholes.signatures] if not suffices and wholes.seconds <= left_s else chosen

    def offer(self, precision: float) -> Offer | None:
        """Seconds until the precision is reached; ``None`` if nothing is known to reach it."""
        seconds = self._instead(precision).seconds
        for step in islice(steps(self.uncertain, precision), _MOST_STEPS):
            if step.seconds > seconds:
                break
            if step.half_widths.max() <= precision:
                seconds = step.seconds
                break
        return Offer(precision, seconds) if math.isfinite(seconds) else None

    def _instead(self, precision: float) -> _Wholes:
        """The models that lack precision as wholes."""
        lacking = [s for s, half in zip(self.wholes, self.half_widths, strict=True)
                   if half > precision]  # fmt: skip
        if not {*lacking} <= {*self.signatures}:
            return _Wholes((), math.inf)
        places = [self.signatures.index(s) for s in dict.fromkeys(lacking)]
        return _Wholes(tuple(dict.fromkeys(lacking)), float(self.uncertain.seconds[places].sum()))


@dataclass(frozen=True)
class _Wholes:
    """Whole models that may be timed in place of bricks, and the seconds that it takes."""

    signatures: tuple[str, ...]
    seconds: float


def turn(state: State, bench: Bench, left_s: float, least_s: float = 0.0) -> str:
    """Times the next batch. Returns why there is none, if that is so.

    Args:
        state: What is believed now.
        bench: Times networks.
        left_s: Seconds that are left of the budget.
        least_s: Seconds that a batch takes at least.
    """
    subjects = bench.subjects
    if state.widest <= subjects.precision:
        return "it is reached"
    spare_s = left_s - bench.start_s
    if spare_s <= 0:
        return f"the budget of {subjects.request.budget_s:g} s ended first"
    if batch := Choice.of(state, bench).batch(_AHEAD * subjects.precision, spare_s, least_s):
        bench.time(batch)
        return ""
    models = subjects.cutting.brickset.models
    lacking = np.flatnonzero(state.half_widths > subjects.precision)
    wholes = {models[i].whole.signature for i in lacking}
    if (
        wholes := {s for s in wholes if s in subjects.wholes and not bench.failed(s)}
        - bench.insisted
    ):
        bench.insist(wholes, spare_s)
        return ""
    return "nothing tells more"


def _offers(state: State, bench: Bench) -> Iterator[Offer]:
    """What more time would buy, the cheapest first."""
    precision = bench.subjects.precision
    wanted = min(precision, state.widest)
    finer = [each for each in (precision, *_LEVELS) if each < state.widest]
    levels = sorted({each for each in finer if each == precision or each < wanted}, reverse=True)
    choice = Choice.of(state, bench)
    for level in levels[:_MOST_OFFERS]:
        found = choice.offer(level)
        if found is not None:
            yield replace(found, seconds=found.seconds + bench.start_s)

"""The adaptive loop: predicts, and times the most informative networks, until it is precise."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic

import numpy as np

from dlbricks_core.estimation.adaptive.acquisition import Choice
from dlbricks_core.estimation.adaptive.drift import drift, scatter_within
from dlbricks_core.estimation.adaptive.posterior import Posterior, State
from dlbricks_core.estimation.adaptive.probing import Probing, probes_for
from dlbricks_core.estimation.adaptive.timings import RUNS, Candidates, TimingWorker
from dlbricks_core.estimation.conditioned import training_data
from dlbricks_core.estimation.defaults import FINEST
from dlbricks_core.estimation.results import AdaptiveRun, Offer
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import note
from dlbricks_core.figures.precision import MOST, NORMAL_HALF_WIDTH
from dlbricks_core.measure.costs import QUICK_START_S
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.schedule import not_within
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

_LEVELS = (0.2, 0.1, 0.07, FINEST)
"""Precisions offered for more time."""

_MOST_OFFERS = 2
"""Maximum number of precisions that are offered."""


def adapt(
    cutting: Cutting,
    request: Request,
    store: ResultStore,
    observer: Observer,
    opened: ExitStack,
    begin: float,
    *,
    compares: bool,
) -> tuple[Cutting, Ledger, AdaptiveRun, BackendWorker | None]:
    """Times the most informative networks until estimates of models are precise.

    Args:
        cutting: The models, cut for the composer of adaptive measuring.
        request: How networks are measured, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        opened: Closes the worker.
        begin: Time from which the budget counts, in seconds of ``monotonic``.
        compares: Whether whole models are timed later, for comparison. The estimates then rest on
            bricks alone.

    Returns:
        The models with a plan of their figures, what was measured, the progress, and the worker,
        ``None`` if nothing was timed.

    Raises:
        PluginError: If the predictor fails.
    """
    atlas = training_data(PREDICTOR, store, request.setup.backend)
    probes = probes_for(request, atlas)
    subjects = Candidates.of(cutting, end_to_end=compares, probes=probes)
    bench = TimingWorker(subjects, request, store, observer, opened)
    bench.look_up()
    bench.check_doubtful()
    beliefs = Posterior(PREDICTOR, bench, atlas)
    probing = Probing(bench)
    end = begin + (request.budget_s or math.inf)
    reason: Note | None = None
    while reason is None:
        observer.stage(f"Predicting {len(subjects.bricks)} bricks")
        asked = monotonic()
        state = beliefs.state()
        now = monotonic()
        left_s = end + bench.ledger.waited_s - now
        if probing.turn(state, left_s):
            continue
        # Predictors cache their work on the atlas, so later predictions are faster than the first.
        reason = turn(state, bench, left_s, least_s=now - asked if bench.started else 0.0)
    predicting_s = monotonic() - begin - bench.spent_s
    progress = AdaptiveRun(
        tuple(map(float, state.half_widths)),
        timed=len(subjects.bricks.keys() & bench.known.keys()),
        wholes=len(subjects.wholes.keys() & bench.known.keys()),
        importing_s=bench.importing_s,
        offers=tuple(_offers(state, bench)),
        probed=probing.found(),
    )
    names = [cut.model.name for cut in cutting.brickset.models]
    reached = zip(progress.half_widths, names, strict=True)
    lacking = [(half, name) for half, name in reached if half > bench.precision]
    ledger = bench.ledger.noting(first=not_within(bench.precision, reason, lacking))
    effort = ledger.effort.with_loading("brick", predicting_s)
    plan = cutting.plan.believing(state.figures, bench.known)
    return replace(cutting, plan=plan), replace(ledger, effort=effort), progress, bench.worker


def turn(state: State, bench: TimingWorker, left_s: float, least_s: float = 0.0) -> Note | None:
    """Times the next batch. Returns the reason if there is none, otherwise ``None``.

    Args:
        state: The present posterior.
        bench: The bench that times networks.
        left_s: Remaining seconds of the budget.
        least_s: Minimum seconds of a batch.
    """
    if state.widest <= bench.precision:
        return note("precision-reached")
    # A start may take longer than the minimum. The batch is then timed after the end of the budget,
    # because the user has waited for the start anyway.
    spare_s = left_s if bench.started else left_s - QUICK_START_S
    if spare_s <= 0:
        budget_s, backend = bench.request.budget_s, bench.request.setup.backend
        if bench.started:
            return note("budget-ended", budget_s=budget_s)
        return note("budget-ended-at-start", budget_s=budget_s, backend=backend)
    if batch := Choice.of(state, bench).batch(bench.precision, spare_s, least_s):
        bench.time(batch)
        return None
    wholes = _insistent(state, bench)
    seconds = _seconds_of(wholes, state, bench)
    if able := {s for s in wholes if seconds[s] <= spare_s}:
        bench.insist(able, scatter_within(bench.precision), spare_s)
        return None
    if wholes:
        return note("budget-too-small", budget_s=bench.request.budget_s)
    return note("no-timing-narrows")


def _insistent(state: State, bench: TimingWorker) -> set[str]:
    """Whole models that lack precision, and may be timed until they are precise."""
    subjects = bench.subjects
    models = subjects.cutting.brickset.models
    lacking = np.flatnonzero(state.half_widths > bench.precision)
    wholes = {models[i].whole.signature for i in lacking}
    return {s for s in wholes if s in subjects.every and not bench.failed(s)} - bench.insisted


def _seconds_of(wholes: Collection[str], state: State, bench: TimingWorker) -> Mapping[str, float]:
    """Seconds to load each whole model and to run it a few times."""
    subjects, costs, means = bench.subjects, bench.costs(), state.sums.mean(axis=0)
    models = subjects.cutting.brickset.models
    ms = {cut.whole.signature: mean for cut, mean in zip(models, means, strict=True)}
    return {s: costs.seconds(subjects.every[s].model, float(ms[s]), RUNS) for s in wholes}


def _offers(state: State, bench: TimingWorker) -> Iterator[Offer]:
    """Precisions that more time would reach, the cheapest first."""
    precision = bench.precision
    wanted = min(precision, state.widest)
    finer = [each for each in (precision, *_LEVELS) if each < state.widest]
    levels = sorted({each for each in finer if each == precision or each < wanted}, reverse=True)
    choice = Choice.of(state, bench)
    for level in levels[:_MOST_OFFERS]:
        found = choice.offer(level)
        again_s = _seconds_of_runs(level, state, bench)
        if found is not None and math.isfinite(again_s):
            yield replace(found, seconds=found.seconds + again_s + bench.start_s)


def _seconds_of_runs(level: float, state: State, bench: TimingWorker) -> float:
    """Seconds of further runs until timed whole models scatter little enough for a precision.

    Scatter falls with the root of the number of runs. The sum is infinite if a model would take
    more runs than a network may have.
    """
    subjects, costs, seconds = bench.subjects, bench.costs(), 0.0
    wanted, drifted = scatter_within(level), NORMAL_HALF_WIDTH * drift().session
    for half, cut in zip(state.half_widths, subjects.cutting.brickset.models, strict=True):
        signature = cut.whole.signature
        if half <= level or not state.measured(signature):
            continue
        figure = bench.known[signature]
        runs = len(figure.samples)
        more = math.ceil(runs * (half**2 - drifted**2) / wanted**2) - runs
        if more <= 0 or runs + more > MOST:
            return math.inf
        seconds += costs.seconds(subjects.every[signature].model, figure.value, more)
    return seconds

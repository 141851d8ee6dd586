"""The loop of the dial: predicts, and times the most informative networks, until it is precise."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter

import numpy as np

from dlbricks_core.figures.precision import MOST, NORMAL_HALF_WIDTH
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.costs import QUICK_START_S
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import LEARNED_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.dial.beliefs import DRIFT, Beliefs, State, scatter_within
from dlbricks_core.workflows.dial.bench import RUNS, Bench
from dlbricks_core.workflows.dial.choice import Choice
from dlbricks_core.workflows.dial.precisions import FINEST
from dlbricks_core.workflows.dial.probing import Probing, probes_for
from dlbricks_core.workflows.dial.subjects import Subjects
from dlbricks_core.workflows.knowledge import knowledge
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.oracle import PREDICTOR
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import Dial, Offer, RunResult
from dlbricks_core.workflows.targets import not_within

_LEVELS = (0.2, 0.1, 0.07, FINEST)
"""Precisions offered for more time."""

_MOST_OFFERS = 2


def dial(
    models: Sequence[CanonicalModel],
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool,
    predictor: str = PREDICTOR,
) -> RunResult:
    """Estimates models, and times the most informative networks until the estimates are precise.

    Args:
        models: Models in canonical form.
        request: How networks are measured, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        end_to_end: Whether to time the whole models as well, for comparison. The estimates then
            rest on bricks alone.
        predictor: Name of the predictor.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    begin = perf_counter()
    cutting = cut_models(models, CutOptions.chosen(None, None, LEARNED_COMPOSER), request, observer)
    atlas = knowledge(store, request.setup.backend)
    probes = probes_for(request, atlas)
    subjects = Subjects.of(cutting, request, end_to_end=end_to_end, probes=probes)
    with ExitStack() as opened:
        bench = Bench(subjects, store, observer, opened)
        bench.look_up()
        bench.check_doubtful()
        beliefs = Beliefs(predictor, subjects, bench, atlas)
        probing = Probing(bench)
        end = begin + (request.budget_s or math.inf)
        reason = ""
        while not reason:
            observer.stage(f"Predicting {len(subjects.bricks)} bricks")
            asked = perf_counter()
            state = beliefs.state()
            now = perf_counter()
            if probing.turn(state, end - now):
                continue
            # Predictors cache their work on the atlas, so the first prediction is no measure of the
            # next.
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
        probed=probing.found(),
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


def turn(state: State, bench: Bench, left_s: float, least_s: float = 0.0) -> str:
    """Times the next batch. Returns the reason if there is none, otherwise an empty text.

    Args:
        state: The present beliefs.
        bench: The bench that times networks.
        left_s: Remaining seconds of the budget.
        least_s: Minimum seconds of a batch.
    """
    subjects = bench.subjects
    if state.widest <= subjects.precision:
        return "it is reached"
    # A start may take longer than at best. The batch is then timed after the end of the budget,
    # because the user has waited for the start anyway.
    spare_s = left_s if bench.started else left_s - QUICK_START_S
    if spare_s <= 0:
        ended = f"the budget of {subjects.request.budget_s:g} s ended first"
        name = subjects.request.setup.backend
        return ended if bench.started else f"{ended}, without time to start {name}"
    if batch := Choice.of(state, bench).batch(subjects.precision, spare_s, least_s):
        bench.time(batch)
        return ""
    wholes = _insistent(state, bench)
    seconds = _seconds_of(wholes, state, bench)
    if able := {s for s in wholes if seconds[s] <= spare_s}:
        bench.insist(able, scatter_within(subjects.precision), spare_s)
        return ""
    if wholes:
        return f"no further timing fits into the budget of {subjects.request.budget_s:g} s"
    return "no further timing narrows it"


def _insistent(state: State, bench: Bench) -> set[str]:
    """Whole models that lack precision, and may be timed until scatter leaves them precise."""
    subjects = bench.subjects
    models = subjects.cutting.brickset.models
    lacking = np.flatnonzero(state.half_widths > subjects.precision)
    wholes = {models[i].whole.signature for i in lacking}
    return {s for s in wholes if s in subjects.every and not bench.failed(s)} - bench.insisted


def _seconds_of(wholes: Collection[str], state: State, bench: Bench) -> Mapping[str, float]:
    """Seconds to load each whole model and to run it a few times."""
    subjects, costs, means = bench.subjects, bench.costs(), state.sums.mean(axis=0)
    models = subjects.cutting.brickset.models
    ms = {cut.whole.signature: mean for cut, mean in zip(models, means, strict=True)}
    return {s: costs.seconds(subjects.every[s].model, float(ms[s]), RUNS) for s in wholes}


def _offers(state: State, bench: Bench) -> Iterator[Offer]:
    """Precisions that more time would reach, the cheapest first."""
    precision = bench.subjects.precision
    wanted = min(precision, state.widest)
    finer = [each for each in (precision, *_LEVELS) if each < state.widest]
    levels = sorted({each for each in finer if each == precision or each < wanted}, reverse=True)
    choice = Choice.of(state, bench)
    for level in levels[:_MOST_OFFERS]:
        found = choice.offer(level)
        again_s = _seconds_of_runs(level, state, bench)
        if found is not None and math.isfinite(again_s):
            yield replace(found, seconds=found.seconds + again_s + bench.start_s)


def _seconds_of_runs(level: float, state: State, bench: Bench) -> float:
    """Seconds of further runs until timed whole models scatter little enough for a precision.

    Scatter falls with the root of the number of runs. The sum is infinite if a model would take
    more runs than a network may have.
    """
    subjects, costs, seconds = bench.subjects, bench.costs(), 0.0
    wanted, drift = scatter_within(level), NORMAL_HALF_WIDTH * DRIFT
    for half, cut in zip(state.half_widths, subjects.cutting.brickset.models, strict=True):
        signature = cut.whole.signature
        if half <= level or not state.measured(signature):
            continue
        figure = bench.known[signature]
        runs = len(figure.samples)
        more = math.ceil(runs * (half**2 - drift**2) / wanted**2) - runs
        if more <= 0 or runs + more > MOST:
            return math.inf
        seconds += costs.seconds(subjects.every[signature].model, figure.value, more)
    return seconds

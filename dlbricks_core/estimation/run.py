"""Estimates of models from as few runs as they need, or from all of their bricks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic

from dlbricks_core.backends.burst import Burst
from dlbricks_core.compose import Plan
from dlbricks_core.compose.options import DEFAULT_COMPOSER, LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive.ahead import Ahead
from dlbricks_core.estimation.adaptive.model_figures import ModelFigures
from dlbricks_core.estimation.adaptive.model_loop import ModelLoop
from dlbricks_core.estimation.adaptive.wholes import WholeRuns
from dlbricks_core.estimation.assemble import assemble, joined
from dlbricks_core.estimation.defaults import FINEST, USUAL
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import Note
from dlbricks_core.figures.precision import BUDGET_S
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import measurement_lock
from dlbricks_core.measure.cutting import Cutting, cut_models, run_targets
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.predict.installed import is_installed
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import PEAKS

_MOST = 0.5
"""Least share of a model's latency in profiled bricks beyond which they are better than bricks that
were timed alone."""


def run(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = True,
    ahead: Ahead | None = None,
) -> RunResult:
    """Estimates models from their bricks, and times bricks that the store lacks.

    In the hot condition whole models run, as few as the requested precision needs. With the
    composer of the dial, as few bricks as it needs are timed alone, and with any other all bricks.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose; in the hot condition the composer of the dial.
        request: How networks are measured.
        store: Store of the measurements.
        observer: Receives the progress.
        end_to_end: Whether to time the whole models as well, for comparison.
        ahead: Process that was begun before; ``None`` if there is none.
    """
    begin, by_runs = monotonic(), None
    if request.condition == "hot":
        cutting = cut_models(models, cut_options, request, observer, store)
        by_runs, rest = run_wholes(
            cutting, request, store, observer, begin, ahead, compares=end_to_end
        )
        if not rest:
            return by_runs
        # Bricks of the rest are timed, in what is left of the time.
        left_s = BUDGET_S
        if request.budget_s is not None:
            left_s = max(begin + request.budget_s - monotonic(), 1e-3)
        request = replace(request, condition="cold", budget_s=left_s)
        begin, models, end_to_end = monotonic(), [models[i] for i in rest], False
    precision = request.precision if cut_options.composer == LEARNED_COMPOSER else None
    # As precise as that is only a sum over all bricks of what the backend makes of the models.
    # Nor does anything but a predictor tell of the bricks that are not timed.
    fine = precision is not None and (precision <= FINEST or not is_installed())
    if fine:
        cut_options = CutOptions.chosen(None, None, DEFAULT_COMPOSER)
    cutting = cut_models(models, cut_options, request, observer, store)
    by_bricks = run_bricks(
        cutting,
        request,
        store,
        observer,
        begin,
        end_to_end=end_to_end,
        few=precision is not None and not fine,
        notes=() if precision is None or end_to_end else cutting.memory_notes,
    )
    if by_runs is None:
        return by_bricks
    if not by_runs.models:
        return by_bricks.noting(first=by_runs.ledger.notes)
    able = tuple(i for i in range(len(models) + len(by_runs.models)) if i not in rest)
    return joined({able: by_runs, rest: by_bricks})


def run_wholes(
    cutting: Cutting,
    request: Request,
    store: ResultStore,
    observer: Observer,
    begin: float,
    ahead: Ahead | None,
    *,
    compares: bool,
) -> tuple[RunResult, tuple[int, ...]]:
    """Estimates models from runs of some of them, and predictions.

    A model that runs is measured, and the framework's profile gives the latencies of its bricks.
    Models that share these bricks need no run of their own.

    Args:
        cutting: The models and their bricks.
        request: How models run, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        begin: When the run began, in seconds of ``monotonic``.
        ahead: Process that was begun before; ``None`` if there is none.
        compares: Whether the other models run as well, for comparison.

    Returns:
        The result, and positions of models that it lacks, because neither they nor models with
        their bricks can run. If the time is over, it has predictions of these, too.
    """
    end = begin + (request.budget_s or math.inf)
    with ExitStack() as opened:
        opened.enter_context(measurement_lock(observer.note))
        figures = ModelFigures(
            cutting, request, store, observer, opened, PREDICTOR, apart=compares, ahead=ahead
        )
        loop = ModelLoop(figures, store, observer, compares=compares)
        left = loop.run_most_informative(end)
        unable = tuple(left) if monotonic() < end else ()
        able = [i for i in range(len(cutting.brickset.models)) if i not in unable]
        return loop.result(able, begin), unable


def run_bricks(
    cutting: Cutting,
    request: Request,
    store: ResultStore,
    observer: Observer,
    begin: float | None = None,
    *,
    end_to_end: bool = True,
    few: bool = False,
    notes: Iterable[Note] = (),
) -> RunResult:
    """Estimates models from bricks that are timed alone. The models are cut already.

    Args:
        cutting: The models and their bricks.
        request: How networks are measured.
        store: Store of the measurements.
        observer: Receives the progress.
        begin: When the run began, in seconds of ``monotonic``; ``None`` for now.
        end_to_end: Whether to time the whole models as well, for comparison.
        few: Whether to time only as many bricks as the precision needs. The models are then cut
            for the composer of the dial.
        notes: Further remarks.
    """
    begin = monotonic() if begin is None else begin
    targets = run_targets(cutting, end_to_end=end_to_end, backend=request.runs_natives)
    with ExitStack() as opened:
        ledger, progress, worker = Ledger(), None, None
        if few:
            # Few models need this code, and every command waits for what it imports.
            from dlbricks_core.estimation.adaptive.brick_loop import adapt

            cutting, ledger, progress, worker = adapt(
                cutting, request, store, observer, opened, begin, compares=end_to_end
            )
            targets = [each for each in targets if each.kind != "brick"]
        if targets:
            ledger |= measure(targets, request, store, observer, cutting, worker)
    return assemble(
        request,
        cutting,
        ledger.noting(*notes),
        predictor=PREDICTOR if few else "",
        adaptive=progress,
        peak_bytes=PEAKS.since(begin),
    )


def _cut(models: Sequence[CanonicalModel], request: Request, observer: Observer) -> Cutting:
    """Models cut into the bricks of which profiles of whole runs tell."""
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    return cut_models(models, options, request, observer)


def _part(cutting: Cutting, positions: Sequence[int]) -> Cutting:
    """Some of the models, and a plan for their bricks alone."""
    part = cutting.only(positions)
    return replace(part, plan=Plan.all_timed(part.brickset.bricks))


def recalled(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, predictor: str
) -> tuple[Sequence[int], RunResult | None]:
    """Estimates of models that ran before, or share bricks with such. Runs nothing.

    Args:
        models: Models in canonical form.
        request: How networks are measured.
        store: Store of the measurements, which has some of whole models.
        predictor: Name of the predictor of bricks that no run has shown.

    Returns:
        Positions of the models that ran, or have most of their time in bricks that ran; and their
        results, ``None`` without such models.
    """
    # Where nothing runs, no precision is to be reached.
    request = replace(request, precision=None)
    observer = Observer()
    with ExitStack() as opened:
        every = _cut(models, request, observer)
        figures = ModelFigures(every, request, store, observer, opened, predictor)
        positions = figures.known_by_runs(_MOST)
        if not positions:
            return (), None
        part = _part(every, positions)
        figures = ModelFigures(part, request, store, observer, opened, predictor)
        loop = ModelLoop(figures, store, observer, compares=False)
        return positions, loop.result(range(len(positions)))


def harvest(
    model: CanonicalModel,
    samples_ms: Sequence[float],
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> int:
    """Stores latencies of a model from the user's program, and latencies of its bricks.

    Args:
        model: Model in canonical form.
        samples_ms: Latency of each run in milliseconds. The first of several is left out: it warms
            up.
        request: Backend and threads of the user's program.
        store: Store of the measurements.
        observer: Receives the progress.

    Returns:
        Number of bricks whose latencies were kept.

    Raises:
        DLBricksError: If the framework cannot profile the model.
    """
    (cut,) = _cut([model], request, observer).brickset.models
    with ExitStack() as opened:
        opened.enter_context(measurement_lock(observer.note))
        runs = WholeRuns(request.hot, store, observer, opened)
        runs.take(cut, samples_ms[1:] or samples_ms, Burst.within(USUAL))
        return len(runs.bricks())

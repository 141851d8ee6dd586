"""The loop: runs whole models where that is cheapest, until estimates are precise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter

from dlbricks_core.figures.precision import BUDGET_S
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.turns import turn
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.adaptive.adapting import Adapting, half_width
from dlbricks_core.workflows.adaptive.bricks import from_bricks
from dlbricks_core.workflows.composing import (
    LEARNED_COMPOSER,
    CutOptions,
)
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.joining import joined, part_of
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.oracle import PREDICTOR
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult

_MOST = 0.5
"""Least share of a model's latency in profiled bricks beyond which they are better than bricks that
were timed alone."""


def adaptive(
    models: Sequence[CanonicalModel],
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool,
    predictor: str = PREDICTOR,
) -> RunResult:
    """Estimates models from runs of some of them, and predictions of the rest.

    A model that runs is measured, and the framework's profile tells the latencies of its bricks.
    Models that share these bricks need no run of their own.

    Args:
        models: Models in canonical form.
        request: How networks are measured, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        end_to_end: Whether to run every model in the end, for comparison.
        predictor: Name of the predictor.
    """
    begin = perf_counter()
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    cutting = cut_models(models, options, request, observer)
    end = begin + (request.budget_s or math.inf)
    with ExitStack() as opened:
        opened.enter_context(turn(observer.note))
        adapting = Adapting(
            cutting, request, store, observer, opened, predictor, compares=end_to_end
        )
        adapting.run_most_informative(end)
        # Without time for their bricks, models that cannot run are predicted.
        unable = adapting.unable if perf_counter() < end else []
        result = adapting.result(perf_counter() - begin, without=unable)
        if end_to_end:
            result = adapting.compared(result)
    if not unable:
        return result
    able = tuple(i for i in range(len(models)) if i not in unable)
    left_s = BUDGET_S if math.isinf(end) else max(end - perf_counter(), 1e-3)
    parts = [models[i] for i in unable]
    alone = from_bricks(parts, replace(request, budget_s=left_s), store, observer)
    if not able:
        notes = (*adapting.notes, *alone.outcome.notes)
        return replace(alone, outcome=replace(alone.outcome, notes=notes))
    return _together({able: part_of(result, able), tuple(unable): alone})


def _together(parts: Mapping[tuple[int, ...], RunResult]) -> RunResult:
    """Results for models that ran or share bricks with those, and for models timed by bricks."""
    whole, bricks = parts.values()
    found = joined(parts)
    assert whole.dial is not None
    progress = replace(
        whole.dial,
        half_widths=tuple(half_width(each.estimate) for each in found.models),
        timed=whole.dial.timed + sum(each.origin is not None for each in bricks.bricks),
    )
    return replace(found, dial=progress)


def recalled(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, predictor: str
) -> tuple[Sequence[int], RunResult | None]:
    """Estimates of models that ran before, or share bricks with such. Runs nothing.

    Args:
        models: Models in canonical form.
        request: How networks are measured.
        store: Store of the measurements.
        predictor: Name of the predictor of bricks that no run has shown.

    Returns:
        Positions of the models that ran, or have most of their time in bricks that did; and their
        results, ``None`` if there are no such models.
    """
    if (request.hot.setup, request.fingerprint) not in store.setups(request.setup.backend):
        return (), None
    observer = Observer()
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    with ExitStack() as opened:
        every = cut_models(models, options, request, observer)
        adapting = Adapting(every, request, store, observer, opened, predictor, compares=False)
        positions = adapting.known_by_runs(_MOST)
        if not positions:
            return (), None
        part = cut_models([models[i] for i in positions], options, request, observer)
        found = Adapting(part, request, store, observer, opened, predictor, compares=False)
        return positions, found.result()

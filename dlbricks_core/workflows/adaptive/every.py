"""Runs of every model, for commands that compare."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.turns import turn
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.adaptive.adapting import Adapting
from dlbricks_core.workflows.composing import LEARNED_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.oracle import PREDICTOR
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult


def run_each(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, observer: Observer
) -> RunResult:
    """Runs every model, and estimates each from the runs of the others and from predictions.

    Args:
        models: Models in canonical form.
        request: How models run, in the hot condition.
        store: Store of the measurements.
        observer: Receives the progress.

    Returns:
        Estimates beside measured latencies. A model that cannot run as a whole has no latency.
    """
    with ExitStack() as opened:
        opened.enter_context(turn(observer.note))
        (adapting,) = _adapting(models, [request], store, observer, opened)
        _run_in_turn([adapting], observer)
        observer.stage("Composing")
        return adapting.left_out()


def run_side_by_side(
    models: Sequence[CanonicalModel],
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
) -> Mapping[str, RunResult]:
    """Runs every model on each backend in turn, so that drift affects all backends alike.

    Args:
        models: Models in canonical form.
        requests: A request for each backend, in the hot condition.
        store: Store of the measurements.
        observer: Receives the progress.

    Returns:
        Measured latencies and the latencies of the models' bricks in place, by backend.
    """
    with ExitStack() as opened:
        opened.enter_context(turn(observer.note))
        several = _adapting(models, requests, store, observer, opened)
        _run_in_turn(several, observer)
        return {
            request.backend.name: each.by_parts()
            for request, each in zip(requests, several, strict=True)
        }


def _adapting(
    models: Sequence[CanonicalModel],
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
    opened: ExitStack,
) -> list[Adapting]:
    """State of each request, all in one session."""
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    session = uuid.uuid4().hex
    return [
        Adapting(
            cut_models(models, options, request, observer),
            request,
            store,
            observer,
            opened,
            PREDICTOR,
            compares=False,
            session=session,
        )
        for request in requests
    ]


def _run_in_turn(several: Sequence[Adapting], observer: Observer) -> None:
    able = [set(each.able) for each in several]
    order = sorted(set.union(*able))
    observer.stage(f"Running {len(order)} models", sum(map(len, able)))
    for i in order:
        for each, positions in zip(several, able, strict=True):
            if i in positions:
                each.run_one(i)
                observer.advance("model")

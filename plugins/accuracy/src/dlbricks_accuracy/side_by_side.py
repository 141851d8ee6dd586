"""Models that all run, on one or several backends in turn."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from dlbricks_core.commands.options.approach import check_backends
from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.estimation.adaptive.model_figures import ModelFigures
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import measurement_lock
from dlbricks_core.measure.cutting import cut_models, sweeps_side_by_side
from dlbricks_core.measure.measuring import BackendTargets, measure_side_by_side
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


def run_side_by_side(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
) -> Mapping[str, RunResult]:
    """Measures models and their bricks on several backends in turn.

    In the hot condition, whole models run as their users run them, and profiles give the latencies
    of the bricks. In the cold condition, whole models and bricks are timed in the same rounds. The
    bricks are cut from the graphs into which each backend rewrites the models, if the composer cuts
    rewritten graphs. Drift of the machine affects all backends alike. Stored measurements are not
    repeated.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose.
        requests: A request for each backend; they differ only in the backend and its options.
        store: Store of the measurements.
        observer: Receives the progress.

    Returns:
        Measured latencies and the latencies of the models' bricks, by backend.

    Raises:
        DLBricksError: If fewer than two backends are named, or one is named twice.
    """
    names = [each.backend.name for each in requests]
    check_backends(names)
    if requests[0].condition == "hot":
        with ExitStack() as opened:
            several = run_in_turn(models, requests, store, observer, opened)
            return {name: each.by_parts() for name, each in zip(names, several, strict=True)}
    cuttings = [cut_models(models, cut_options, each, observer, store) for each in requests]
    sweeps = sweeps_side_by_side(cuttings)
    shares = [BackendTargets(*each) for each in zip(requests, sweeps, cuttings, strict=True)]
    ledgers = measure_side_by_side(shares, store, observer)
    return {
        request.backend.name: assemble(request, cutting, ledger)
        for request, cutting, ledger in zip(requests, cuttings, ledgers, strict=True)
    }


def run_in_turn(
    models: Sequence[CanonicalModel],
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
    opened: ExitStack,
) -> list[ModelFigures]:
    """Runs every model that can run, by each request in turn and all in one session.

    Args:
        models: Models in canonical form.
        requests: How models run, in the hot condition.
        store: Store of the measurements.
        observer: Receives the progress.
        opened: Closes the workers.

    Returns:
        Figures of the models for each request.
    """
    opened.enter_context(measurement_lock(observer.note))
    session = uuid.uuid4().hex
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    several = [
        ModelFigures(
            cut_models(models, options, request, observer),
            request,
            store,
            observer,
            opened,
            PREDICTOR,
            session=session,
        )
        for request in requests
    ]
    able = [set(each.able) for each in several]
    order = sorted(set.union(*able))
    observer.stage(f"Running {len(order)} models", sum(map(len, able)))
    for i in order:
        for each, positions in zip(several, able, strict=True):
            if i in positions:
                each.run_one(i)
                observer.advance("model")
    return several

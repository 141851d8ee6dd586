"""Models that all run: on several backends side by side, or to be estimated from each other."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from dlbricks_core.compose.options import LEARNED_COMPOSER, CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.adaptive.adapting import Adapting
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.defaults import PREDICTOR
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import measurement_lock
from dlbricks_core.measure.cutting import cut_models, sweeps_side_by_side
from dlbricks_core.measure.measuring import BackendTargets, measure_side_by_side
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


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
        (adapting,) = _run_in_turn(models, [request], store, observer, opened)
        observer.stage("Composing")
        return adapting.left_out()


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
            several = _run_in_turn(models, requests, store, observer, opened)
            return {name: each.by_parts() for name, each in zip(names, several, strict=True)}
    cuttings = [cut_models(models, cut_options, each, observer, store) for each in requests]
    sweeps = sweeps_side_by_side(cuttings)
    shares = [BackendTargets(*each) for each in zip(requests, sweeps, cuttings, strict=True)]
    ledgers = measure_side_by_side(shares, store, observer)
    return {
        request.backend.name: assemble(request, cutting, ledger)
        for request, cutting, ledger in zip(requests, cuttings, ledgers, strict=True)
    }


def check_backends(names: Sequence[str]) -> None:
    """Checks that backends can be compared.

    Raises:
        DLBricksError: If fewer than two backends are named, or one is named twice.
    """
    if len(set(names)) < len(names) or len(names) < 2:
        raise DLBricksError(
            f"cannot compare {', '.join(names) or 'nothing'}",
            hint="Name two or more backends, each once.",
        )


def _run_in_turn(
    models: Sequence[CanonicalModel],
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
    opened: ExitStack,
) -> list[Adapting]:
    """Runs every model that can run, by each request in turn and all in one session."""
    opened.enter_context(measurement_lock(observer.note))
    session = uuid.uuid4().hex
    options = CutOptions.chosen(None, None, LEARNED_COMPOSER)
    several = [
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
    able = [set(each.able) for each in several]
    order = sorted(set.union(*able))
    observer.stage(f"Running {len(order)} models", sum(map(len, able)))
    for i in order:
        for each, positions in zip(several, able, strict=True):
            if i in positions:
                each.run_one(i)
                observer.advance("model")
    return several

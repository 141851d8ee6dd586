"""Composes estimates from the store alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import System
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import DEFAULT_COMPOSER, PAPER_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import cut_models
from dlbricks_core.workflows.measuring import Outcome
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.predicting import with_predictions
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.targets import shortfalls
from dlbricks_core.workflows.timing_order import run_targets


def estimate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions | None,
    request: Request,
    store: ResultStore,
    system: str | None = None,
    predictor: str | None = None,
) -> RunResult:
    """Estimates models from what the store holds; runs nothing.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose; ``None`` for the default composer, or for the
            paper's where the store holds more of its bricks (``bench`` times those).
        request: Which measurements to use.
        store: Where measurements are kept.
        system: Start of the fingerprint of the system to estimate for; ``None`` for
            the one that this process runs on.
        predictor: Name of the predictor for bricks that the store does not hold; without one,
            these are missing.

    Raises:
        DLBricksError: If the store does not hold exactly one such system.
        PluginError: If there is no such predictor, or it fails.
    """
    if system is not None:
        request = request.on(_system(store, system))
    if predictor is not None and request.probe:
        raise DLBricksError(
            f"predictors give latencies, not {request.quantity.name}",
            hint=f"Leave {argument('predictor')} out.",
        )
    if cut_options is None and request.probe:
        cut_options = CutOptions.chosen(None, None, None, quantity=request.quantity.name)
    if cut_options is None:
        result = _best(models, request, store)
    else:
        result = _stored(models, cut_options, request, store)
    return result if predictor is None else with_predictions(result, predictor, store)


def _best(models: Sequence[CanonicalModel], request: Request, store: ResultStore) -> RunResult:
    """Estimates by the composer of which the store holds more bricks: default or paper's."""
    best, paper = (
        _stored(models, CutOptions.chosen(None, None, name), request, store)
        for name in (DEFAULT_COMPOSER, PAPER_COMPOSER)
    )
    if _missing(best) <= _missing(paper):
        return best
    note = f"the store holds bricks of the composer {PAPER_COMPOSER}, not of {DEFAULT_COMPOSER}"
    paper.outcome.notes = (note, *paper.outcome.notes)
    return paper


def _missing(result: RunResult) -> int:
    return sum(model.estimate.partial for model in result.models)


def _stored(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
) -> RunResult:
    calibration = store.calibration(cut_options.calibration_key(request))
    cutting = cut_models(models, cut_options, request, Observer(), calibration)
    keys = [
        request.key(target.brick.signature, target.kind)
        for target in run_targets(cutting, end_to_end=True, backend=request.runs_natives)
    ]
    outcome = Outcome()
    for key, found in store.get(keys).items():
        if found.failure:
            outcome.failures[key] = found.failure
        elif len(found.values) >= request.runs:
            outcome.measurements[key] = found
        else:
            outcome.failures[key] = f"only {len(found.values)} of {request.runs} samples yet"
    outcome.reused = len(outcome.measurements)
    parts = chain.from_iterable(map(request.parts, outcome.measurements))
    outcome.measurements |= store.get(parts)
    outcome.notes = shortfalls(
        request, cutting, outcome.measurements.values(), "as far as the store goes"
    )
    return assemble(request, cutting, outcome)


def _system(store: ResultStore, start: str) -> System:
    systems = store.systems()
    matches = [fingerprint for fingerprint in systems if fingerprint.startswith(start)]
    if len(matches) != 1:
        known = ", ".join(systems) or "none"
        raise DLBricksError(
            f"{'no system' if not matches else 'more than one system'} {start!r} in the store",
            hint=f"Systems with measurements: {known}.",
        )
    return System.from_dict(matches[0], systems[matches[0]])

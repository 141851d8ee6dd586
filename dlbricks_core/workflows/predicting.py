"""Predicts the figures of bricks that the store does not hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from dlbricks_core.bricks import Brick
from dlbricks_core.figures.figure import Figure, Measured, Predicted
from dlbricks_core.plugins import find, use
from dlbricks_core.predict import Predictor
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult


def with_predictions(result: RunResult, predictor: str, store: ResultStore) -> RunResult:
    """The result with predicted figures for bricks that have none.

    A brick stays missing if the predictor gives no figure for it. So does a brick that failed, or
    whose figure should follow from one that failed: what cannot run has no latency.

    Args:
        result: Result from the store alone.
        predictor: Name of the predictor.
        store: Store that knows which bricks failed.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    plugin = find("predictor", predictor, Predictor)
    plan, request = result.cutting.plan, result.request
    bricks = {each.brick.signature: each.brick for each in result.bricks}
    figures = {each.brick.signature: each.latency for each in result.bricks if each.latency}
    missing = [s for s in plan.recipes if s not in figures and not bricks[s].opaque]
    failed = _failed({source for s in missing for source in plan.sources(s)}, request, store)
    wanted = {s: bricks[s] for s in missing if failed.isdisjoint(plan.sources(s))}
    known = {s: figure for s, figure in figures.items() if isinstance(figure, Measured)}
    found = use(
        plugin,
        partial(_predicted, plugin.loaded, wanted, {s: bricks[s] for s in known}, known, request),
    )
    if not found:
        return replace(result, predictor=predictor)
    note = (
        f"{len(found)} of {len(plan.recipes)} bricks are predicted by {predictor}: "
        "the store does not hold them"
    )
    cutting = replace(result.cutting, plan=plan.predicting(found))
    outcome = replace(result.outcome, notes=(note, *result.outcome.notes))
    return replace(assemble(request, cutting, outcome), predictor=predictor)


def _failed(signatures: Collection[str], request: Request, store: ResultStore) -> frozenset[str]:
    """Those of the bricks that failed according to the store."""
    keys = [request.key(signature, "brick") for signature in signatures]
    return frozenset(k.subject.signature for k, found in store.get(keys).items() if found.failure)


def _predicted(
    predictor: type[Predictor],
    wanted: Mapping[str, Brick],
    measured: Mapping[str, Brick],
    known: Mapping[str, Figure],
    request: Request,
) -> Mapping[str, Predicted]:
    """Figures of wanted bricks.

    Raises:
        TypeError: If the predictor gives something that is not a figure.
    """
    bricks = {**measured, **wanted}
    found = predictor().predict(bricks, request.setup, request.target, known)
    for signature in wanted.keys() & found.keys():
        if not isinstance(found[signature], Predicted):
            raise TypeError(f"{found[signature]!r} for brick {signature} is not a predicted figure")
    return {signature: found[signature] for signature in wanted if signature in found}

"""Predicts figures of bricks that are not in the store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dlbricks_core.bricks import Brick
from dlbricks_core.bricks.signature import native_to
from dlbricks_core.compose.options import LEARNED_COMPOSER
from dlbricks_core.estimation.adaptive.drift import drift, drifting
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.conditioned import ConditionedPredictor, training_data
from dlbricks_core.estimation.extrapolation import far_bricks, foreign_operators, too_many_threads
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts.note import note
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.predicted import Placed, Predicted
from dlbricks_core.measure.request import Request
from dlbricks_core.operators.domains import operator_domains
from dlbricks_core.store import ResultStore


def with_predictions(result: RunResult, predictor: str, store: ResultStore) -> RunResult:
    """The result with predicted figures for bricks without a figure.

    For the learned composer, a predictor also estimates the part of a measured brick's latency that
    remains inside a model.

    A brick stays missing in four cases: if the predictor gives no figure for it; if it failed, or
    its figure depends on a failed brick, because a network that cannot run has no latency; if it
    has an operator that the backend lacks; or one of an unknown domain, which may take any time.

    Args:
        result: Result from the store alone.
        predictor: Name of the predictor.
        store: Store with failed bricks and further measurements.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    plan, request = result.cutting.plan, result.request
    bricks = {each.brick.signature: each.brick for each in result.bricks}
    figures = {each.brick.signature: each.latency for each in result.bricks if each.latency}
    missing = [s for s in plan.recipes if s not in figures and not bricks[s].opaque]
    failed = _failed({source for s in missing for source in plan.sources(s)}, request, store)
    failed |= {key.subject.signature for key in result.ledger.unsupported}
    foreign = {s: op for s in missing if (op := _foreign(bricks[s])) and s not in failed}
    why = "was not measured, and cannot be predicted because its domain is unknown"
    ledger = result.ledger.failing(
        {request.key(signature, "brick"): f"{op} {why}" for signature, op in foreign.items()}
    )
    lacked = {s: why for s in missing if (why := _lacked(bricks[s], request)) and s not in failed}
    ledger = ledger.failing(
        {request.key(signature, "brick"): why for signature, why in lacked.items()},
        unsupported=True,
    )
    failed |= foreign.keys() | lacked.keys()
    wanted = [s for s in missing if failed.isdisjoint(plan.sources(s))]
    known = {s: figure for s, figure in figures.items() if isinstance(figure, Measured)}
    learned = result.cut_options.composer == LEARNED_COMPOSER
    if not wanted and not learned:
        if foreign or lacked:
            return assemble(request, result.cutting, ledger, predictor=predictor)
        return replace(result, predictor=predictor)
    asked = {s: bricks[s] for s in (*known, *wanted)}
    atlas = training_data(predictor, store, request.setup.backend)
    quiet = {s: figure for s, figure in known.items() if figure.teaches}
    conditioned = ConditionedPredictor(predictor, request, atlas, known)
    found = conditioned.figures(asked, quiet)
    new = {s: found[s] for s in wanted if s in found}
    if learned:
        placed = {s: Placed(quiet[s], found[s]) for s in quiet if s in found}
        plan = plan.believing({**placed, **new, **_wholes(result, new)}, timed=known)
    else:
        plan = plan.predicting(new)
    cutting = replace(result.cutting, plan=plan)
    predicted = assemble(request, cutting, ledger, predictor=predictor)
    doubts = (
        (
            *too_many_threads(request),
            *conditioned.doubts(_predicted_bricks(predicted)),
            *foreign_operators(predicted),
            *far_bricks(predicted),
        )
        if new
        else ()
    )
    number = len(wanted) - len(new)
    silent = note(
        "predictor-silent", predictor=predictor, bricks=number, of_bricks=len(wanted),
        known=len(quiet), disturbed=len(known) - len(quiet),
    )  # fmt: skip
    return predicted.noting(*doubts, *([silent] if number else ()))


def _predicted_bricks(result: RunResult) -> dict[str, Brick]:
    """Bricks with a predicted figure, by signature."""
    predicted = (each for each in result.bricks if isinstance(each.latency, Predicted))
    return {each.brick.signature: each.brick for each in predicted}


def _wholes(result: RunResult, predicted: Collection[str]) -> dict[str, Placed]:
    """Figures of whole models that were timed instead of their bricks, by signature."""
    found = {}
    for model in result.models:
        whole, measured = model.cut.whole.signature, model.measured
        if measured is not None and not model.cut.counts.keys().isdisjoint(predicted):
            found[whole] = Placed(measured, drifting(whole, measured, drift().session))
    return found


def _foreign(brick: Brick) -> str:
    """First operator of a brick without a known definition; empty for a backend's own graphs."""
    if native_to(brick.model):
        return ""
    usual = {"", *(each.name for each in operator_domains())}
    unusual = [each for each in brick.model.layers if each.domain not in usual]
    if not unusual:
        return ""
    from dlbricks_core.passes.schemas import domains  # imports onnx, which few models need here

    return next((each.qualified_op for each in unusual if each.domain not in domains()), "")


def _lacked(brick: Brick, request: Request) -> str:
    """Why the backend cannot run a layer of a brick; empty if it may run all of them."""
    backend = request.backend.name
    traits = request.backend.traits
    lacks, types, of_type = traits.lacks, traits.types, traits.lacks_of_type
    for layer in brick.model.layers if lacks or types or of_type else ():
        if lacks & {layer.qualified_op, layer.domain}:
            return f"{layer.qualified_op}: {backend} has no counterpart"
        held = brick.model.specs((*brick.model.activations(layer), *filter(None, layer.outputs)))
        for dtype in dict.fromkeys(each.dtype for each in held if each):
            if types and dtype not in types:
                return f"{layer.qualified_op}: {backend} has no element type {dtype}"
        computed = brick.model.specs((*layer.reads[:1], *layer.outputs[:1]))
        for dtype in dict.fromkeys(each.dtype for each in computed if each):
            if layer.qualified_op in of_type.get(dtype, ()):
                return f"{layer.qualified_op}: {backend} does not run it in {dtype}"
    return ""


def _failed(signatures: Collection[str], request: Request, store: ResultStore) -> frozenset[str]:
    """Bricks with a failure in the store."""
    keys = [request.key(signature, "brick") for signature in signatures]
    return frozenset(k.subject.signature for k, found in store.get(keys).items() if found.failure)

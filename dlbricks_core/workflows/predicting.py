"""Predicts the figures of bricks that the store does not hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.figures.figure import Figure, Measured, Placed, Predicted
from dlbricks_core.plugins import find, use
from dlbricks_core.predict import Contribution, Predictor
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import LEARNED_COMPOSER
from dlbricks_core.workflows.doubts import far_bricks, far_systems
from dlbricks_core.workflows.knowledge import knowledge
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult


def with_predictions(result: RunResult, predictor: str, store: ResultStore) -> RunResult:
    """The result with predicted figures for bricks that have none.

    With the composer that learns, a predictor also tells what is left of a measured brick's latency
    in the middle of a model.

    A brick stays missing if the predictor gives no figure for it. So does a brick that failed, or
    whose figure should follow from one that failed: what cannot run has no latency.

    Args:
        result: Result from the store alone.
        predictor: Name of the predictor.
        store: Store that knows which bricks failed, and what else was measured.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    plan, request = result.cutting.plan, result.request
    bricks = {each.brick.signature: each.brick for each in result.bricks}
    figures = {each.brick.signature: each.latency for each in result.bricks if each.latency}
    missing = [s for s in plan.recipes if s not in figures and not bricks[s].opaque]
    failed = _failed({source for s in missing for source in plan.sources(s)}, request, store)
    wanted = [s for s in missing if failed.isdisjoint(plan.sources(s))]
    known = {s: figure for s, figure in figures.items() if isinstance(figure, Measured)}
    learned = result.cut_options.composer == LEARNED_COMPOSER
    if not wanted and not learned:
        return replace(result, predictor=predictor)
    asked = {s: bricks[s] for s in (*known, *wanted)}
    atlas = knowledge(store, request.setup.backend)
    found = predictions(predictor, asked, known, request, atlas)
    new = {s: found[s] for s in wanted if s in found}
    if learned:
        placed = {s: Placed(known[s], found[s]) for s in known if s in found}
        plan = plan.believing({**placed, **new}, timed=known)
    else:
        plan = plan.predicting(new)
    predicted = assemble(request, replace(result.cutting, plan=plan), result.outcome)
    doubts = (*far_systems(request, atlas), *far_bricks(predicted)) if new else ()
    notes = (*result.outcome.notes, *doubts)
    outcome = replace(result.outcome, notes=notes)
    return replace(predicted, predictor=predictor, outcome=outcome)


def predictions(
    predictor: str,
    bricks: Mapping[str, Brick],
    known: Mapping[str, Figure],
    request: Request,
    atlas: Collection[Contribution],
) -> Mapping[str, Predicted]:
    """Figures that a predictor gives for bricks, by signature.

    Args:
        predictor: Name of the predictor.
        bricks: Bricks by signature, those with known figures among them.
        known: Figures measured under the request's setup on its system, by signature.
        request: How and where the bricks run.
        atlas: What else was measured.

    Raises:
        PluginError: If there is no such predictor, it fails, or gives something else.
    """
    plugin = find("predictor", predictor, Predictor)
    left = (_without(each, known, request) for each in atlas)
    others = [each for each in left if len(each)]

    def predict() -> Mapping[str, Predicted]:
        given: Predictor = plugin.loaded()
        found = given.predict(bricks, request.setup, request.target, known, others)
        for signature, figure in found.items():
            if not isinstance(figure, Predicted):
                raise TypeError(f"{figure!r} for brick {signature} is not a predicted figure")
        return {signature: found[signature] for signature in bricks if signature in found}

    call_ms = _call_ms(known, others, request)
    found = use(plugin, predict)
    return {signature: _with_call(each, call_ms) for signature, each in found.items()}


def _call_ms(
    known: Mapping[str, Figure], atlas: Collection[Contribution], request: Request
) -> float:
    """Cost of a call of the timer, in milliseconds: as it was here, or else elsewhere."""
    here = [figure.overhead for figure in known.values()]
    if here:
        return float(np.median(here))
    same = [each for each in atlas if each.system.fingerprint == request.fingerprint]
    costs = [each.call_ms for each in same or atlas]
    return float(np.median(np.concatenate(costs))) if costs else 0.0


def _with_call(figure: Predicted, call_ms: float) -> Predicted:
    """A figure with the cost of a call, as measured ones have it; a model pays it once."""
    if figure.overhead:
        return figure
    return Predicted(figure.expected + call_ms, figure.draws + call_ms, call_ms)


def _without(
    contribution: Contribution, known: Mapping[str, Figure], request: Request
) -> Contribution:
    """A store's own contribution without known figures, if it is from here: each counts once.

    What comes with the package was measured in other sessions, and counts besides.
    """
    here = contribution.system.fingerprint == request.fingerprint
    same = here and contribution.setup.threads == request.setup.threads
    if not same or contribution.pulls.size or known.keys().isdisjoint(contribution.signatures):
        return contribution
    return contribution.only([i for i, s in enumerate(contribution.signatures) if s not in known])


def _failed(signatures: Collection[str], request: Request, store: ResultStore) -> frozenset[str]:
    """Those of the bricks that failed according to the store."""
    keys = [request.key(signature, "brick") for signature in signatures]
    return frozenset(k.subject.signature for k, found in store.get(keys).items() if found.failure)

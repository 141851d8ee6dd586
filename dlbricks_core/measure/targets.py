"""Figures that must be precise, and the figures that are not precise yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.compose import Plan
from dlbricks_core.facts import Kind, Note, Question
from dlbricks_core.facts.note import JSON
from dlbricks_core.figures.precision import PrecisionTarget
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.schedule import ComparedTogether, UntilPrecise

_NAMED = 6
"""Maximum number of figures that a note names; the widest come first."""

_NAMES: dict[Kind, str] = {
    "brick": "{}",
    "model": "{} end to end",
    "native": "{} in its framework's own form",
}


@dataclass(frozen=True)
class Target:
    """A network to measure: a brick, or a whole model as one brick.

    Attributes:
        brick: The network.
        kind: Kind of the network: brick, model or native form.
        group: Family for the evaluation of predictors; empty for the families of the models from
            which the network is cut.
    """

    brick: Brick
    kind: Kind
    group: str = ""


def families(
    request: Request, cutting: Cutting | None, keys: Iterable[Question]
) -> list[ComparedTogether]:
    """Figures of each model: the sum of its bricks, and the latency of the whole model.

    Args:
        request: Request whose keys identify measurements.
        cutting: The models, cut; ``None`` if each key is a figure of its own.
        keys: Keys of the networks that can be measured. A sum with further bricks is partial.
    """
    if cutting is None:
        return [[PrecisionTarget(key.subject.signature[:8], {key: 1})] for key in keys]
    able = set(keys)
    return [_family(request, cut, cutting.plan, able) for cut in cutting.brickset.models]


def _family(
    request: Request, cut: CutModel, plan: Plan, able: set[Question]
) -> list[PrecisionTarget]:
    whole = cut.whole.signature
    counts: dict[Kind, Mapping[str, float]] = {
        "brick": plan.weights(cut.counts),
        "model": {whole: 1},
        "native": {whole: 1},
    }
    demands = []
    for kind, numbers in counts.items():
        keyed = {request.key(signature, kind): n for signature, n in numbers.items()}
        wanted = {key: n for key, n in keyed.items() if key in able}
        if wanted:
            demands.append(PrecisionTarget(_NAMES[kind].format(cut.model.name), wanted))
    return demands


def shortfalls(
    request: Request,
    cutting: Cutting | None,
    ledger: Ledger,
    reason: Note,
) -> tuple[Note, ...]:
    """A note that names the figures that miss the requested precision, if there are any."""
    if request.precision is None:
        return ()
    figures = families(request, cutting, ledger.measurements)
    rest = UntilPrecise(figures, request.precision, ledger).shortfalls()
    return not_within(request.precision, reason, [(half, demand.name) for demand, half in rest])


def not_within(
    precision: float, reason: Note, reached: Iterable[tuple[float, str]]
) -> tuple[Note, ...]:
    """A note that names figures that miss the requested precision; empty if there are none.

    Args:
        precision: Requested half-width, relative to the figure.
        reason: The note with the reason, without the figures.
        reached: Half-width of each figure that lacks precision, and its name.
    """
    widest = sorted(dict.fromkeys(reached), reverse=True)
    if not widest:
        return ()
    figures: JSON = [
        # An incomplete figure has no width.
        {"name": name, "half_width": float(half) if math.isfinite(half) else None}
        for half, name in widest[:_NAMED]
    ]
    return (reason.also(precision=precision, figures=figures, more=max(len(widest) - _NAMED, 0)),)

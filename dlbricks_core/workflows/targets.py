"""Figures that must be precise, and those that are not precise yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Plan
from dlbricks_core.facts import Kind, Measurement, Question
from dlbricks_core.figures.precision import PrecisionTarget
from dlbricks_core.figures.widths import width_text
from dlbricks_core.measure.schedule import ComparedTogether, UntilPrecise
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.request import Request

_NAMED = 6
"""Maximum number of figures that a sentence names; the widest come first."""

_NAMES: dict[Kind, str] = {
    "brick": "{}",
    "model": "{} end to end",
    "native": "{} in its framework's own form",
}


def families(
    request: Request, cutting: Cutting | None, keys: Iterable[Question]
) -> list[ComparedTogether]:
    """Figures of each model: the sum of its bricks, and the latency of the whole.

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
    measurements: Collection[Measurement],
    reason: str,
) -> tuple[str, ...]:
    """A sentence that names the figures that miss the requested precision, if there are any."""
    if request.precision is None:
        return ()
    keys = [measurement.question for measurement in measurements]
    rest = UntilPrecise(
        families(request, cutting, keys), request.precision, measurements
    ).shortfalls()
    halves = [(half, demand.name) for demand, half in rest]
    return not_within(request.precision, reason, halves)


def not_within(
    precision: float, reason: str, reached: Iterable[tuple[float, str]]
) -> tuple[str, ...]:
    """A sentence that names figures that miss the requested precision; empty if there are none.

    Args:
        precision: Requested half-width, relative to the figure.
        reason: Why it was not reached.
        reached: Half-width of each figure that lacks precision, and its name.
    """
    widest = sorted(dict.fromkeys(reached), reverse=True)
    if not widest:
        return ()
    named = [f"{name} {width_text(half, 1)}" for half, name in widest[:_NAMED]]
    if len(widest) > _NAMED:
        named.append(f"and {len(widest) - _NAMED} more figures")
    return (f"not within ±{precision * 100:.3g}% ({reason}): {', '.join(named)}",)

"""Figures that must be precise, and the figures that are not precise yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from dlbricks_core.backends import Backend
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

    def key(self, request: Request) -> Question:
        """Key of the network's samples under a request."""
        return request.key(self.brick.signature, self.kind)


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


# Order in which the networks of cut models are timed.


def run_targets(cutting: Cutting, *, end_to_end: bool, backend: Backend | None) -> list[Target]:
    """Targets in order: each model, followed by its bricks that no earlier model has.

    If a backend is given, a model of its own framework is also timed in its native form.
    """
    targets = [t for sweep in sweeps_of(cutting, end_to_end=end_to_end) for t in sweep]
    natives = {
        cut.whole.signature: Target(Brick(cut.whole.signature, cut.model), "native")
        for cut in cutting.brickset.models
        if backend is not None and backend.native(cut.model.source)
    }
    return [
        each
        for target in targets
        for each in (target, natives.get(target.brick.signature))
        if each is target or (each is not None and target.kind == "model")
    ]


def sweeps_of(*cuttings: Cutting, end_to_end: bool) -> list[list[Target]]:
    """Groups of targets, one for each model: the model itself, then networks for its new bricks.

    Models that share bricks follow each other. If the networks do not fit into memory together,
    they are timed in groups in this order, and a brick should share a group with all of its models.

    Args:
        cuttings: The same models, cut in one or several ways.
        end_to_end: Whether whole models are timed as well.
    """
    models = list(zip(*(cutting.brickset.models for cutting in cuttings), strict=True))
    return _sweeps(cuttings, list(_kin_together(models)), end_to_end)


def sweeps_side_by_side(cuttings: Sequence[Cutting]) -> list[list[list[Target]]]:
    """Sweeps of each cutting, including whole models; the order of models is the same in all.

    Args:
        cuttings: Cuttings of the same models, one for each backend.
    """
    models = zip(*(cutting.brickset.models for cutting in cuttings), strict=True)
    order = list(_kin_together(list(models)))
    return [
        _sweeps([cutting], [(cuts[i],) for cuts in order], end_to_end=True)
        for i, cutting in enumerate(cuttings)
    ]


def alike_together(targets: Iterable[Target]) -> list[Target]:
    """Targets ordered by family.

    Networks of a family share operators, so the code of a network's operators is in the caches, as
    in the middle of a model.
    """
    return sorted(targets, key=lambda each: each.group)


def _sweeps(
    cuttings: Sequence[Cutting], models: Iterable[tuple[CutModel, ...]], end_to_end: bool
) -> list[list[Target]]:
    """Sweeps of models in a given order; each model is cut once for each cutting."""
    seen: set[tuple[str, Kind]] = set()
    sweeps = []
    for cuts in models:
        bricks = {
            source: cutting.plan.timed[source]
            for cutting, cut in zip(cuttings, cuts, strict=True)
            for signature in cut.counts
            for source in cutting.plan.sources(signature)
        }
        targets = [Target(brick, "brick") for brick in bricks.values()]
        if end_to_end and not any(brick.opaque for brick in bricks.values()):
            targets.insert(0, Target(cuttings[0].whole(cuts[0]), "model"))
        sweeps.append([t for t in targets if (t.brick.signature, t.kind) not in seen])
        seen.update((t.brick.signature, t.kind) for t in targets)
    return sweeps


def _kin_together(models: Sequence[tuple[CutModel, ...]]) -> Iterator[tuple[CutModel, ...]]:
    """The models; each is followed by the model that shares most bricks with an earlier model.

    Args:
        models: Models, each cut in one or several ways.
    """
    own = [set(chain.from_iterable(cut.counts for cut in cuts)) for cuts in models]
    left = list(range(len(models)))
    last: set[str] = set()
    before: set[str] = set()
    while left:
        shared = {i: (len(own[i] & last), len(own[i] & before)) for i in left}
        nearest = max(left, key=shared.__getitem__)
        left.remove(nearest)
        last = own[nearest]
        before |= last
        yield models[nearest]

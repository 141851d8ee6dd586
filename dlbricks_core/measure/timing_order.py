"""Order in which the networks of cut models are timed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from dlbricks_core.backends import Backend
from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.facts import Kind
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.targets import Target


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

"""Reasons to doubt predictions: systems, element types and operators unlike all measured ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Note, Setup, System
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.baseline import Processor, is_unclear
from dlbricks_prediction.from_contribution import processor_of
from dlbricks_prediction.kinds import class_of, group_of, kinds_of, sort_of
from dlbricks_prediction.nearness import distance
from dlbricks_prediction.notes import note


def far_systems(
    setup: Setup, system: System, atlas: Sequence[Contribution], *, here: bool
) -> Iterator[Note]:
    """A note on the basis of predictions without a measurement with this setup on this system.

    Args:
        setup: How the bricks run.
        system: System on which the bricks run.
        atlas: Measurements with this backend on all systems.
        here: Whether the system is this machine's.
    """
    name, threads = setup.backend, setup.threads
    if not atlas:
        yield note("backend-not-measured", backend=name)
        return

    def far(each: Contribution) -> tuple[float, float]:
        octaves = abs(math.log2(each.setup.threads / threads))
        return distance(each.system, system), octaves

    nearest = min(atlas, key=far)
    if any(far(nearest)):
        yield note(
            "measured-elsewhere",
            backend=name,
            here=here,
            threads=threads,
            cpu=nearest.system.cpu,
            cpu_threads=nearest.setup.threads,
        )


def far_types(
    bricks: Sequence[Brick], setup: Setup, system: System, atlas: Sequence[Contribution]
) -> Iterator[Note]:
    """A note on each short element type of bricks for which layers were not measured.

    Args:
        bricks: The predicted bricks.
        setup: How the bricks run.
        system: System on which the bricks run.
        atlas: Measurements with this backend on all systems.
    """
    asked = {group_of(kind) for brick in bricks for kind in kinds_of(brick.model)}
    processor = Processor.of(system, setup.threads)
    known = {
        (name, dtype)
        for each in atlas
        for name, dtype in set(map(group_of, each.kinds))
        if processor_of(each).handling(dtype) == processor.handling(dtype)
    }
    new = [(name, dtype) for name, dtype in sorted(asked - known) if dtype]
    for dtype in sorted({dtype for _, dtype in new}):
        layers = [name for name, other in new if other == dtype]
        yield note("type-not-measured", backend=setup.backend, dtype=dtype, layers=layers)


def far_operators(
    bricks: Sequence[Brick], backend: str, atlas: Sequence[Contribution]
) -> Iterator[Note]:
    """A note on operators of bricks unlike all measured operators.

    An operator whose time does not follow from sizes is like operators of its own sort only.

    Args:
        bricks: The predicted bricks.
        backend: Name of the backend.
        atlas: Measurements with this backend on all systems.
    """
    sorts = {sort_of(kind) for each in atlas for kind in each.kinds}
    known = {*sorts, *map(class_of, sorts)}
    unlike = {
        layer.op
        for brick in bricks
        for layer, kind in zip(brick.model.layers, kinds_of(brick.model), strict=True)
        if (sort_of(kind) if is_unclear(kind) else class_of(kind)) not in known
    }
    if known and unlike:
        yield note("operators-not-measured", backend=backend, operators=sorted(unlike))

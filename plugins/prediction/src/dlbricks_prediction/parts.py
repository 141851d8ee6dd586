"""Assignment of contributions to layers, by the types and the processors' handling of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.baseline import Processor
from dlbricks_prediction.features import Features
from dlbricks_prediction.kinds import group_of


@dataclass(frozen=True)
class SharedLayers:
    """Layers that are predicted from the same contributions.

    Attributes:
        layers: Positions of the layers.
        told_by: Positions of the contributions; empty if only the baseline is left.
        doubted: Whether no contribution is from a processor that handles the layers' type in the
            same way.
    """

    layers: Sequence[int]
    told_by: Sequence[int]
    doubted: bool


def parts_of(
    asked: Features, processor: Processor, bases: Sequence[Contribution], *, here: bool
) -> list[SharedLayers]:
    """Parts of a list of layers.

    Layers of usual types are predicted from the system's own contribution, or else from all others.
    A short type may be computed natively on one processor and be converted on another, so samples
    of a short type come from processors that handle it in the same way, or else from others with
    samples, which err less than other types do (benchmarks/stranger.py leaves systems out).

    Args:
        asked: Features of the layers.
        processor: The processor on which the layers run.
        bases: Contributions, the nearest first.
        here: Whether the first contribution is from this system and setup.
    """
    knowing = [
        (
            Processor.of(each.system, each.setup.threads),
            frozenset(map(group_of, each.kinds)),
        )
        for each in bases
    ]

    def source(group: tuple[str, str]) -> tuple[tuple[int, ...], bool]:
        dtype = group[1]
        every = frozenset(range(len(bases)))
        informed = {i for i, (_, groups) in enumerate(knowing) if group in groups}
        alike = {i for i, (each, _) in enumerate(knowing)
                 if each.handling(dtype) == processor.handling(dtype)}  # fmt: skip
        chosen = informed & alike or informed or every if dtype else every
        told_by = (0,) if here and 0 in chosen else tuple(sorted(chosen))
        return told_by, alike.isdisjoint(told_by)

    sources = {group: source(group) for group in dict.fromkeys(map(group_of, asked.kinds))}
    layers: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    for place, kind in enumerate(asked.kinds):
        layers.setdefault(sources[group_of(kind)], []).append(place)
    return [SharedLayers(places, *told) for told, places in layers.items()]

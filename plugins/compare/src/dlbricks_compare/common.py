"""Common parts: layers between places where all of several graphs of one model are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlbricks_core.bricks import CutModel, LayerSequence
from dlbricks_core.bricks.brickset import Occurrence, original
from dlbricks_core.ir import CanonicalModel

Place = frozenset[str]
"""A place where a graph may be cut: the model's tensors that are computed before it and needed
after it. Results that are computed from these tensors are the same in all graphs."""


@dataclass(frozen=True)
class CommonPart:
    """Part of a model between two consecutive places where all its graphs are cut.

    It computes the same tensors from the same tensors in every graph.

    Attributes:
        layers: Indices of the model's layers that compute them.
        occurrences: Bricks of each graph that compute them, in the order of the graphs.
    """

    layers: LayerSequence
    occurrences: tuple[tuple[Occurrence, ...], ...]


def common_parts(cuts: Sequence[CutModel]) -> list[CommonPart]:
    """Parts of a model between the places where all its graphs are cut, in the order of the graphs.

    Graphs without such a place have one common part, the whole model. A place with a tensor of
    unknown origin is not used.

    Args:
        cuts: One model in one or more graphs. Bricks contain consecutive layers.
    """
    model = cuts[0].model
    known = [{place: end for end, place in _places(cut) if place is not None} for cut in cuts]
    ends = [(0,) * len(cuts)]
    places: list[Place] = []
    for place in sorted(set.intersection(*map(set, known)), key=known[0].__getitem__):
        here = tuple(each[place] for each in known)
        if all(end > last for end, last in zip(here, ends[-1], strict=True)):
            ends.append(here)
            places.append(place)
    ends.append(tuple(len(cut.occurrences) for cut in cuts))
    layers = _layers_between(model, [*places, frozenset(model.outputs)])
    return [
        CommonPart(
            inside,
            tuple(
                cut.occurrences[start:stop]
                for cut, start, stop in zip(cuts, ends[i], ends[i + 1], strict=True)
            ),
        )
        for i, inside in enumerate(layers)
    ]


def unknown_places(cut: CutModel) -> int:
    """Number of places where a brick passes on a tensor of unknown origin."""
    return sum(place is None for _, place in _places(cut))


def _places(cut: CutModel) -> Iterator[tuple[int, Place | None]]:
    """Number of bricks before each place of a graph, and the place; ``None`` if unknown."""
    graph = cut.graph
    needed: dict[str, int] = {}
    for number, occurrence in enumerate(cut.occurrences[:-1], 1):
        for index in occurrence.layers:
            for name in graph.layers[index].outputs:
                last = graph.consumers.get(name, (index,))[-1]
                if name:
                    needed[name] = len(graph.layers) if name in graph.output_names else last
        after = occurrence.layers[-1]
        needed = {name: last for name, last in needed.items() if last > after}
        names = [original(cut.model, name) for name in needed]
        yield number, frozenset(n for n in names if n) if all(names) else None


def _layers_between(model: CanonicalModel, places: Sequence[Place]) -> list[LayerSequence]:
    """Layers that compute the tensors of each place from the tensors of the previous place."""
    seen: set[int] = set()
    found = []
    for place in places:
        inside: set[int] = set()
        wanted = [model.producers[name] for name in place if name in model.producers]
        while wanted:
            index = wanted.pop()
            if index in seen:
                continue
            seen.add(index)
            inside.add(index)
            reads = model.layers[index].reads
            wanted += [model.producers[name] for name in reads if name in model.producers]
        found.append(tuple(sorted(inside)))
    return found

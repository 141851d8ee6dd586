"""Outline of a model's graph: repeated modules are drawn once, and chains of layers as one node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dlbricks_core.ir import CanonicalModel, layer_graph
from dlbricks_graph.modules import Module

#: Stands for the outside of the model in a pair of layers.
OUTSIDE = -1

Pair = tuple[int, int]
"""Producer and reader of a tensor: two layers, or a layer and ``OUTSIDE``."""


@dataclass(frozen=True)
class Chain:
    """A single layer, or layers that each read only the previous layer.

    Attributes:
        steps: Each layer together with its counterparts in the other copies of a module.
    """

    steps: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Terminal:
    """A place where a tensor enters or leaves.

    Attributes:
        tensor: An input or output of the model; empty for the edge of a module.
        entry: Whether the tensor enters.
    """

    tensor: str
    entry: bool


@dataclass(frozen=True)
class Repeated:
    """A module that occurs several times, drawn as one copy.

    Attributes:
        module: The module.
        starts: First layers of all copies, also of copies in other copies of an enclosing
            module.
        inside: Outline of one copy; its edges represent the edges of all copies.
    """

    module: Module
    starts: tuple[int, ...]
    inside: Outline

    @property
    def layers(self) -> list[int]:
        """Layers of all copies."""
        return [start + i for start in self.starts for i in range(self.module.period)]


Node = Chain | Terminal | Repeated


@dataclass(frozen=True)
class Outline:
    """A directed acyclic graph.

    Attributes:
        nodes: In topological order.
        edges: Pairs of layers of an edge, by the positions of its two nodes.
    """

    nodes: tuple[Node, ...]
    edges: Mapping[tuple[int, int], Collection[Pair]]


_Key = int | Module | Terminal
"""Key of a node: the first counterpart of a layer, a module, or a terminal."""

_Edges = dict[tuple[_Key, _Key], set[Pair]]


def outline(model: CanonicalModel, modules: Sequence[Module] = ()) -> Outline:
    """Outline of a model.

    Args:
        model: Model in canonical form.
        modules: Modules to draw once each; they do not overlap.
    """
    size = len(model.layers)
    pairs: list[Pair] = list(layer_graph(model).edges)
    edges: _Edges = {}
    place = _places((0,), size, modules)
    for name in model.inputs:
        for i in model.consumers.get(name, ()):
            pairs.append((OUTSIDE, i))
            edges.setdefault((Terminal(name, True), place[i]), set()).add((OUTSIDE, i))
    for name in model.outputs:
        if name in model.producers:
            i = model.producers[name]
            pairs.append((i, OUTSIDE))
            edges.setdefault((place[i], Terminal(name, False)), set()).add((i, OUTSIDE))
    return _region((0,), size, modules, pairs, edges)


def _places(starts: Sequence[int], size: int, modules: Sequence[Module]) -> dict[int, _Key]:
    """Node in the first copy for each layer of all copies."""
    place: dict[int, _Key] = {starts[0] + i: starts[0] + i for i in range(size)}
    place.update((i, each) for each in modules for i in range(each.start, each.end))
    return {start + i: place[starts[0] + i] for start in starts for i in range(size)}


def _region(
    starts: tuple[int, ...],
    size: int,
    modules: Sequence[Module],
    pairs: Iterable[Pair],
    edges: _Edges,
) -> Outline:
    """Outline of the model or of a module.

    Args:
        starts: First layers of the copies.
        size: Number of layers in a copy.
        modules: Modules within the first copy.
        pairs: Producers and readers, at least of the tensors within the region.
        edges: Edges that are known: to and from terminals.
    """
    place = _places(starts, size, modules)
    copies = {start + i: copy for copy, start in enumerate(starts) for i in range(size)}
    concerning = [(a, b) for a, b in pairs if a in copies or b in copies]
    for a, b in concerning:
        if copies.get(a) == copies.get(b):
            if place[a] != place[b]:
                edges.setdefault((place[a], place[b]), set()).add((a, b))
            continue
        # Outputs of the model itself have names, and are in ``edges`` already.
        if b in copies and len(starts) > 1:
            edges.setdefault((Terminal("", True), place[b]), set()).add((a, b))
        if a in copies and len(starts) > 1:
            edges.setdefault((place[a], Terminal("", False)), set()).add((a, b))
    return _assembled(starts, place, concerning, edges)


def _assembled(
    starts: Sequence[int], place: Mapping[int, _Key], pairs: Sequence[Pair], edges: _Edges
) -> Outline:
    """Joins layers into chains."""
    after: dict[_Key, list[_Key]] = {}
    before: dict[_Key, list[_Key]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
        before.setdefault(b, []).append(a)
    terminals = [key for edge in edges for key in edge if isinstance(key, Terminal)]
    keys: dict[_Key, None] = dict.fromkeys(t for t in terminals if t.entry)
    keys.update(dict.fromkeys(place.values()))
    keys.update(dict.fromkeys(t for t in terminals if not t.entry))
    concerning: dict[Module, dict[Pair, None]] = {}
    for pair in pairs:
        for key in (place.get(pair[0]), place.get(pair[1])):
            if isinstance(key, Module):
                concerning.setdefault(key, {})[pair] = None
    nodes: list[Node] = []
    positions: dict[_Key, int] = {}
    offsets = [start - starts[0] for start in starts]
    for key in keys:
        if key in positions:
            continue
        positions[key] = len(nodes)
        if isinstance(key, Terminal):
            nodes.append(key)
        elif isinstance(key, Module):
            own = [key.start + i * key.period for i in range(key.copies)]
            everywhere = tuple(offset + start for offset in offsets for start in own)
            inside = _region(everywhere, key.period, key.inside, concerning.get(key, {}), {})
            nodes.append(Repeated(key, everywhere, inside))
        else:
            steps, last = [key], key
            while len(after.get(last, ())) == 1:
                (following,) = after[last]
                if not isinstance(following, int) or len(before[following]) > 1:
                    break
                positions[following] = len(nodes)
                steps.append(following)
                last = following
            nodes.append(Chain(tuple(tuple(o + step for o in offsets) for step in steps)))
    joined: dict[tuple[int, int], set[Pair]] = {}
    for (a, b), held in edges.items():
        if positions[a] != positions[b]:
            joined.setdefault((positions[a], positions[b]), set()).update(held)
    return Outline(tuple(nodes), joined)

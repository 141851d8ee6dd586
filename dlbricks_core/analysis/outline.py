"""A model's graph in outline: repeated modules once, and layers one after another together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dlbricks_core.analysis.modules import Module
from dlbricks_core.ir import Model, layer_graph

#: Stands for the outside of the model in a pair of layers.
OUTSIDE = -1

Pair = tuple[int, int]
"""Producer and reader of a tensor: two layers, one of them may be ``OUTSIDE``."""


@dataclass(frozen=True)
class Chain:
    """Layers that each have only the one before to read from, or a single layer.

    Attributes:
        steps: For each layer, itself and its counterparts in the other copies of a module.
    """

    steps: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Terminal:
    """Where tensors come in or go out.

    Attributes:
        tensor: An input or output of the model; empty for the edge of a module.
    """

    tensor: str


@dataclass(frozen=True)
class Repeated:
    """A module that occurs several times, with the inside of one copy."""

    module: Module
    inside: Outline


Node = Chain | Terminal | Repeated


@dataclass(frozen=True)
class Outline:
    """A directed acyclic graph.

    Attributes:
        nodes: In topological order.
        edges: By the positions of two nodes, the pairs of layers that the edge stands for.
    """

    nodes: tuple[Node, ...]
    edges: Mapping[tuple[int, int], Collection[Pair]]


_Edges = dict[tuple[Hashable, Hashable], set[Pair]]


def outline(model: Model, modules: Sequence[Module] = ()) -> Outline:
    """Draws a model together.

    Args:
        model: In canonical form.
        modules: To be shown once each; they do not overlap.
    """
    pairs = list(layer_graph(model).edges)
    owners = {i: each for each in modules for i in range(each.start, each.end)}
    edges: _Edges = {}

    def place(layer: int) -> Hashable:
        return owners.get(layer, layer)

    for a, b in pairs:
        if place(a) != place(b):
            edges.setdefault((place(a), place(b)), set()).add((a, b))
    entering = [(name, i) for name in model.inputs for i in model.consumers.get(name, ())]
    for name, i in entering:
        edges.setdefault((("in", name), place(i)), set()).add((OUTSIDE, i))
    leaving = [(name, model.producers[name]) for name in model.outputs if name in model.producers]
    for name, i in leaving:
        edges.setdefault((place(i), ("out", name)), set()).add((i, OUTSIDE))
    pairs += [*((OUTSIDE, i) for _, i in entering), *((i, OUTSIDE) for _, i in leaving)]
    keys = dict.fromkeys(
        (
            *(("in", name) for name, _ in entering),
            *(place(i) for i in range(len(model.layers))),
            *(("out", name) for name, _ in leaving),
        )
    )

    def node(key: Hashable) -> Node:
        if isinstance(key, Module):
            return Repeated(key, _inside(key, pairs))
        assert isinstance(key, tuple)
        return Terminal(key[1])

    return _assembled(keys, edges, lambda layer: (layer,), node)


def _inside(module: Module, pairs: Iterable[Pair]) -> Outline:
    """One copy; its edges are those of all copies."""
    start, period = module.start, module.period
    edges: _Edges = {}
    for a, b in pairs:
        within = a in module and b in module and (a - start) // period == (b - start) // period
        if within:
            edges.setdefault(((a - start) % period, (b - start) % period), set()).add((a, b))
            continue
        if b in module:
            edges.setdefault(("in", (b - start) % period), set()).add((a, b))
        if a in module:
            edges.setdefault(((a - start) % period, "out"), set()).add((a, b))
    keys = ["in", *range(period), "out"]
    used = {key for edge in edges for key in edge}
    return _assembled(
        [key for key in keys if key in used or isinstance(key, int)],
        edges,
        lambda i: tuple(range(start + i, module.end, period)),
        lambda key: Terminal(""),
    )


def _assembled(
    keys: Iterable[Hashable],
    edges: _Edges,
    step: Callable[[int], tuple[int, ...]],
    node: Callable[[Hashable], Node],
) -> Outline:
    """Joins the keys that are layers to chains.

    Args:
        keys: In topological order; those that are layers are integers.
        edges: Between keys.
        step: What a layer's key stands for.
        node: What another key stands for.
    """
    after: dict[Hashable, list[Hashable]] = {}
    before: dict[Hashable, list[Hashable]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
        before.setdefault(b, []).append(a)
    nodes: list[Node] = []
    positions: dict[Hashable, int] = {}
    for key in keys:
        if key in positions:
            continue
        positions[key] = len(nodes)
        if not isinstance(key, int):
            nodes.append(node(key))
            continue
        steps, last = [step(key)], key
        while len(after.get(last, ())) == 1:
            (following,) = after[last]
            if not isinstance(following, int) or len(before[following]) > 1:
                break
            positions[following] = len(nodes)
            steps.append(step(following))
            last = following
        nodes.append(Chain(tuple(steps)))
    joined: dict[tuple[int, int], set[Pair]] = {}
    for (a, b), pairs in edges.items():
        if positions[a] != positions[b]:
            joined.setdefault((positions[a], positions[b]), set()).update(pairs)
    return Outline(tuple(nodes), joined)

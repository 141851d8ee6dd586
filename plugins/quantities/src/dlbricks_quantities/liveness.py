"""Liveness: bytes of feature maps that are there while each layer of a model runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbricks_core.bricks.extract import extract

if TYPE_CHECKING:
    from dlbricks_core.bricks.brickset import CutModel
    from dlbricks_core.ir import CanonicalModel


@dataclass(frozen=True)
class LiveBytes:
    """Most bytes of feature maps that are there at a time while a brick runs.

    Attributes:
        alone: Where the brick is a model of its own, whose inputs stay from beginning to end.
        within: In the model that it is cut from, at the occurrence where most are there.
    """

    alone: int
    within: int

    @property
    def more_within(self) -> int:
        """Live bytes of the model outside of the brick."""
        return self.within - self.alone


def live_bytes_by_layer(model: CanonicalModel) -> tuple[int, ...]:
    """Bytes of inputs and results that are there while each layer runs.

    The model's inputs belong to the caller and stay. A result is there from the layer that makes
    it to the last that reads it, or to the end if it is an output.
    """
    return tuple(during for during, _ in _live_bytes(model))


def handed_on_bytes(model: CanonicalModel) -> int:
    """Most bytes of results that are there between two layers, for later layers to read.

    No plan of a run's memory takes less. While a layer runs there may be more bytes, unless it
    overwrites its input with its result. The model's inputs belong to the caller and do not count.
    """
    given = sum(model.tensors[name].nbytes for name in set(model.inputs))
    return max((after - given for _, after in _live_bytes(model)), default=0)


def apart_bytes(model: CanonicalModel) -> int:
    """Additional bytes of a run if the results of a graph have separate memory.

    In the middle of a model, the result of a layer takes the memory of a dead feature map. Some
    frameworks leave that place unused for a result of the whole graph.
    """
    results = {*model.outputs}.difference(model.inputs)
    reused = max(live_bytes_by_layer(model), default=0)
    others = max((during for during, _ in _live_bytes(model, results)), default=0)
    return others + sum(model.tensors[name].nbytes for name in results) - reused


def _live_bytes(model: CanonicalModel, without: Collection[str] = ()) -> Iterator[tuple[int, int]]:
    """Bytes of inputs and results that are there while each layer runs, and after it."""
    held = sum(model.tensors[name].nbytes for name in set(model.inputs))
    ends = {*model.inputs, *model.outputs}
    for index, layer in enumerate(model.layers):
        made = {name for name in layer.outputs if name}.difference(without)
        held += sum(model.tensors[name].nbytes for name in made)
        during = held
        over = {
            name
            for name in made.union(model.activations(layer))
            if model.consumers.get(name, (index,))[-1] == index
        }
        held -= sum(model.tensors[name].nbytes for name in over.difference(ends))
        yield during, held


def live_bytes(cut: CutModel) -> Mapping[str, LiveBytes]:
    """Feature maps beside which each brick of a model runs, by the brick's signature."""
    graph = cut.graph
    by_layer = live_bytes_by_layer(graph)
    found: dict[str, LiveBytes] = {}
    for each in cut.occurrences:
        within = max(by_layer[index] for index in each.layers)
        known = found.get(each.signature)
        if known is None:
            brick = extract(graph, each.layers, each.signature)
            found[each.signature] = LiveBytes(max(live_bytes_by_layer(brick)), within)
        elif within > known.within:
            found[each.signature] = LiveBytes(known.alone, within)
    return found


# Copies of a network beside each other, as one network.


def side_by_side(model: CanonicalModel, copies: int) -> CanonicalModel:
    """A network of several copies of a network, which share no tensor and run one after the other.

    Args:
        model: Model in canonical form.
        copies: Number of copies, 1 or more.
    """
    numbered = [_renamed(model, f"c{number}_") for number in range(copies)]
    return replace(
        model,
        layers=tuple(layer for each in numbered for layer in each.layers),
        inputs=tuple(name for each in numbered for name in each.inputs),
        outputs=tuple(name for each in numbered for name in each.outputs),
        tensors={name: spec for each in numbered for name, spec in each.tensors.items()},
        weights=frozenset().union(*(each.weights for each in numbered)),
        constants={name: value for each in numbered for name, value in each.constants.items()},
    )


def _renamed(model: CanonicalModel, prefix: str) -> CanonicalModel:
    """The model with a prefix before the names of all its tensors and layers."""

    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name and prefix + name for name in names)

    return replace(
        model,
        layers=tuple(
            replace(
                layer,
                name=prefix + layer.name,
                inputs=named(layer.inputs),
                outputs=named(layer.outputs),
                captures=named(layer.captures),
            )
            for layer in model.layers
        ),
        inputs=named(model.inputs),
        outputs=named(model.outputs),
        tensors={prefix + name: spec for name, spec in model.tensors.items()},
        weights=frozenset(prefix + name for name in model.weights),
        constants={prefix + name: value for name, value in model.constants.items()},
    )

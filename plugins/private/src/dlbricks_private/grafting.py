"""Layer sequences as parts of others: one after another, side by side, or in place of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from dlbricks_core.bricks import LayerSequence
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def ends_of(graph: CanonicalModel, place: Sequence[int]) -> tuple[str, str] | None:
    """The input and output of a sequence, if it has exactly one of each."""
    inside = set(place)
    layers = [graph.layers[i] for i in place]
    made = {name for layer in layers for name in layer.outputs if name}
    read = {name for layer in layers for name in graph.activations(layer)} - made
    handed_on = {
        name
        for name in made
        if name in graph.output_names or not inside.issuperset(graph.consumers.get(name, ()))
    }
    if len(read) != 1 or len(handed_on) != 1 or any(layer.opaque for layer in layers):
        return None
    return read.pop(), handed_on.pop()


def joined(
    first: CanonicalModel, second: CanonicalModel | None, join: Layer, written: TensorSpec
) -> CanonicalModel:
    """Two sequences with the same input, and a layer that joins their results."""
    begin, end = first.inputs[0], f"{first.outputs[0]}/joined"
    if second is None:
        together, branches = first, (begin, first.outputs[0])
    else:
        prefix = next(_free(first, "beside"))
        names = {name: f"{prefix}/{name}" for name in second.tensors}
        names |= {second.inputs[0]: begin, "": ""}
        together = _with(first, second, names)
        branches = first.outputs[0], names[second.outputs[0]]
    layer = Layer(join.op, branches, (end,), join.attributes)
    return replace(
        together,
        layers=(*together.layers, layer),
        outputs=(end,),
        tensors={**together.tensors, end: written},
    )


def in_a_row(first: CanonicalModel, second: CanonicalModel) -> CanonicalModel:
    """Two sequences as one: the second reads the result of the first."""
    prefix = next(_free(first, "then"))
    names = {name: f"{prefix}/{name}" for name in second.tensors}
    names |= {second.inputs[0]: first.outputs[0], "": ""}
    return replace(_with(first, second, names), outputs=(names[second.outputs[0]],))


def _with(
    first: CanonicalModel, second: CanonicalModel, names: Mapping[str, str]
) -> CanonicalModel:
    """A sequence with the layers of a second one, whose tensors get other names."""
    return replace(
        first,
        layers=(*first.layers, *(_renamed(layer, names) for layer in second.layers)),
        tensors={**first.tensors, **{names[n]: spec for n, spec in second.tensors.items()}},
        weights=first.weights | {names[name] for name in second.weights},
        constants={
            **first.constants,
            **{names[name]: value for name, value in second.constants.items()},
        },
    )


def _free(graph: CanonicalModel, word: str) -> Iterator[str]:
    """First parts of names that no tensor of a graph has, which may be put together itself."""
    taken = {name.partition("/")[0] for name in graph.tensors}
    return (each for number in count() if (each := f"{word}{number}") not in taken)


def _renamed(layer: Layer, names: Mapping[str, str]) -> Layer:
    return replace(
        layer,
        inputs=tuple(map(names.__getitem__, layer.inputs)),
        outputs=tuple(map(names.__getitem__, layer.outputs)),
    )


def grafted(
    graph: CanonicalModel, grafts: Iterable[tuple[LayerSequence, CanonicalModel]]
) -> CanonicalModel:
    """A graph in which other sequences replace runs of its layers, given from first to last.

    Each run has one input and one output.
    """
    layers: list[Layer] = []
    tensors, weights = dict(graph.tensors), set(graph.weights)
    constants = dict(graph.constants)
    reached = 0
    for (place, piece), prefix in zip(grafts, _free(graph, "graft"), strict=False):
        ends = ends_of(graph, place)
        assert ends is not None
        layers += graph.layers[reached : place[0]]
        reached = place[-1] + 1
        names = {name: f"{prefix}/{name}" for name in piece.tensors}
        names |= {piece.inputs[0]: ends[0], piece.outputs[0]: ends[1], "": ""}
        tensors |= {names[name]: spec for name, spec in piece.tensors.items()}
        weights |= {names[name] for name in piece.weights}
        constants |= {names[name]: value for name, value in piece.constants.items()}
        layers += [_renamed(layer, names) for layer in piece.layers]
    layers += graph.layers[reached:]
    return only_used(
        replace(
            graph,
            layers=tuple(layers),
            tensors=tensors,
            weights=frozenset(weights),
            constants=constants,
        )
    )


def only_used(graph: CanonicalModel) -> CanonicalModel:
    """A graph without the tensors that are neither its own ends nor those of a layer."""
    used = {name for layer in graph.layers for name in (*layer.reads, *layer.outputs)}
    used |= {*graph.inputs, *graph.outputs}
    return replace(
        graph,
        tensors={name: spec for name, spec in graph.tensors.items() if name in used},
        weights=graph.weights & used,
        constants={name: value for name, value in graph.constants.items() if name in used},
    )

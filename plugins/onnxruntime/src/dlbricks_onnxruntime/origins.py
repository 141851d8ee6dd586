"""What the layers of an optimized graph were made from, and their order.

ONNX Runtime names what it makes after what it finds. Where its blocked layout ends it inserts
conversions in the order of a table of pointers, and sorts the graph by what comes of that:
two processes see two orders of one graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import networkx as nx

from dlbricks_core.ir import Model, layer_graph

_BLOCKED = "_nchwc"


def named(model: Model) -> Model:
    """The model with a name of its own for every layer.

    ONNX Runtime derives names of what it makes from those of what it finds, and tells
    layers apart by them when it profiles.
    """
    names = {layer.name for layer in model.layers}
    if "" not in names and len(names) == len(model.layers):
        return model
    layers = (replace(layer, name=f"{layer.op}_{i}") for i, layer in enumerate(model.layers))
    return replace(model, layers=tuple(layers))


def origins(model: Model) -> dict[str, tuple[str, ...]]:
    """By the names of layers that are made of a model: which of its tensors they compute.

    What a layer computes in blocked layout has another name than the tensor of the model; the
    layer itself is named after that, or keeps the name that it had.

    Args:
        model: As :func:`named` gives it.
    """
    blocked = {f"{name}{_BLOCKED}": (name,) for name in model.producers}
    return blocked | {layer.name: layer.outputs for layer in model.layers}


def in_original_order(made: Model, model: Model) -> Model:
    """The same graph with its layers in the order in which the model has theirs.

    That is the same for blocks that are alike, and whatever order ONNX Runtime had them in.

    Args:
        made: What ONNX Runtime makes of the model.
        model: As :func:`named` gives it.
    """
    keys = _keys(made, model)
    order = nx.lexicographical_topological_sort(layer_graph(made), key=keys.__getitem__)
    return replace(made, layers=tuple(made.layers[i] for i in order))


_Key = tuple[int, int, int]
"""Position of the layer that one is made from. What is made from none comes before its first
reader: how many layers before, and as which of its inputs."""


def _keys(made: Model, model: Model) -> Mapping[int, _Key]:
    known = origins(model)
    keys: dict[int, _Key] = {}
    for i, layer in reversed(list(enumerate(made.layers))):
        computed = (*layer.outputs, *known.get(layer.name, ()))
        places = [model.producers[name] for name in computed if name in model.producers]
        readers = {
            (keys[reader][0], keys[reader][1] - 1, made.layers[reader].reads.index(name))
            for name in layer.outputs
            for reader in made.consumers.get(name, ())
        }
        keys[i] = (min(places), 0, 0) if places else min(readers, default=(len(model.layers), 0, 0))
    return keys

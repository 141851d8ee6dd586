"""Origins of the layers of an optimized graph, and an order that is always the same.

ONNX Runtime names what it makes after what it finds. Where its blocked layout ends it inserts
conversions in the order of a table of pointers, and sorts the graph by what comes of that:
two processes see two orders of one graph.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from dlbricks_core.ir import CanonicalModel, RawModel

_BLOCKED = "_nchwc"


def named(model: CanonicalModel) -> CanonicalModel:
    """The model with a different name for every layer.

    ONNX Runtime derives names of what it makes from those of what it finds, and tells
    layers apart by them when it profiles.
    """
    names = {layer.name for layer in model.layers}
    if "" not in names and len(names) == len(model.layers):
        return model
    layers = (replace(layer, name=f"{layer.op}_{i}") for i, layer in enumerate(model.layers))
    return replace(model, layers=tuple(layers))


def origins(model: CanonicalModel) -> dict[str, tuple[str, ...]]:
    """Tensors of the model that each layer of its optimized graph computes, by the layer's name.

    What a layer computes in blocked layout has another name than the tensor of the model; the
    layer itself is named after that, or keeps the name that it had.

    Args:
        model: CanonicalModel as :func:`named` returns it.
    """
    blocked = {f"{name}{_BLOCKED}": (name,) for name in model.producers}
    return blocked | {layer.name: layer.outputs for layer in model.layers}


def in_order(made: RawModel) -> RawModel:
    """The same graph in an order that does not depend on the one in which its layers come.

    Each layer comes right before the first that reads it, the inputs of a layer in their order:
    blocks that are alike have the same order.

    Args:
        made: Graph that ONNX Runtime made of a model.
    """
    graph = nx.DiGraph()
    end = len(made.layers)
    producers = made.producers
    for reader, read in ((end, made.outputs), *((i, e.reads) for i, e in enumerate(made.layers))):
        graph.add_edges_from((reader, producers[name]) for name in read if name in producers)
    graph.add_edges_from((end, i) for i in range(end))  # what nobody reads comes last
    order = [i for i in nx.dfs_postorder_nodes(graph, end) if i != end]
    return replace(made, layers=tuple(made.layers[i] for i in order))

"""Origins of the layers of an optimized graph, and a deterministic order for them.

ONNX Runtime derives the names of new layers from the names of the original layers. At the
boundaries of its blocked layout it inserts conversions in the order of a table of pointers, and
then sorts the graph accordingly. So two processes see two orders of one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import networkx as nx

from dlbricks_core.bricks import in_layout
from dlbricks_core.ir import CanonicalModel, Layer, RawModel

_BLOCKED = ("_bn_nchwc", "_nchwc")
"""Suffixes of a tensor's name in the names of layers in blocked layout. The first one marks former
batch normalizations.
"""

_LAYOUT = "nchwc"
_INTO_BLOCKS = "ReorderInput"

_ADDED = 3
"""Position of the input that a convolution in blocked layout adds to its result."""

_SUMS = {"Add", "Sum"}


def named(model: CanonicalModel) -> CanonicalModel:
    """The model with a different name for every layer.

    ONNX Runtime derives names of new layers from names of the original layers, and its profiler
    identifies layers by name.
    """
    names = {layer.name for layer in model.layers}
    if "" not in names and len(names) == len(model.layers):
        return model
    layers = (replace(layer, name=f"{layer.op}_{i}") for i, layer in enumerate(model.layers))
    return replace(model, layers=tuple(layers))


def origins(model: CanonicalModel) -> dict[str, tuple[str, ...]]:
    """Tensors of the model that each layer of its optimized graph computes, by the layer's name.

    The result of a layer in blocked layout has another name than the tensor of the model. The layer
    is named after that tensor, or keeps its original name.

    Args:
        model: CanonicalModel as :func:`named` returns it.
    """
    blocked = {f"{name}{end}": (name,) for end in _BLOCKED for name in model.producers}
    return blocked | {layer.name: layer.outputs for layer in model.layers}


def restored(made: RawModel, model: CanonicalModel) -> RawModel:
    """The graph with the names of :func:`restored_names` for tensors in blocked layout."""
    names = restored_names(made.layers, model)
    layers = (
        replace(
            layer,
            inputs=tuple(names.get(name, name) for name in layer.inputs),
            outputs=tuple(names.get(name, name) for name in layer.outputs),
        )
        for layer in made.layers
    )
    tensors = {names.get(name, name): spec for name, spec in made.tensors.items()}
    return replace(made, layers=tuple(layers), tensors=tensors)


def restored_names(layers: Iterable[Layer], model: CanonicalModel) -> dict[str, str]:
    """Names for tensors in blocked layout, derived from the model's tensors instead of numbers.

    A tensor whose origin is unknown keeps its number.

    Args:
        layers: Layers of the graph that ONNX Runtime made of the model, in topological order.
        model: CanonicalModel as :func:`named` returns it.
    """
    firsts = origins(model)
    origin: dict[str, str] = {}
    names: dict[str, str] = {}
    for layer in layers:
        made = layer.outputs[0]
        if made in model.tensors:
            continue
        if layer.op == _INTO_BLOCKS:
            name = origin.get(layer.inputs[0], layer.inputs[0])
        else:
            name = _last_fused(model, firsts.get(layer.name, ("",))[0], layer, origin)
        blocked = in_layout(name, _LAYOUT)
        if name in model.tensors and blocked not in names.values():
            origin[made], names[made] = name, blocked
    return names


def _last_fused(model: CanonicalModel, name: str, layer: Layer, origin: Mapping[str, str]) -> str:
    """Tensor of the model that a layer in blocked layout computes; empty if that is unknown.

    The layer is named after its convolution. The name does not show what ONNX Runtime fuses into it
    later: a sum, and an activation function.

    Args:
        model: As for :func:`restored_names`.
        name: Tensor of the model that the layer is named after.
        layer: The layer.
        origin: Tensors of the model that blocked tensors hold.
    """
    if layer.op == "Conv" and len(layer.inputs) > _ADDED and layer.inputs[_ADDED]:
        added = origin.get(layer.inputs[_ADDED], layer.inputs[_ADDED])
        name = _only_reader(model, name, lambda each: each.op in _SUMS and added in each.inputs)
    activation = layer.attributes.get("activation")
    if name and activation and model.layers[model.producers[name]].op != activation:
        name = _only_reader(model, name, lambda each: each.op == activation)
    return name


def _only_reader(model: CanonicalModel, name: str, wanted: Callable[[Layer], bool]) -> str:
    """Result of the only layer that reads a tensor; empty if it is not of the wanted kind."""
    readers = model.consumers.get(name, ()) if name else ()
    layer = model.layers[readers[0]] if len(readers) == 1 else None
    return layer.outputs[0] if layer and wanted(layer) else ""


def in_order(made: RawModel) -> RawModel:
    """The graph in an order that does not depend on its original order.

    Each layer comes right before its first reader, and the inputs of a layer come in their order.
    So equal blocks have the same order.

    Args:
        made: Graph that ONNX Runtime made of a model.
    """
    graph = nx.DiGraph()
    end = len(made.layers)
    producers = made.producers
    for reader, read in ((end, made.outputs), *((i, e.reads) for i, e in enumerate(made.layers))):
        graph.add_edges_from((reader, producers[name]) for name in read if name in producers)
    graph.add_edges_from((end, i) for i in range(end))  # layers without a reader come last
    order = [i for i in nx.dfs_postorder_nodes(graph, end) if i != end]
    return replace(made, layers=tuple(made.layers[i] for i in order))

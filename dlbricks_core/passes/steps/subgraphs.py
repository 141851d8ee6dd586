"""Subgraphs as layers of the model around them: reading, renaming, lowering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import GraphProto, ModelProto, helper

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir import Attribute, Layer, RawModel, Subgraph, read_model
from dlbricks_core.passes.steps.lowering import Lowering


def read_subgraph(layer: Layer, key: str, lowering: Lowering) -> RawModel:
    """A subgraph of a layer.

    Raises:
        ModelError: If it cannot be read.
    """
    graph = layer.attributes.get(key)
    if not isinstance(graph, Subgraph):
        raise ModelError(f"{layer.op} has no {key}", hint=INVALID_MODEL)
    outside = [name for name in layer.captures if name in lowering.tensors]
    proto = ModelProto(graph=GraphProto.FromString(graph.proto))
    opsets = lowering.model.opsets
    known = {**opsets, "": layer.opset} if layer.opset else opsets
    proto.opset_import.extend(helper.make_opsetid(*item) for item in known.items())
    proto.graph.input.extend(helper.make_empty_tensor_value_info(name) for name in outside)
    return read_model(proto, name=key)


def renamed(branch: RawModel, layer: Layer, names: Mapping[str, str]) -> RawModel:
    """A subgraph with names that fit the enclosing model.

    Args:
        branch: The subgraph.
        layer: The layer that it belongs to.
        names: New name of each of its tensors; what it reads of the enclosing model keeps its own.
    """
    names = {"": "", **names}
    layers = tuple(
        replace(
            inner,
            inputs=tuple(names[name] for name in inner.inputs),
            outputs=tuple(names[name] for name in inner.outputs),
            captures=tuple(names[name] for name in inner.captures),
            attributes={key: _inside(value, names) for key, value in inner.attributes.items()},
            opset=inner.opset or layer.opset,
        )
        for inner in branch.layers
    )
    given = set(branch.inputs)
    return replace(
        branch,
        layers=layers,
        tensors={names[name]: spec for name, spec in branch.tensors.items() if name not in given},
        weights=frozenset(names[name] for name in branch.weights),
        constants={names[name]: value for name, value in branch.constants.items()},
    )


def take_all(branch: RawModel, lowering: Lowering) -> None:
    """Lowers the layers of a renamed subgraph in place of the layer that it belongs to."""
    for name, spec in branch.tensors.items():
        lowering.declared.setdefault(name, spec)
    for name in branch.weights:
        lowering.tensors[name] = branch.tensors[name]
        lowering.add_weight(name, branch.constants.get(name))
    lowering.inlined = True
    lowering.captured.update(name for inner in branch.layers for name in inner.captures)
    for inner in branch.layers:
        lowering.take(inner)


def _inside(value: Attribute, names: Mapping[str, str]) -> Attribute:
    """An attribute, with the enclosing model's new names in the subgraph that it may be."""
    if not isinstance(value, Subgraph):
        return value
    graph = GraphProto.FromString(value.proto)
    _rename_captured(graph, names)
    return Subgraph(graph.SerializeToString())


def _rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames, in place, the tensors that the graph reads from its enclosing model."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    captured = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [captured.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                _rename_captured(inner, captured)
    for value in graph.output:
        value.name = captured.get(value.name, value.name)

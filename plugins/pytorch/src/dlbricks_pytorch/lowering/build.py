"""Builds the torch graph of a model, layer by layer, with the table."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import fx

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Layer, Model, numpy_dtype
from dlbricks_pytorch.lowering.context import GraphBuilder, LayerContext
from dlbricks_pytorch.lowering.table import LOWERINGS, UNSUPPORTED
from dlbricks_pytorch.tensors import from_numpy

_FAMILIES = (
    "activation", "attention", "convolution", "elementwise", "indexing", "loss", "matrix",
    "normalization", "padding", "pooling", "quantization", "recurrent", "reduction", "resize",
    "sampling", "shape", "sorting", "spectral", "vision",
)  # fmt: skip

for _family in _FAMILIES:
    import_module(f"dlbricks_pytorch.lowering.{_family}")


Kind = tuple[tuple[str, tuple[str, ...]], frozenset[str]]

_USUAL_TYPES = frozenset(("float32", "float64", "int32", "int64", "bool"))
_REFUSALS = ("not implemented for", "not supported", "dtype", "scalar type", "ScalarType")


def lower(model: Model, weights: Mapping[str, np.ndarray[Any, Any]]) -> fx.GraphModule:
    """The model as a torch module: inputs and outputs in the model's order.

    Raises:
        UnsupportedError: If torch has no exact counterpart for a layer.
    """
    builder = GraphBuilder(model, weights)
    for name in model.inputs:
        builder.add_input(name)
    tried: dict[Kind, str] = {}
    for layer in model.layers:
        _lower_layer(builder, layer)
        refusal = _type_refusal(model, layer, tried)
        if refusal:
            raise UnsupportedError(refusal)
    builder.graph.output(tuple(builder.node(name) for name in model.outputs))
    return fx.GraphModule(builder.root, builder.graph, class_name="Network")


def unsupported_layers(model: Model) -> dict[int, str]:
    """Index of each layer that torch cannot run, with the reason; needs no weights.

    A layer is built to see whether its operator and attributes have a counterpart. Torch
    does not say which element types an operator takes, so a layer with other types than
    the usual ones is also run once on zeros, the first of its kind only.
    """
    reasons: dict[int, str] = {}
    tried: dict[Kind, str] = {}
    for index, layer in enumerate(model.layers):
        try:
            _build_alone(model, layer, None)
        except UnsupportedError as error:
            reasons[index] = str(error)
            continue
        refusal = _type_refusal(model, layer, tried)
        if refusal:
            reasons[index] = refusal
    return reasons


def _type_refusal(model: Model, layer: Layer, tried: dict[Kind, str]) -> str:
    """Why torch refuses the element types of a layer that can be built; mostly empty."""
    kind = _kind(model, layer)
    if kind[1] <= _USUAL_TYPES:
        return ""
    if kind not in tried:
        tried[kind] = _try_on_zeros(model, layer)
    return tried[kind]


def _build_alone(
    model: Model, layer: Layer, weights: Mapping[str, np.ndarray[Any, Any]] | None
) -> GraphBuilder:
    builder = GraphBuilder(model, weights)
    for name in model.activations(layer):
        builder.add_input(name)
    _lower_layer(builder, layer)
    return builder


def _kind(model: Model, layer: Layer) -> Kind:
    types = tuple(model.tensors[name].dtype for name in (*layer.inputs, *layer.outputs) if name)
    return (layer.qualified_op, types), frozenset(types)


def _try_on_zeros(model: Model, layer: Layer) -> str:
    """Why torch refuses the layer's element types; empty where it does not."""

    def zeros(name: str) -> np.ndarray[Any, Any]:
        spec = model.tensors[name]
        return np.zeros(spec.sizes, numpy_dtype(spec.dtype))

    builder = _build_alone(model, layer, {n: zeros(n) for n in layer.reads if n in model.weights})
    builder.graph.output(tuple(builder.node(name) for name in layer.outputs if name))
    module = fx.GraphModule(builder.root, builder.graph)
    try:
        with torch.inference_mode():
            module.forward(*(from_numpy(zeros(name)) for name in model.activations(layer)))
    except Exception as error:  # noqa: BLE001 - only what torch says of types is a finding here
        message = str(error).strip().splitlines()[0] if str(error).strip() else ""
        if any(words in message for words in _REFUSALS):
            return f"{layer.qualified_op}: torch: {message}"
    return ""


def _lower_layer(builder: GraphBuilder, layer: Layer) -> None:
    operator = layer.qualified_op
    if layer.opaque:
        raise UnsupportedError(f"{operator}: {layer.opaque}")
    function = LOWERINGS.get(operator)
    if function is None:
        reason = UNSUPPORTED.get(operator, "no torch operator is known that computes it")
        raise UnsupportedError(f"{operator}: {reason}")
    result = function(LayerContext(builder, layer))
    results = result if isinstance(result, tuple) else (result,)
    for position, name in enumerate(layer.outputs):
        if not name:
            continue
        node = results[position] if position < len(results) else None
        if node is None:
            raise UnsupportedError(f"{operator}: torch does not compute output {position}")
        builder.bind(name, node)

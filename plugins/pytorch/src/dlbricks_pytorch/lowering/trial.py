"""Layers one at a time: whether torch has a counterpart, and takes their element types.

Torch does not say which element types an operator takes. So a layer with other types than the
usual ones runs once on zeros, the first of its kind only.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import fx

from dlbricks_core.backends import Array
from dlbricks_core.ir import CanonicalModel, Layer, numpy_dtype
from dlbricks_pytorch.lowering import families as families  # fills the table
from dlbricks_pytorch.lowering.context import GraphBuilder, Weights
from dlbricks_pytorch.lowering.table import lower_layer
from dlbricks_pytorch.tensors import from_numpy

_USUAL_TYPES = frozenset(("float32", "float64", "int32", "int64", "bool"))
_REFUSALS = ("not implemented for", "not supported", "dtype", "scalar type", "ScalarType")


def build_alone(
    model: CanonicalModel, layer: Layer, weights: Weights | None = None
) -> GraphBuilder:
    """Graph of a single layer of a model.

    Args:
        model: CanonicalModel in canonical form.
        layer: One of its layers.
        weights: Values of the layer's weights; none are needed to see whether it can be built.

    Raises:
        UnsupportedError: If torch has no exact counterpart for the layer.
    """
    builder = GraphBuilder(model, weights)
    for name in model.activations(layer):
        builder.add_input(name)
    lower_layer(builder, layer)
    return builder


class TypeTrial:
    """Tries on which element types layers run, each kind of layer once.

    Args:
        model: CanonicalModel in canonical form.
    """

    def __init__(self, model: CanonicalModel) -> None:
        self._model = model
        self._tried: dict[tuple[str, ...], str] = {}

    def refusal(self, layer: Layer) -> str:
        """Why torch refuses the element types of a layer that can be built; mostly empty."""
        names = filter(None, (*layer.inputs, *layer.outputs))
        types = tuple(self._model.tensors[name].dtype for name in names)
        if _USUAL_TYPES.issuperset(types):
            return ""
        kind = (layer.qualified_op, *types)
        if kind not in self._tried:
            self._tried[kind] = self._on_zeros(layer)
        return self._tried[kind]

    def _on_zeros(self, layer: Layer) -> str:
        model = self._model
        weights = {name: self._zeros(name) for name in layer.reads if name in model.weights}
        builder = build_alone(model, layer, weights)
        builder.graph.output(tuple(builder.node(name) for name in layer.outputs if name))
        module = fx.GraphModule(builder.root, builder.graph)
        inputs = (from_numpy(self._zeros(name)) for name in model.activations(layer))
        try:
            with torch.inference_mode():
                module.forward(*inputs)
        except Exception as error:  # noqa: BLE001 - only what torch says of types is a finding here
            message = str(error).strip().splitlines()[0] if str(error).strip() else ""
            if any(words in message for words in _REFUSALS):
                return f"{layer.qualified_op}: torch: {message}"
        return ""

    def _zeros(self, name: str) -> Array:
        spec = self._model.tensors[name]
        return np.zeros(spec.sizes, numpy_dtype(spec.dtype))

"""Trials of single layers: whether torch has a counterpart, and supports their element types.

Torch does not declare the element types of its operators. So a layer with unusual types runs once
on zeros, only the first of its kind. If that fails with another error than "not implemented", the
layer runs on the usual types. If it then succeeds, the types were the reason.
"""

from __future__ import annotations

from dataclasses import replace

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
_WIDER = {
    **dict.fromkeys(("float16", "bfloat16"), "float32"),
    **dict.fromkeys(("int8", "int16", "uint8", "uint16", "uint32", "uint64"), "int64"),
}
"""Usual type that replaces another one in a trial."""


def build_alone(
    model: CanonicalModel, layer: Layer, weights: Weights | None = None
) -> GraphBuilder:
    """Graph of a single layer of a model.

    Args:
        model: Model in canonical form.
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
    """Tries the element types of layers, once for each kind of layer.

    Args:
        model: Model in canonical form.
    """

    def __init__(self, model: CanonicalModel) -> None:
        self._model = model
        self._tried: dict[tuple[str, ...], str] = {}

    def refusal(self, layer: Layer) -> str:
        """Reason why torch rejects the element types of a layer; usually empty."""
        names = filter(None, (*layer.inputs, *layer.outputs))
        types = tuple(self._model.tensors[name].dtype for name in names)
        if _USUAL_TYPES.issuperset(types):
            return ""
        kind = (layer.qualified_op, *types)
        if kind not in self._tried:
            self._tried[kind] = self._on_zeros(layer)
        return self._tried[kind]

    def _on_zeros(self, layer: Layer) -> str:
        error = _error(self._model, layer)
        if error is None:
            return ""
        if not isinstance(error, NotImplementedError) and _error(
            _on_usual_types(self._model), layer
        ):
            return ""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"{layer.qualified_op}: torch: {reason}"


def _error(model: CanonicalModel, layer: Layer) -> Exception | None:
    """Error of a run of a layer on zeros, if any."""
    try:
        weights = {name: _zeros(model, name) for name in layer.reads if name in model.weights}
        builder = build_alone(model, layer, weights)
        builder.graph.output(tuple(builder.node(name) for name in layer.outputs if name))
        module = fx.GraphModule(builder.root, builder.graph)
        with torch.inference_mode():
            module.forward(*(from_numpy(_zeros(model, name)) for name in model.activations(layer)))
        # Module and graph refer to each other, and weights of gigabytes would stay with them.
        for name, _ in list(module.named_buffers()):
            setattr(module, name, None)
    except Exception as error:  # noqa: BLE001 - whoever called decides what it means
        return error
    return None


def _on_usual_types(model: CanonicalModel) -> CanonicalModel:
    tensors = {
        name: replace(spec, dtype=_WIDER.get(spec.dtype, spec.dtype))
        for name, spec in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def _zeros(model: CanonicalModel, name: str) -> Array:
    spec = model.tensors[name]
    return np.zeros(spec.sizes, numpy_dtype(spec.dtype))

"""Scales of quantized biases, which follow from other scales."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_core.operators.table import operator


def bias_scales(model: CanonicalModel) -> Mapping[str, tuple[str, str]]:
    """Scales of biases by name, each with the scales of what is multiplied.

    A bias is added to sums of products of codes, so its scale is the product of theirs. ONNX
    Runtime computes with codes only if it is.
    """
    found: dict[str, tuple[str, str]] = {}
    for layer in model.layers:
        if len(layer.inputs) > 2 and not layer.domain and operator(layer.op).input(2).bias:
            scales = [_scale(model, name) for name in layer.inputs[:3]]
            one, other, bias = scales
            if all(scales) and bias in model.weights and _fits(model, *scales):
                found[bias] = one, other
    # A scale that serves several tensors follows from no other.
    return {bias: pair for bias, pair in found.items() if found.keys().isdisjoint(pair)}


def _scale(model: CanonicalModel, name: str) -> str:
    """Name of the scale with which a tensor is made of codes; empty for another tensor."""
    made: Layer | None = model.layers[model.producers[name]] if name in model.producers else None
    return made.inputs[1] if made is not None and made.op == "DequantizeLinear" else ""


def _fits(model: CanonicalModel, one: str, other: str, bias: str) -> bool:
    shapes = [model.tensors[name].sizes for name in (one, other)]
    try:
        return np.broadcast_shapes(*shapes) == model.tensors[bias].sizes
    except ValueError:
        return False


def scale_of(bias: Array | None, one: Array, other: Array) -> Array:
    """Scale of a bias: the product of two scales, or a known value.

    Args:
        bias: Known scale of the bias, which may be rounded; ``None`` if it is not known.
        one: Scale of the data.
        other: Scale of the weight.
    """
    product = np.asarray(one * other, dtype=one.dtype)
    if bias is not None and not np.allclose(bias, product, rtol=_ROUNDED, atol=0):
        return bias
    return product


_ROUNDED = 0.2
"""Relative difference up to which a scale is a product of rounded ones."""

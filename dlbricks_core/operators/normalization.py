"""Normalizations, of ONNX and of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dlbricks_core.ir import Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    DATA,
    OWN,
    Input,
    Operator,
    Specs,
    attribute_of,
    each_output,
    has,
    kept,
    row,
    rows_of,
    size,
    unit,
)
from dlbricks_core.operators.weights import NEAR_ONE, SMALL


def _window(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Squares, sum over the window, scale and bias, power, division; for each output element."""
    width: int = attribute_of(layer, "size")
    return (1 + (width - 1) + 2 + 1 + 1) * size(outputs)


def _shifted(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Mean, difference to it, variance (2), division, scale, optional bias; an output element."""
    return (6 + (len(inputs) > 2)) * size(outputs)


def _skip(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A sum, then: mean, difference, variance (2), division, scale, optional shift."""
    return size(outputs) * (7 + has(inputs, 3) + has(inputs, 4))


_TABLE = Input(table=True)


_row = partial(row, power=unit)

_MAP, _ROWWISE = "normalization:map", "normalization:row"
_SCALED = (DATA, NEAR_ONE, SMALL)

ROWS: Mapping[str, Operator] = {
    # Scale and shift; both are computed from the weights in advance.
    "BatchNormalization": _row(
        "scale", each_output(2), *_SCALED, SMALL, NEAR_ONE, power=kept, shape=shapes.per_channel
    ),
    "GroupNormalization": _row(_MAP, _shifted, *_SCALED, shape=shapes.per_channel),
    "InstanceNormalization": _row(_MAP, _shifted, *_SCALED, shape=shapes.per_channel),
    "LayerNormalization": _row(_ROWWISE, _shifted, *_SCALED, channels_last=True),
    "LpNormalization": _row(_MAP, each_output(3), DATA, shape=shapes.same),
    "LRN": _row("normalization:window", _window, DATA, power=kept, shape=shapes.same),
    "MeanVarianceNormalization": _row(_MAP, each_output(5), DATA, shape=shapes.same),
    # Square and mean (2), division, scale.
    "RMSNormalization": _row(_ROWWISE, each_output(4), DATA, NEAR_ONE, channels_last=True),
    "SimplifiedLayerNormalization": _row(OWN, each_output(4), DATA, NEAR_ONE, channels_last=True),
    "com.microsoft.SkipLayerNormalization": _row(
        OWN, _skip, DATA, DATA, NEAR_ONE, SMALL, DATA, channels_last=True
    ),
    # A sum, then: square and mean (2), division, scale.
    "com.microsoft.SkipSimplifiedLayerNormalization": _row(
        OWN, each_output(5, bias=3), DATA, DATA, NEAR_ONE, DATA, channels_last=True
    ),
    # Sums of embeddings, and a normalization.
    "com.microsoft.EmbedLayerNormalization": _row(
        OWN, each_output(9), rows_of(2), rows_of(4), _TABLE, _TABLE, _TABLE, NEAR_ONE, DATA, DATA,
        rows_of(3),
    ),
    # Embeddings are made of codes besides: a shift and a scale for each of three.
    "com.microsoft.QEmbedLayerNormalization": _row(
        OWN, each_output(15), rows_of(2), rows_of(4), _TABLE, _TABLE, _TABLE, *(DATA,) * 13
    ),
}  # fmt: skip

"""Operators that stand for many: attention, recurrent layers, normalizations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from dlbricks_core.ir import Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    DATA,
    LATE,
    NEAR_ONE,
    RECURRENT,
    SMALL,
    FlopsRule,
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
    sizes,
    unit,
    whole,
)

# Definitions of recurrent operators.

#: Default activation functions of one direction, by operator.
GATE_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "RNN": ("Tanh",),
}


# Attention and embeddings of positions: operations

_SOFTMAX = 5
"""Operations for each score: maximum, difference, exponential, sum, division."""


def attended(
    batch: int, heads: int, steps: int, keys: int, width: int, values: int | None = None
) -> int:
    """Operations of both products of attention and of its softmax, without a mask.

    Args:
        batch: Number of texts.
        heads: Number of heads of the query.
        steps: Length of the query.
        keys: Length of the key.
        width: Elements of a query or key of one head.
        values: Elements of a value of one head, if that is another number.
    """
    both = 2 * width + 2 * (width if values is None else values)
    return batch * heads * steps * keys * (both + _SOFTMAX)


def _standard(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    query, key, value = (sizes(inputs, position) for position in range(3))
    heads = shared = 1
    if len(query) == 3:
        heads, shared = attribute_of(layer, "q_num_heads"), attribute_of(layer, "kv_num_heads")
    width, values = query[-1] // heads, value[-1] // shared
    past = sizes(inputs, 4)[2] if has(inputs, 4) else 0
    count = heads if len(query) == 3 else query[1]
    return attended(query[0], count, query[-2], key[-2] + past, width, values)


def _valid_keys(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return sizes(inputs, 1)[-2] + 1


ATTENTION_ROWS: Mapping[str, Operator] = {
    "Attention": row(
        "attention", _standard, *(DATA,) * 6, Input(parameter=True, below=_valid_keys)
    ),
    "RotaryEmbedding": row(LATE, each_output(3), DATA, DATA, DATA, rows_of(1)),
}  # fmt: skip


# Recurrent layers.


def lengths(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Lengths of sequences: at most the number of steps."""
    return sizes(inputs, 0)[1 if whole(layer, "layout") else 0] + 1


def _cells(gates: int, states: int) -> FlopsRule:
    """Rule of recurrent layers: matrix products, both biases, activations, updates of the state.

    Args:
        gates: Number of vectors that are computed from input and state.
        states: Number of further operations for each element of the state.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        directions, rows, width = sizes(inputs, 1)
        hidden = rows // gates
        biases = 2 if len(inputs) > 3 and inputs[3] is not None else 0
        step = gates * hidden * (2 * (width + hidden) + biases + 1) + states * hidden
        return directions * math.prod(sizes(inputs, 0)[:2]) * step

    return rule


_LENGTHS = Input(parameter=True, below=lengths)


def _recurrent(flops: FlopsRule, states: int) -> Operator:
    """A recurrent layer with so many inputs of initial states and peepholes."""
    return row("recurrent", flops, DATA, RECURRENT, RECURRENT, SMALL, _LENGTHS, *(DATA,) * states,
               power=unit)  # fmt: skip


RECURRENT_ROWS: Mapping[str, Operator] = {
    # Cell, output: c = f c + i g (3), h = o tanh(c) (2).
    "LSTM": _recurrent(_cells(4, 5), states=3),
    # h = (1 - z) n + z h (4), and the reset of the state or of its product.
    "GRU": _recurrent(_cells(3, 5), states=1),
    "RNN": _recurrent(_cells(1, 0), states=1),
    "LinearAttention": row(LATE, LATE, *(DATA,) * 6),
}  # fmt: skip


# Normalizations.


def _window(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Squares, sum over the window, scale and bias, power, division; for each output element."""
    width: int = attribute_of(layer, "size")
    return (1 + (width - 1) + 2 + 1 + 1) * size(outputs)


def _shifted(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Mean, difference to it, variance (2), division, scale, optional bias; an output element."""
    return (6 + (len(inputs) > 2)) * size(outputs)


_normalization = partial(row, power=unit)

_MAP, _ROWWISE = "normalization:map", "normalization:row"
_SCALED = (DATA, NEAR_ONE, SMALL)

NORMALIZATION_ROWS: Mapping[str, Operator] = {
    # Scale and shift; both are computed from the weights in advance.
    "BatchNormalization": _normalization(
        "scale", each_output(2), *_SCALED, SMALL, NEAR_ONE, power=kept, shape=shapes.per_channel
    ),
    "GroupNormalization": _normalization(_MAP, _shifted, *_SCALED, shape=shapes.per_channel),
    "InstanceNormalization": _normalization(_MAP, _shifted, *_SCALED, shape=shapes.per_channel),
    "LayerNormalization": _normalization(_ROWWISE, _shifted, *_SCALED, channels_last=True),
    "LpNormalization": _normalization(_MAP, each_output(3), DATA, shape=shapes.same),
    "LRN": _normalization("normalization:window", _window, DATA, power=kept, shape=shapes.same),
    "MeanVarianceNormalization": _normalization(_MAP, each_output(5), DATA, shape=shapes.same),
    # Square and mean (2), division, scale.
    "RMSNormalization": _normalization(
        _ROWWISE, each_output(4), DATA, NEAR_ONE, channels_last=True
    ),
}  # fmt: skip

"""Operators that stand for many: attention, recurrent layers, normalizations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from dlbricks_core.ir import Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    CODES,
    COLUMNS,
    DATA,
    LATE,
    MIDDLE,
    NEAR_ONE,
    OWN,
    PARAMETER,
    RECURRENT,
    SCALE,
    SMALL,
    TURN,
    WEIGHT_SCALE,
    ZERO_POINT,
    FlopsRule,
    Input,
    LengthRule,
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


# Attention, of ONNX and of ONNX Runtime, and embeddings of positions: operations

_SOFTMAX = 5
"""Operations for each score: maximum, difference, exponential, sum, division."""


def _attended(
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
    return _attended(query[0], count, query[-2], key[-2] + past, width, values)


def _grouped(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    batch, steps, width = sizes(outputs, 0)
    heads, shared = whole(layer, "num_heads"), whole(layer, "kv_num_heads")
    past = sizes(inputs, 3)[2] if has(inputs, 3) else 0
    keys = max(past + steps if not has(outputs, 1) else sizes(outputs, 1)[2], steps)
    each = width // heads
    turned = 3 * batch * steps * (heads + shared) * each if whole(layer, "do_rotary") else 0
    return _attended(batch, heads, steps, keys, each) + turned


def _multi_head(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    batch, steps, width = sizes(outputs, 0)
    heads = whole(layer, "num_heads")
    keys = steps
    if has(inputs, 1):
        key = sizes(inputs, 1)
        keys = key[2] if len(key) == 4 else key[1]
    past = sizes(inputs, 6)[2] if has(inputs, 6) else 0
    return _attended(batch, heads, steps, keys + past, width // heads)


def _projected(past: int) -> FlopsRule:
    """Rule of attention with the projection inside."""

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        batch, steps, width = sizes(inputs, 0)
        heads, columns = whole(layer, "num_heads"), sizes(inputs, 1)[1]
        keys = steps + (sizes(inputs, past)[3] if has(inputs, past) else 0)
        each = sizes(outputs, 0)[2] // heads
        projection = batch * steps * columns * (2 * width + has(inputs, 2))
        return projection + _attended(batch, heads, steps, keys, each)

    return rule


# Attention: lengths and indices


def _all_steps(layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]) -> int:
    """Steps of the longest sequence: by default the steps of the cache and the new steps."""
    if 6 in known:
        return known[6]
    past = sizes(inputs, 3)[2] if inputs[3] is not None else 0
    return past + sizes(inputs, 0)[1]


def _last_step(layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]) -> int:
    """Last step of every sequence."""
    return _all_steps(layer, inputs, outputs, known) - 1


def _ends(at: int, past: int) -> LengthRule:
    """Ends of sequences, then their starts if there are as many of these.

    Args:
        at: Position of the input that holds them.
        past: Position of the cache.
    """

    def rule(
        layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]
    ) -> tuple[int, ...] | None:
        batch, steps, _ = sizes(inputs, 0)
        mask = sizes(inputs, at)
        cached = inputs[past] if past < len(inputs) else None
        total = steps + (0 if cached is None else cached.sizes[3])
        if len(mask) != 1 or mask[0] not in (batch, 2 * batch):
            return None
        return (total,) * batch + (0,) * (mask[0] - batch)

    return rule


def _keys_of_heads(
    layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]
) -> int | None:
    """Numbers of keys, if they are no mask and no sums of lengths."""
    if len(sizes(inputs, 4)) != 1 or sizes(inputs, 4) != sizes(inputs, 0)[:1]:
        return None
    key = sizes(inputs, 1) if inputs[1] is not None else sizes(inputs, 0)
    return key[2] if len(key) == 4 else key[1]


def _valid_keys(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return sizes(inputs, 1)[-2] + 1


def _shift_of_positions(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """First positions of ONNX Runtime's rotary embedding; one for all steps where it is alone."""
    rows, data = sizes(inputs, 2)[0], sizes(inputs, 0)
    steps = data[2] if len(data) == 4 else data[1]
    return rows - steps + 1 if len(sizes(inputs, 1)) == 1 else rows


ATTENTION_ROWS: Mapping[str, Operator] = {
    "Attention": row(
        "attention", _standard, *(DATA,) * 6, Input(parameter=True, below=_valid_keys)
    ),
    "RotaryEmbedding": row(LATE, each_output(3), DATA, DATA, DATA, rows_of(1)),
    "com.microsoft.Attention": row(
        "attention", _projected(past=4), DATA, COLUMNS, DATA, Input(length=_ends(3, past=4)), DATA,
        DATA, PARAMETER,
    ),
    "com.microsoft.GroupQueryAttention": row(
        "attention:grouped", _grouped, *(DATA,) * 5, Input(length=_last_step),
        Input(parameter=True, length=_all_steps), TURN, TURN, rows_of(7), *(DATA,) * 4, NEAR_ONE,
        NEAR_ONE,
    ),
    "com.microsoft.MultiHeadAttention": row(
        OWN, _multi_head, *(DATA,) * 4, Input(length=_keys_of_heads), *(DATA,) * 3, PARAMETER, DATA
    ),
    "com.microsoft.QAttention": row(
        "attention:8-bit", _projected(past=8), DATA, CODES, DATA, SCALE, WEIGHT_SCALE,
        Input(length=_ends(5, past=8)), ZERO_POINT, MIDDLE, DATA,
    ),
    "com.microsoft.RotaryEmbedding": row(
        OWN, each_output(3), DATA, Input(below=_shift_of_positions), TURN, TURN
    ),
}  # fmt: skip


# Recurrent layers.


def _steps(layer: Layer, inputs: Specs, outputs: Specs) -> int:
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


def _coded_cells(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Four gates from input and state, with both biases, and five updates of the state."""
    steps, batch, _ = sizes(inputs, 0)
    directions, hidden, _ = sizes(inputs, 2)
    biases = 2 if has(inputs, 3) else 0
    products = 2 * (size(inputs, 1) + size(inputs, 2))
    return steps * batch * (products + directions * hidden * (4 * (biases + 1) + 5))


_LENGTHS = Input(parameter=True, below=_steps)


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
    "com.microsoft.DynamicQuantizeLSTM": row(
        "recurrent:8-bit", _coded_cells, DATA, CODES, CODES, DATA, Input(below=_steps), DATA, DATA,
        DATA, WEIGHT_SCALE, MIDDLE, WEIGHT_SCALE, MIDDLE,
    ),
}  # fmt: skip


# Normalizations, of ONNX and of ONNX Runtime.


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
    "SimplifiedLayerNormalization": _normalization(
        OWN, each_output(4), DATA, NEAR_ONE, channels_last=True
    ),
    "com.microsoft.SkipLayerNormalization": _normalization(
        OWN, _skip, DATA, DATA, NEAR_ONE, SMALL, DATA, channels_last=True
    ),
    # A sum, then: square and mean (2), division, scale.
    "com.microsoft.SkipSimplifiedLayerNormalization": _normalization(
        OWN, each_output(5, bias=3), DATA, DATA, NEAR_ONE, DATA, channels_last=True
    ),
    # Sums of embeddings, and a normalization.
    "com.microsoft.EmbedLayerNormalization": _normalization(
        OWN, each_output(9), rows_of(2), rows_of(4), _TABLE, _TABLE, _TABLE, NEAR_ONE, DATA, DATA,
        rows_of(3),
    ),
    # Embeddings are made of codes besides: a shift and a scale for each of three.
    "com.microsoft.QEmbedLayerNormalization": _normalization(
        OWN, each_output(15), rows_of(2), rows_of(4), _TABLE, _TABLE, _TABLE, *(DATA,) * 13
    ),
}  # fmt: skip

"""Convolutions, matrix products, and rows for many: attention, recurrence, normalizations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    BIAS,
    CODED,
    CODES,
    DATA,
    FACTOR,
    FILTER,
    GEMM,
    LATE,
    MIDDLE,
    NEAR_ONE,
    PARAMETER,
    RARE,
    RECURRENT,
    SCALE,
    SMALL,
    TRANSPOSED_FILTER,
    ZERO_POINT,
    FlopsRule,
    Input,
    Lacks,
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
from dlbricks_core.operators.ranges.weighted import (
    of_convolution,
    of_equation,
    of_matrices,
    of_transposed_convolution,
    products_of,
    weighted,
)


def _conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """One multiply-add for each weight of the filter, and the bias, for each output element."""
    per_element = 2 * math.prod(sizes(inputs, 1)[1:]) + (len(inputs) > 2)
    return size(outputs) * per_element


def _integer_conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return _conv(layer, inputs[:2], outputs)


def _coded_conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """As a convolution of floats, and each result is scaled and shifted."""
    per_element = 2 * math.prod(sizes(inputs, 3)[1:]) + (len(inputs) > 8) + 2
    return size(outputs) * per_element


def _conv_transpose(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """One multiply-add for each weight that an input element is multiplied by, and the bias."""
    products = 2 * size(inputs) * math.prod(sizes(inputs, 1)[1:])
    return products + (size(outputs) if len(inputs) > 2 else 0)


def _matmul(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return 2 * size(outputs) * sizes(inputs, 0)[-1]


def _coded_matmul(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """As a product of floats, and each result is scaled and shifted."""
    return _matmul(layer, inputs, outputs) + 2 * size(outputs)


def _gemm(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Matrix product, multiplications by scales other than 1, and addition."""
    added = len(inputs) > 2 and attribute_of(layer, "beta") != 0
    per_element = 2 * sizes(inputs, 0)[0 if attribute_of(layer, "transA") else 1]
    per_element += int(attribute_of(layer, "alpha") != 1)
    per_element += int(added) * (1 + int(attribute_of(layer, "beta") != 1))
    return size(outputs) * per_element


def _einsum(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Products of one operand after the other; of a single operand, an addition an element."""
    operands = [sizes(inputs, i) for i in range(len(inputs))]
    products = products_of(attribute_of(layer, "equation"), operands)
    return sum(each.flops for each in products) if products else size(inputs)


def _of_factors(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    """Power of a product whose second factor may be no weight."""
    if layer.inputs[1] in model.weights:
        return 1.0
    return powers[0] * powers[1] * model.tensors[layer.inputs[0]].sizes[-1]


_CONVOLVED = weighted(of_convolution, bias=2)

PRODUCT_ROWS: Mapping[str, Operator] = {
    "Conv": row("convolution", _conv, DATA, FILTER, BIAS, power=unit, shape=shapes.convolution,
                ranges=_CONVOLVED),
    "ConvInteger": row("convolution", _integer_conv, DATA, DATA, ZERO_POINT, ZERO_POINT),
    "ConvTranspose": row(
        "convolution:transposed", _conv_transpose, DATA, TRANSPOSED_FILTER, BIAS, power=unit,
        ranges=weighted(of_transposed_convolution, bias=2),
    ),
    "QLinearConv": row("convolution", _coded_conv, *CODED, *CODED, SCALE, ZERO_POINT, DATA),
    "CausalConvWithState": row(LATE, LATE, DATA, DATA, DATA, DATA),
    "Col2Im": row(RARE, Lacks("no framework has it"), DATA, PARAMETER, PARAMETER),
    "DeformConv": row(RARE, Lacks("no framework has it"), DATA, DATA, DATA, DATA, DATA,
                       costly=True),
    "MatMul": row("product", _matmul, DATA, FACTOR, power=_of_factors,
                   shape=shapes.matrix_product, ranges=weighted(of_matrices)),
    "MatMulInteger": row("product", _matmul, DATA, CODES, ZERO_POINT,
                          Input(codes=MIDDLE.codes, zero_point=True)),
    "QLinearMatMul": row("product", _coded_matmul, *CODED, *CODED, SCALE, ZERO_POINT),
    "Gemm": row("product", _gemm, DATA, GEMM, BIAS, power=unit, shape=shapes.gemm,
                ranges=weighted(of_matrices, bias=2)),
    "Einsum": row("product:einsum", _einsum, DATA, repeated=1, costly=True,
                  ranges=weighted(of_equation)),
}  # fmt: skip


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

"""Convolutions and matrix products, of floats and of codes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
    PARAMETER,
    RARE,
    SCALE,
    TRANSPOSED_FILTER,
    ZERO_POINT,
    Input,
    Lacks,
    Operator,
    Specs,
    attribute_of,
    row,
    size,
    sizes,
    unit,
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

ROWS: Mapping[str, Operator] = {
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

"""Convolutions and matrix products, of floats and of codes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.einsum import products_of
from dlbricks_core.operators.operator import (
    DATA,
    LATE,
    PARAMETER,
    RARE,
    FlopsRule,
    Input,
    Lacks,
    Operator,
    Specs,
    attribute_of,
    has,
    row,
    size,
    sizes,
    unit,
)
from dlbricks_core.operators.ranges.interval import EVERYTHING
from dlbricks_core.operators.ranges.step import RangeStep, Rule
from dlbricks_core.operators.ranges.weighted import (
    of_convolution,
    of_equation,
    of_matrices,
    of_transposed_convolution,
    weighted,
)
from dlbricks_core.operators.weights import (
    BIAS,
    BLOCK_SCALE,
    CODED,
    CODES,
    COLUMNS,
    EXPERTS,
    FACTOR,
    FILTER,
    GEMM,
    MIDDLE,
    PACKED_MIDDLE,
    SCALE,
    TRANSPOSED_FILTER,
    WEIGHT_SCALE,
    ZERO_POINT,
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


def _fused_conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A multiply-add for each weight of the filter, bias, summand and activation, per element."""
    added = has(inputs, 2) + has(inputs, 3) + ("activation" in layer.attributes)
    return size(outputs) * (2 * math.prod(sizes(inputs, 1)[1:]) + added)


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


def _product(bias: int, more: int = 0, turned: str = "") -> FlopsRule:
    """Rule of a matrix product.

    Args:
        bias: Position of an input that is added.
        more: Further operations for each element of the result.
        turned: Attribute that says whether the first factor is transposed.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        axis = -2 if turned and layer.attributes.get(turned) else -1
        return size(outputs) * (2 * sizes(inputs, 0)[axis] + more + has(inputs, bias))

    return rule


def _fused_gemm(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    rule = _product(2, more="activation" in layer.attributes, turned="transA")
    return rule(layer, inputs, outputs)


def _experts(weights: Sequence[int], *, packed: bool) -> FlopsRule:
    """Rule of products with the matrices of the experts that a token is sent to.

    Args:
        weights: Positions of the matrices of all experts.
        packed: Whether several codes of weights lie in a byte.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        tokens = size(inputs) // sizes(inputs, 0)[-1]
        bits: int = layer.attributes.get("expert_weight_bits", 4) if packed else 8  # type: ignore[assignment]
        chosen: int = layer.attributes.get("k", 1)  # type: ignore[assignment]
        held = sum(size(inputs, place) for place in weights)
        return int(tokens * chosen * 2 * held * (8 // bits) // sizes(inputs, 2)[0])

    return rule


def _of_factors(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    """Power of a product whose second factor may be no weight."""
    if layer.inputs[1] in model.weights:
        return 1.0
    return powers[0] * powers[1] * model.tensors[layer.inputs[0]].sizes[-1]


def _unless_fused(rule: Rule) -> Rule:
    """The rule of a layer without a fused activation or summand; nothing is known of others."""

    def fused(step: RangeStep) -> bool:
        return "activation" in step.layer.attributes or any(step.inputs[3:])

    return Rule(
        lambda step: [EVERYTHING] if fused(step) else rule.image(step),
        lambda step, wanted: {} if fused(step) else rule.asked(step, wanted),
    )


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
    "com.microsoft.FusedConv": row(
        "convolution", _fused_conv, DATA, FILTER, BIAS, DATA, power=unit,
        ranges=_unless_fused(_CONVOLVED),
    ),
    "com.microsoft.nchwc.Conv": row("convolution", _conv, DATA, FILTER, BIAS, DATA, power=unit,
                                    ranges=_unless_fused(_CONVOLVED)),
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
    "com.microsoft.FusedGemm": row("product", _fused_gemm, DATA, COLUMNS, DATA, power=unit),
    "com.microsoft.FusedMatMul": row(
        "product", _product(2, turned="transA"), DATA, COLUMNS, power=unit,
        ranges=weighted(of_matrices),
    ),
    "com.microsoft.DynamicQuantizeMatMul": row(
        "product:8-bit", _product(4, more=2), DATA, CODES, WEIGHT_SCALE, MIDDLE, DATA, power=unit
    ),
    "com.microsoft.MatMulIntegerToFloat": row(
        "product:8-bit", _product(6, more=2), DATA, CODES, SCALE, WEIGHT_SCALE, ZERO_POINT, MIDDLE,
        DATA, power=unit,
    ),
    "com.microsoft.QGemm": row(
        "product:8-bit", _product(6, more=2, turned="transA"), *CODED, *CODED, DATA, SCALE,
        ZERO_POINT,
    ),
    "com.microsoft.MatMulNBits": row(
        "product:bits", _product(5), DATA, CODES, BLOCK_SCALE, PACKED_MIDDLE, DATA, DATA,
        power=unit,
    ),
    "com.microsoft.MoE": row(
        "product:experts", _experts((2, 4, 6), packed=False), DATA, DATA, *(EXPERTS, DATA) * 3
    ),
    "com.microsoft.QMoE": row(
        "product:experts", _experts((2, 5, 8), packed=True), DATA, DATA,
        *(CODES, WEIGHT_SCALE, DATA) * 3, *(MIDDLE,) * 3, *(DATA,) * 7,
    ),
}  # fmt: skip

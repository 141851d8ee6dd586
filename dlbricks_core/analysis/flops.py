"""Floating-point operations of layers, with one rule for each operator.

A rule counts the arithmetic operations of the operator's plain definition. An addition, a
multiplication, a comparison and an evaluation of a function (``exp``, ``tanh``) of one element
each count as one operation, so a multiply-add counts as two. The way in which a framework
computes a layer (Winograd, fused, in blocks) does not matter. Moving data counts as none. The
count of an operator without a rule is unknown, which is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlbricks_core.analysis.contrib import CONTRIB_FLOPS
from dlbricks_core.analysis.einsum import products_of
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

Specs = Sequence[TensorSpec | None]

FlopsRule = Callable[[Layer, Specs, Specs], int]
"""Number of operations from ``(layer, input specs, output specs)``; the specs are static."""


def layer_flops(model: CanonicalModel, layer: Layer) -> int | None:
    """Floating-point operations of one layer; ``None`` if its operator has no rule.

    Args:
        model: In canonical form.
        layer: One of its layers; opaque layers have no count.
    """
    rule = FLOPS.get(layer.qualified_op)
    inputs, outputs = model.specs(layer.inputs), model.specs(layer.outputs)
    known = all(spec is None or spec.is_static for spec in (*inputs, *outputs))
    if rule is None or not known or layer.opaque:
        return None
    try:
        return rule(layer, inputs, outputs)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # a layer that no runtime would run; it is listed among those without a rule


def _size(specs: Specs, position: int = 0) -> int:
    spec = specs[position] if position < len(specs) else None
    return spec.elements if spec is not None else 0


def _sizes(specs: Specs, position: int) -> tuple[int, ...]:
    spec = specs[position]
    if spec is None:
        raise ValueError(f"input or output {position} is left out")
    return spec.sizes


def _number(layer: Layer, name: str) -> Any:
    """An attribute that the canonical form always writes."""
    return layer.attributes[name]


def _conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """One multiply-add for each weight of the filter, and the bias, for each output element."""
    per_element = 2 * math.prod(_sizes(inputs, 1)[1:]) + (len(inputs) > 2)
    return _size(outputs) * per_element


def _conv_transpose(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """One multiply-add for each weight that an input element is multiplied by, and the bias."""
    products = 2 * _size(inputs) * math.prod(_sizes(inputs, 1)[1:])
    return products + (_size(outputs) if len(inputs) > 2 else 0)


def _matmul(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return 2 * _size(outputs) * _sizes(inputs, 0)[-1]


def _coded_conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """As a convolution of floats, and each result is scaled and shifted."""
    per_element = 2 * math.prod(_sizes(inputs, 3)[1:]) + (len(inputs) > 8) + 2
    return _size(outputs) * per_element


def _coded_matmul(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """As a product of floats, and each result is scaled and shifted."""
    return _matmul(layer, inputs, outputs) + 2 * _size(outputs)


def _gemm(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Matrix product, multiplications by scales other than 1, and addition."""
    added = len(inputs) > 2 and _number(layer, "beta") != 0
    per_element = 2 * _sizes(inputs, 0)[0 if _number(layer, "transA") else 1]
    per_element += int(_number(layer, "alpha") != 1)
    per_element += int(added) * (1 + int(_number(layer, "beta") != 1))
    return _size(outputs) * per_element


def _einsum(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Products of one operand after the other; of a single operand, an addition an element."""
    shapes = [_sizes(inputs, i) for i in range(len(inputs))]
    products = products_of(_number(layer, "equation"), shapes)
    return sum(each.flops for each in products) if products else _size(inputs)


def _window(operations: int) -> FlopsRule:
    """Rule with so many operations for each element under a pooling window."""

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        window: int = math.prod(_number(layer, "kernel_shape"))
        return operations * _size(outputs) * window

    return rule


def _each_input(operations: int) -> FlopsRule:
    """Rule with so many operations for each element of the first input."""
    return lambda layer, inputs, outputs: operations * _size(inputs)


def _each_output(operations: int) -> FlopsRule:
    """Rule with so many operations for each element of the first output."""
    return lambda layer, inputs, outputs: operations * _size(outputs)


def _joined(last: int) -> FlopsRule:
    """Rule with an operation for each input but the first, and ``last`` more, an output element."""
    return lambda layer, inputs, outputs: (len(inputs) - 1 + last) * _size(outputs)


def _lrn(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Squares, sum over the window, scale and bias, power, division; for each output element."""
    size: int = _number(layer, "size")
    return (1 + (size - 1) + 2 + 1 + 1) * _size(outputs)


def _normalization(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Mean, difference to it, variance (2), division, scale, optional bias; an output element."""
    return (6 + (len(inputs) > 2)) * _size(outputs)


def _resize(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """One multiply-add for each input element that an output element depends on; 0 for nearest."""
    mode = _number(layer, "mode")
    if mode == "nearest":
        return 0
    pairs = zip(_sizes(inputs, 0), _sizes(outputs, 0), strict=True)
    axes = sum(before != after for before, after in pairs)
    taps: int = {"linear": 2, "cubic": 4}[mode] ** axes
    return 2 * taps * _size(outputs)


def _recurrent(gates: int, states: int) -> FlopsRule:
    """Rule of recurrent layers: matrix products, both biases, activations, updates of the state.

    Args:
        gates: Number of vectors that are computed from input and state.
        states: Number of further operations for each element of the state.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        directions, rows, width = _sizes(inputs, 1)
        hidden = rows // gates
        biases = 2 if len(inputs) > 3 and inputs[3] is not None else 0
        step = gates * hidden * (2 * (width + hidden) + biases + 1) + states * hidden
        return directions * math.prod(_sizes(inputs, 0)[:2]) * step

    return rule


def _top(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Comparisons that find each element's place among the best so far, by bisection."""
    best: int = _sizes(outputs, 0)[_number(layer, "axis")]
    return _size(inputs) * best.bit_length()


def _sampled(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """One multiply-add for each input element that an output element depends on; 0 for nearest."""
    mode = _number(layer, "mode")
    if mode == "nearest":
        return 0
    taps: int = {"linear": 2, "cubic": 4}[mode] ** (len(_sizes(inputs, 0)) - 2)
    return 2 * taps * _size(outputs)


def _regions(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Each output element joins samples, each of which four elements are interpolated for.

    Without a fixed ratio the number of samples follows from the sizes of regions, which are values.
    """
    samples: int = _number(layer, "sampling_ratio") ** 2
    if not samples:
        raise ValueError("the number of samples depends on values")
    return _size(outputs) * samples * (2 * 4 + 1)


def _short_transforms(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Each frame is multiplied by the window and transformed, in 5 n log2(n) operations."""
    *_, bins, _ = _sizes(outputs, 0)
    length = 2 * (bins - 1) if _number(layer, "onesided") else bins
    return round(_size(outputs) // (2 * bins) * length * (1 + 5 * math.log2(length)))


ELEMENTWISE = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil", "Celu", "Cos", "Cosh", "Div",
    "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid",
    "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Mish", "Mod",
    "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink",
    "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Tanh",
    "ThresholdedRelu", "Xor",
)  # fmt: skip
"""Operators that compute each element of the result from the elements at the same place."""

_MOVING = (
    "Cast", "Compress", "Concat", "ConstantOfShape", "DepthToSpace", "Expand", "EyeLike",
    "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "OneHot", "Pad", "Reshape",
    "ReverseSequence", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Trilu", "Unsqueeze", "Where",
)  # fmt: skip

#: Rule of each operator. Every element-wise function counts as one operation an element.
FLOPS: Mapping[str, FlopsRule] = {
    **dict.fromkeys(ELEMENTWISE, _each_output(1)),
    **dict.fromkeys(_MOVING, lambda layer, inputs, outputs: 0),
    **dict.fromkeys(("Max", "Min", "Sum"), _joined(0)),
    "Mean": _joined(1),
    "Clip": lambda layer, inputs, outputs: sum(s is not None for s in inputs[1:]) * _size(outputs),
    "Conv": _conv,
    "ConvInteger": lambda layer, inputs, outputs: _conv(layer, inputs[:2], outputs),
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearConv": _coded_conv,
    "QLinearMatMul": _coded_matmul,
    "AveragePool": _window(1),
    "LpPool": _window(2),
    "MaxPool": _window(1),
    "GlobalAveragePool": _each_input(1),
    "GlobalLpPool": _each_input(2),
    "GlobalMaxPool": _each_input(1),
    "ArgMax": _each_input(1),
    "ArgMin": _each_input(1),
    "CumSum": _each_input(1),
    **{f"Reduce{kind}": _each_input(1) for kind in ("Max", "Mean", "Min", "Prod", "Sum")},
    **{f"Reduce{kind}": _each_input(2) for kind in ("L1", "L2", "LogSumExp", "SumSquare")},
    # Scale and shift; both are computed from the weights in advance.
    "BatchNormalization": _each_output(2),
    "GroupNormalization": _normalization,
    "InstanceNormalization": _normalization,
    "LayerNormalization": _normalization,
    "LpNormalization": _each_output(3),
    "LRN": _lrn,
    "MeanVarianceNormalization": _each_output(5),
    # Maximum, difference to it, exponential, sum, division.
    "Softmax": _each_output(5),
    "LogSoftmax": _each_output(5),
    "DequantizeLinear": _each_output(2),
    # Least and greatest element, and each element scaled and shifted.
    "DynamicQuantizeLinear": _each_output(4),
    "QuantizeLinear": _each_output(2),
    "GridSample": _sampled,
    "Resize": _resize,
    "RoiAlign": _regions,
    "STFT": _short_transforms,
    "TopK": _top,
    # Cell, output: c = f c + i g (3), h = o tanh(c) (2).
    "LSTM": _recurrent(4, 5),
    # h = (1 - z) n + z h (4), and the reset of the state or of its product.
    "GRU": _recurrent(3, 5),
    "RNN": _recurrent(1, 0),
    **CONTRIB_FLOPS,
}

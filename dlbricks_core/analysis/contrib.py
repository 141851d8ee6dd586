"""Operations of ONNX Runtime's own operators, counted as those of ONNX are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlbricks_core.ir import Layer, TensorSpec

Specs = Sequence[TensorSpec | None]
Rule = Callable[[Layer, Specs, Specs], int]

_SOFTMAX = 5
"""Operations for each score: maximum, difference, exponential, sum, division."""


def _size(specs: Specs, position: int = 0) -> int:
    spec = specs[position] if position < len(specs) else None
    return 0 if spec is None else spec.elements


def _sizes(specs: Specs, position: int) -> tuple[int, ...]:
    spec = specs[position]
    if spec is None:
        raise ValueError(f"input or output {position} is left out")
    return spec.sizes


def _has(specs: Specs, position: int) -> bool:
    return position < len(specs) and specs[position] is not None


def _number(layer: Layer, name: str, default: Any = 0) -> Any:
    return layer.attributes.get(name, default)


def _product(bias: int, more: int = 0, turned: str = "") -> Rule:
    """Rule of a matrix product.

    Args:
        bias: Position of an input that is added.
        more: Further operations for each element of the result.
        turned: Attribute that says whether the first factor is transposed.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        axis = -2 if turned and _number(layer, turned) else -1
        return _size(outputs) * (2 * _sizes(inputs, 0)[axis] + more + _has(inputs, bias))

    return rule


def _fused_gemm(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return _product(2, more="activation" in layer.attributes, turned="transA")(
        layer, inputs, outputs
    )


def _each(operations: int, bias: int | None = None) -> Rule:
    """Rule with so many operations for each element of the result, and one for a bias."""
    return lambda layer, inputs, outputs: (
        _size(outputs) * (operations + (bias is not None and _has(inputs, bias)))
    )


def _each_input(operations: int) -> Rule:
    return lambda layer, inputs, outputs: operations * _size(inputs)


def _window(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    window: int = math.prod(_number(layer, "kernel_shape"))
    return _size(outputs) * window


def attention(batch: int, heads: int, steps: int, keys: int, size: int) -> int:
    """Operations of both products of attention and of its softmax, without a mask."""
    return batch * heads * steps * keys * (4 * size + _SOFTMAX)


def _grouped(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    batch, steps, width = _sizes(outputs, 0)
    heads, shared = _number(layer, "num_heads"), _number(layer, "kv_num_heads")
    past = _sizes(inputs, 3)[2] if _has(inputs, 3) else 0
    keys = max(past + steps if not _has(outputs, 1) else _sizes(outputs, 1)[2], steps)
    size = width // heads
    turned = 3 * batch * steps * (heads + shared) * size if _number(layer, "do_rotary") else 0
    return attention(batch, heads, steps, keys, size) + turned


def _multi_head(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    batch, steps, width = _sizes(outputs, 0)
    heads = _number(layer, "num_heads")
    keys = steps
    if _has(inputs, 1):
        key = _sizes(inputs, 1)
        keys = key[2] if len(key) == 4 else key[1]
    past = _sizes(inputs, 6)[2] if _has(inputs, 6) else 0
    return attention(batch, heads, steps, keys + past, width // heads)


def _projected(past: int) -> Rule:
    """Rule of attention with the projection inside."""

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        batch, steps, width = _sizes(inputs, 0)
        heads, columns = _number(layer, "num_heads"), _sizes(inputs, 1)[1]
        keys = steps + (_sizes(inputs, past)[3] if _has(inputs, past) else 0)
        size = _sizes(outputs, 0)[2] // heads
        projection = batch * steps * columns * (2 * width + _has(inputs, 2))
        return projection + attention(batch, heads, steps, keys, size)

    return rule


def _experts(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Products with the matrices of the experts that a token is sent to."""
    tokens = _size(inputs) // _sizes(inputs, 0)[-1]
    quantized = layer.op == "QMoE"
    places = (2, 5, 8) if quantized else (2, 4, 6)
    weights = sum(_size(inputs, place) for place in places)
    packed = 8 // _number(layer, "expert_weight_bits", 4) if quantized else 1
    experts = _sizes(inputs, 2)[0]
    return int(tokens * _number(layer, "k", 1) * 2 * weights * packed // experts)


def _dynamic_lstm(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Four gates from input and state, with both biases, and five updates of the state."""
    steps, batch, _ = _sizes(inputs, 0)
    directions, hidden, _ = _sizes(inputs, 2)
    biases = 2 if _has(inputs, 3) else 0
    products = 2 * (_size(inputs, 1) + _size(inputs, 2))
    return steps * batch * (products + directions * hidden * (4 * (biases + 1) + 5))


def _fused_conv(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A multiply-add for each weight of the filter, bias, summand and activation, per element."""
    added = _has(inputs, 2) + _has(inputs, 3) + ("activation" in layer.attributes)
    return _size(outputs) * (2 * math.prod(_sizes(inputs, 1)[1:]) + added)


_OWN: Mapping[str, Rule] = {
    "Attention": _projected(past=4),
    "BiasGelu": _each(2),
    "DequantizeLinear": _each(2),
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "DynamicQuantizeMatMul": _product(4, more=2),
    # Sums of embeddings, and a normalization.
    "EmbedLayerNormalization": _each(9),
    "FastGelu": _each(1, bias=1),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _product(2, turned="transA"),
    "GatherBlockQuantized": _each(2),
    "Gelu": _each(1),
    "GroupQueryAttention": _grouped,
    "MatMulIntegerToFloat": _product(6, more=2),
    "MatMulNBits": _product(5),
    "MoE": _experts,
    "MultiHeadAttention": _multi_head,
    "NhwcMaxPool": _window,
    "QAttention": _projected(past=8),
    "QGemm": _product(6, more=2, turned="transA"),
    # What is quantized is shifted and scaled (2), as is what is quantized again.
    "QLinearAdd": _each(7),
    "QLinearAveragePool": _window,
    "QLinearConcat": _each(4),
    "QLinearGlobalAveragePool": _each_input(1),
    "QLinearLeakyRelu": _each(5),
    "QLinearMul": _each(7),
    "QLinearReduceMean": _each_input(1),
    "QLinearSigmoid": _each(5),
    "QLinearSoftmax": _each(4 + _SOFTMAX),
    "QLinearWhere": _each(4),
    "QMoE": _experts,
    "QuantizeLinear": _each(2),
    "QuickGelu": _each(1),
    "RotaryEmbedding": _each(3),
    # A sum, then: mean, difference, variance (2), division, scale, optional shift.
    "SkipLayerNormalization": lambda layer, inputs, outputs: _size(outputs) * (
        7 + _has(inputs, 3) + _has(inputs, 4)
    ),
    # A sum, then: square and mean (2), division, scale.
    "SkipSimplifiedLayerNormalization": _each(5, bias=3),
}  # fmt: skip

CONTRIB_FLOPS: Mapping[str, Rule] = {
    "SimplifiedLayerNormalization": _each(4),
    **{f"com.microsoft.{op}": rule for op, rule in _OWN.items()},
}
"""Rule of each operator, by its type with its domain in front."""

"""Quantization and integer arithmetic.

Torch's quantized tensors (``torch.ops.quantized``) are deprecated, and on processors
without VNNI their kernels saturate intermediate sums: results are then not what ONNX
defines. What is here computes with plain integer tensors, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import convolution_of, geometry, pads_of, torch_pads
from dlbricks_pytorch.lowering.elementwise import LARGEST_FLOAT8
from dlbricks_pytorch.lowering.table import lowering

_WIDE = {torch.int8, torch.uint8, torch.int16, torch.uint16}


def _along(value: torch.Tensor, shape: tuple[int, ...], axis: int, block: int) -> torch.Tensor:
    """Scales or zero points in a form that broadcasts against the data."""
    if value.dim() == 0 or value.numel() == 1:
        return value.reshape(())
    if value.dim() == 1:
        return value.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if not block:
        return value
    return value.repeat_interleave(block, axis).narrow(axis, 0, shape[axis])


def _aligned(layer: LayerContext, position: int, dtype: torch.dtype) -> Node:
    """A scale or zero point, aligned with the data and in the type of the arithmetic."""
    shape, block = layer.shape(0), int(layer.attribute("block_size", 0))
    axis = layer.axis(default=1) if layer.rank(0) else 0
    if layer.rank(position) > 1 and not block:
        raise layer.unsupported("a scale of this rank needs a block size")
    return layer.prepared(
        position,
        lambda value: _along(value, shape, axis, block).to(dtype),
        ("aligned", shape, axis, block, dtype),
    )


@lowering("QuantizeLinear")
def _quantize(layer: LayerContext) -> Node:
    target = layer.result_dtype()
    scale = _aligned(layer, 1, torch.float32)
    if target in LARGEST_FLOAT8:
        if not layer.attribute("saturate", 1):
            raise layer.unsupported("without saturation it is not expressed")
        return layer.call(quantize_float8, layer.input(0), scale, LARGEST_FLOAT8[target], target)
    if target not in _WIDE:
        raise layer.unsupported(f"torch does not quantize to {target}")
    zero = _aligned(layer, 2, torch.float32) if layer.has(2) else 0
    low, high = torch.iinfo(target).min, torch.iinfo(target).max
    return layer.call(quantize, layer.input(0), scale, zero, low, high, target)


def quantize(
    x: torch.Tensor, scale: Any, zero: Any, low: int, high: int, target: torch.dtype
) -> torch.Tensor:
    """Rounded half to even, saturated."""
    return torch.clamp(torch.round(x / scale) + zero, low, high).to(target)


def quantize_float8(
    x: torch.Tensor, scale: torch.Tensor, largest: float, target: torch.dtype
) -> torch.Tensor:
    """Scaled and converted, saturated."""
    return torch.clamp(x / scale, -largest, largest).to(target)


@lowering("DequantizeLinear")
def _dequantize(layer: LayerContext) -> Node:
    target = layer.result_dtype()
    scale = _aligned(layer, 1, torch.float32)
    zero = _aligned(layer, 2, torch.float32) if layer.has(2) else None
    node = layer.call(dequantize, layer.input(0), scale, zero)
    return node if target == torch.float32 else layer.call(torch.Tensor.to, node, target)


def dequantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None) -> torch.Tensor:
    """Distance from the zero point, times the scale."""
    values = x.to(torch.float32)
    return (values if zero is None else values - zero) * scale


@lowering("DynamicQuantizeLinear")
def _dynamic_quantize(layer: LayerContext) -> tuple[Node, ...]:
    results = layer.call(dynamic_quantize, layer.input(0))
    return tuple(layer.item(results, i) for i in range(3))


def dynamic_quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """To 8 bits, with scale and zero point from the extremes of the data."""
    low, high = torch.aminmax(x)
    low, high = torch.clamp(low, max=0.0), torch.clamp(high, min=0.0)
    scale = (high - low) / 255.0
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    y = torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8)
    return y, scale, zero.to(torch.uint8)


def _integers(layer: LayerContext, position: int, zero: int, shape: tuple[int, ...]) -> Node:
    """An operand less its zero point, as 32-bit integers.

    Args:
        layer: The layer.
        position: Of the operand.
        zero: Position of its zero point.
        shape: Brings a zero point of several values along the right axis.
    """
    if not layer.has(zero):
        return layer.prepared(position, lambda x: x.to(torch.int32), "int32")
    if layer.is_weight(zero) and layer.rank(zero) <= 1:
        return layer.prepared(
            (position, zero), lambda x, z: centred(x, z.reshape(shape)), ("centred", shape)
        )
    ndim = layer.rank(zero)
    target = shape if ndim <= 1 else layer.shape(zero)
    return layer.call(centred_by, layer.input(position), layer.input(zero), target)


def centred(x: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """The difference as 32-bit integers."""
    return x.to(torch.int32) - zero.to(torch.int32)


def centred_by(x: torch.Tensor, zero: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """The difference as 32-bit integers, the zero point brought into a shape first."""
    return centred(x, zero.reshape(shape))


def _row_shape(layer: LayerContext, zero: int) -> tuple[int, ...]:
    """A zero point for every row of the left operand stands in a column."""
    return (
        (-1, 1) if layer.has(zero) and layer.rank(zero) == 1 and layer.shape(zero)[0] > 1 else (-1,)
    )


@lowering("MatMulInteger")
def _matmul_integer(layer: LayerContext) -> Node:
    if (
        not layer.has(2) and not layer.has(3)
        and layer.rank(0) == layer.rank(1) == 2
        and layer.dtype(0) == layer.dtype(1) == torch.int8
    ):  # fmt: skip
        return layer.call(torch._int_mm, layer.input(0), layer.input(1))
    a = _integers(layer, 0, 2, _row_shape(layer, 2))
    return layer.call(torch.matmul, a, _integers(layer, 1, 3, (-1,)))


@lowering("ConvInteger")
def _conv_integer(layer: LayerContext) -> Node:
    ones = (1,) * (layer.rank(0) - 1)
    x = _integers(layer, 0, 2, ())
    weight = _integers(layer, 1, 3, (-1, *ones))
    return _integer_convolution(layer, x, weight, None)


def _integer_convolution(layer: LayerContext, x: Node, weight: Node, bias: Node | None) -> Node:
    pads = pads_of(layer)
    if any(pads):
        x = layer.call(torch.constant_pad_nd, x, torch_pads(pads))
    zeros = (0,) * (len(pads) // 2)
    return layer.call(convolution_of(layer), x, weight, bias, *geometry(layer, zeros))


def requantize(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, zero: torch.Tensor,
    target: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """Integer sums to the result's scale, rounded half to even and saturated."""
    limits = torch.iinfo(target)
    scaled = torch.round(x * (a * b / y)) + zero.to(torch.float32)
    return torch.clamp(scaled, limits.min, limits.max).to(target)


@lowering("QLinearMatMul")
def _qlinear_matmul(layer: LayerContext) -> Node:
    a = _integers(layer, 0, 2, _row_shape(layer, 2))
    product = layer.call(torch.matmul, a, _integers(layer, 3, 5, (-1,)))
    left = layer.prepared(1, _shaper(_row_shape(layer, 1)), ("shaped", _row_shape(layer, 1)))
    scales = (left, layer.input(4), layer.input(6))
    return layer.call(requantize, product, *scales, layer.input(7), layer.result_dtype())


def _shaper(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda value: value if value.dim() != 1 else value.reshape(shape)


@lowering("QLinearConv")
def _qlinear_conv(layer: LayerContext) -> Node:
    ones = (1,) * (layer.rank(0) - 1)
    x = _integers(layer, 0, 2, ())
    weight = _integers(layer, 3, 5, (-1, *ones))
    sums = _integer_convolution(layer, x, weight, layer.optional(8))
    column = (-1, *ones[1:])
    weight_scale = layer.prepared(4, lambda value: value.reshape(column), ("column", column))
    scales = (layer.input(1), weight_scale, layer.input(6))
    return layer.call(requantize, sums, *scales, layer.input(7), layer.result_dtype())

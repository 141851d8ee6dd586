"""Quantization and integer arithmetic.

Torch's quantized tensors (``torch.ops.quantized``) are deprecated. On processors without VNNI their
kernels saturate intermediate sums, so results differ from ONNX's definition. The functions here
compute exactly, with plain integer tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import convolution_of, geometry, torch_pads
from dlbricks_pytorch.lowering.elementwise import LARGEST_FLOAT8
from dlbricks_pytorch.lowering.table import lowers

_WIDE = {torch.int8, torch.uint8, torch.int16, torch.uint16}


def _along(value: torch.Tensor, shape: tuple[int, ...], axis: int, block: int) -> torch.Tensor:
    """Scales or zero points, reshaped to broadcast with the data."""
    if value.dim() == 0 or value.numel() == 1:
        return value.reshape(())
    if value.dim() == 1:
        return value.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if not block:
        return value
    return value.repeat_interleave(block, axis).narrow(axis, 0, shape[axis])


def _aligned(ctx: LayerContext, position: int, dtype: torch.dtype) -> Node:
    """A scale or zero point, aligned with the data and in the type of the arithmetic."""
    shape, block = ctx.shape(0), int(ctx.attribute("block_size"))
    axis = ctx.axis() if ctx.rank(0) else 0
    if ctx.rank(position) > 1 and not block:
        raise UnsupportedError("a scale of this rank needs a block size")
    return ctx.prepared(
        position,
        lambda value: _along(value, shape, axis, block).to(dtype),
        ("aligned", shape, axis, block, dtype),
    )


@lowers("QuantizeLinear")
def _quantize(ctx: LayerContext) -> Node:
    target = ctx.out_torch_dtype()
    scale = _aligned(ctx, 1, torch.float32)
    if target in LARGEST_FLOAT8:
        if not ctx.attribute("saturate"):
            raise UnsupportedError("without saturation it is not expressed")
        return ctx.call(quantize_float8, ctx.input(0), scale, LARGEST_FLOAT8[target], target)
    if target not in _WIDE:
        raise UnsupportedError(f"torch does not quantize to {target}")
    zero = _aligned(ctx, 2, torch.float32) if ctx.has(2) else 0
    low, high = torch.iinfo(target).min, torch.iinfo(target).max
    return ctx.call(quantize, ctx.input(0), scale, zero, low, high, target)


def quantize(
    x: torch.Tensor, scale: Any, zero: Any, low: int, high: int, target: torch.dtype
) -> torch.Tensor:
    """Quantizes: rounds half to even, and saturates."""
    return torch.clamp(torch.round(x / scale) + zero, low, high).to(target)


def quantize_float8(
    x: torch.Tensor, scale: torch.Tensor, largest: float, target: torch.dtype
) -> torch.Tensor:
    """Quantizes to an 8-bit float: scales, converts, and saturates."""
    return torch.clamp(x / scale, -largest, largest).to(target)


@lowers("DequantizeLinear")
def _dequantize(ctx: LayerContext) -> Node:
    target = ctx.out_torch_dtype()
    scale = _aligned(ctx, 1, torch.float32)
    zero = _aligned(ctx, 2, torch.float32) if ctx.has(2) else None
    node = ctx.call(dequantize, ctx.input(0), scale, zero)
    return node if target == torch.float32 else ctx.call(torch.Tensor.to, node, target)


def dequantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None) -> torch.Tensor:
    """Dequantizes: the distance from the zero point, times the scale."""
    values = x.to(torch.float32)
    return (values if zero is None else values - zero) * scale


@lowers("DynamicQuantizeLinear")
def _dynamic_quantize(ctx: LayerContext) -> tuple[Node, ...]:
    results = ctx.call(dynamic_quantize, ctx.input(0))
    return tuple(ctx.item(results, i) for i in range(3))


def dynamic_quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Quantizes to 8 bits, with scale and zero point from the extremes of the data."""
    low, high = torch.aminmax(x)
    low, high = torch.clamp(low, max=0.0), torch.clamp(high, min=0.0)
    scale = (high - low) / 255.0
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    y = torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8)
    return y, scale, zero.to(torch.uint8)


def _integers(ctx: LayerContext, position: int, zero: int, shape: tuple[int, ...]) -> Node:
    """An operand minus its zero point, as 32-bit integers.

    Args:
        ctx: The layer.
        position: Position of the operand.
        zero: Position of its zero point.
        shape: Shape of a zero point with several values, so that it broadcasts.
    """
    if not ctx.has(zero):
        return ctx.prepared(position, lambda x: x.to(torch.int32), "int32")
    if ctx.is_weight(zero) and ctx.rank(zero) <= 1:
        return ctx.prepared(
            (position, zero), lambda x, z: centred(x, z.reshape(shape)), ("centred", shape)
        )
    ndim = ctx.rank(zero)
    target = shape if ndim <= 1 else ctx.shape(zero)
    return ctx.call(centred_by, ctx.input(position), ctx.input(zero), target)


def centred(x: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """The difference as 32-bit integers."""
    return x.to(torch.int32) - zero.to(torch.int32)


def centred_by(x: torch.Tensor, zero: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """The difference as 32-bit integers, after reshaping the zero point."""
    return centred(x, zero.reshape(shape))


def _row_shape(ctx: LayerContext, zero: int) -> tuple[int, ...]:
    """Shape of a zero point for every row of the left operand: a column."""
    return (-1, 1) if ctx.has(zero) and ctx.rank(zero) == 1 and ctx.shape(zero)[0] > 1 else (-1,)


@lowers("MatMulInteger")
def _matmul_integer(ctx: LayerContext) -> Node:
    if (
        not ctx.has(2) and not ctx.has(3)
        and ctx.rank(0) == ctx.rank(1) == 2
        and ctx.torch_dtype(0) == ctx.torch_dtype(1) == torch.int8
    ):  # fmt: skip
        return ctx.call(torch._int_mm, ctx.input(0), ctx.input(1))
    a = _integers(ctx, 0, 2, _row_shape(ctx, 2))
    return ctx.call(torch.matmul, a, _integers(ctx, 1, 3, (-1,)))


@lowers("ConvInteger")
def _conv_integer(ctx: LayerContext) -> Node:
    ones = (1,) * (ctx.rank(0) - 1)
    x = _integers(ctx, 0, 2, ())
    weight = _integers(ctx, 1, 3, (-1, *ones))
    return _integer_convolution(ctx, x, weight, None)


def _integer_convolution(ctx: LayerContext, x: Node, weight: Node, bias: Node | None) -> Node:
    begins, ends = ctx.pads()
    if any((*begins, *ends)):
        x = ctx.call(torch.constant_pad_nd, x, torch_pads(begins, ends))
    zeros = (0,) * len(begins)
    return ctx.call(convolution_of(ctx), x, weight, bias, *geometry(ctx, zeros))


def requantize(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, zero: torch.Tensor,
    target: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """Rescales integer sums to the result, rounding half to even and saturating."""
    limits = torch.iinfo(target)
    scaled = torch.round(x * (a * b / y)) + zero.to(torch.float32)
    return torch.clamp(scaled, limits.min, limits.max).to(target)


@lowers("QLinearMatMul")
def _qlinear_matmul(ctx: LayerContext) -> Node:
    a = _integers(ctx, 0, 2, _row_shape(ctx, 2))
    product = ctx.call(torch.matmul, a, _integers(ctx, 3, 5, (-1,)))
    left = ctx.prepared(1, _shaper(_row_shape(ctx, 1)), ("shaped", _row_shape(ctx, 1)))
    scales = (left, ctx.input(4), ctx.input(6))
    return ctx.call(requantize, product, *scales, ctx.input(7), ctx.out_torch_dtype())


def _shaper(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda value: value if value.dim() != 1 else value.reshape(shape)


@lowers("QLinearConv")
def _qlinear_conv(ctx: LayerContext) -> Node:
    ones = (1,) * (ctx.rank(0) - 1)
    x = _integers(ctx, 0, 2, ())
    weight = _integers(ctx, 3, 5, (-1, *ones))
    sums = _integer_convolution(ctx, x, weight, ctx.optional(8))
    column = (-1, *ones[1:])
    weight_scale = ctx.prepared(4, lambda value: value.reshape(column), ("column", column))
    scales = (ctx.input(1), weight_scale, ctx.input(6))
    return ctx.call(requantize, sums, *scales, ctx.input(7), ctx.out_torch_dtype())

"""Quantization to and from 8-bit integers."""

from __future__ import annotations

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import round_half_even
from dlbricks_mxnet.lowering.limits import NUMBER, REAL, SELECTION_AXES
from dlbricks_mxnet.lowering.symbols import Symbol, cast, op, reshape
from dlbricks_mxnet.lowering.table import lowers

_BYTES = {"int8", "uint8"}


def _along(ctx: LayerContext, position: int, x: Symbol) -> Symbol:
    """A scale or zero point, reshaped to broadcast with the data."""
    shape = ctx.shape(position)
    if len(shape) == 1 and ctx.rank() > 1:
        axis = ctx.axis()
        return reshape(x, [-1 if i == axis else 1 for i in range(ctx.rank())])
    if ctx.attribute("block_size") or len(shape) > 1:
        raise UnsupportedError("MXNet has no scales by blocks")
    return x


@lowers("DequantizeLinear", types=NUMBER)
def _dequantize(ctx: LayerContext) -> Symbol:
    if ctx.dtype(0) not in _BYTES | {"int32"} or ctx.dtype(1) not in REAL:
        raise UnsupportedError(f"MXNet has none of {ctx.dtype(0)} to {ctx.dtype(1)}")
    # 32-bit integers need more digits than the result has.
    wide = "float64" if ctx.dtype(0) == "int32" else ctx.dtype(1)
    x = cast(ctx.input(0), wide)
    if ctx.has(2):
        x = op.broadcast_sub(x, _along(ctx, 2, cast(ctx.input(2), wide)))
    x = cast(x, ctx.dtype(1)) if wide != ctx.dtype(1) else x
    return op.broadcast_mul(x, _along(ctx, 1, ctx.input(1)))


@lowers("QuantizeLinear", types=NUMBER, axes=SELECTION_AXES)
def _quantize(ctx: LayerContext) -> Symbol:
    target = ctx.out_dtype()
    if target not in _BYTES or ctx.dtype(0) not in REAL or ctx.dtype(1) != ctx.dtype(0):
        raise UnsupportedError(f"MXNet has none of {ctx.dtype(0)} to {target}")
    scaled = op.broadcast_div(ctx.input(0), _along(ctx, 1, ctx.input(1)))
    y = round_half_even(scaled)
    if ctx.has(2):
        y = op.broadcast_add(y, _along(ctx, 2, cast(ctx.input(2), ctx.dtype(0))))
    return _saturated(y, target)


def _saturated(y: Symbol, target: str) -> Symbol:
    limits = np.iinfo(target)
    return cast(op.clip(y, a_min=float(limits.min), a_max=float(limits.max)), target)


@lowers("DynamicQuantizeLinear", types=frozenset({"float32", "uint8"}))
def _dynamic_quantize(ctx: LayerContext) -> list[Symbol]:
    x = ctx.input()
    every = tuple(range(max(ctx.rank(), 1)))
    low = op.broadcast_minimum(op.min(x, axis=every), op.zeros_like(op.min(x, axis=every)))
    high = op.broadcast_maximum(op.max(x, axis=every), op.zeros_like(op.max(x, axis=every)))
    scale = (high - low) / 255.0
    zero = op.clip(round_half_even(op.negative(low) / scale), a_min=0.0, a_max=255.0)
    y = op.broadcast_add(round_half_even(op.broadcast_div(x, scale)), zero)
    return [_saturated(y, "uint8"), scale, cast(zero, "uint8")]

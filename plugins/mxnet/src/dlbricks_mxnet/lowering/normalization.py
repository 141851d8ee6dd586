"""Normalizations."""

from __future__ import annotations

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import check_broadcast
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, cast, op, product, reshaped
from dlbricks_mxnet.lowering.table import lowers


@lowers("BatchNormalization")
def _batch_normalization(ctx: LayerContext) -> Symbol:
    epsilon = ctx.attribute("epsilon")
    channels = ctx.shape(1)
    if not (ctx.is_weight(3) and ctx.is_weight(4)):
        return _composed_batch_normalization(ctx, epsilon)
    # In half precision, statistics are kept in single precision.
    dtype = "float32" if ctx.dtype() == "float16" else ctx.dtype()

    def argument(position: int) -> Symbol:
        x = ctx.input(position)
        return x if ctx.dtype(position) == dtype else cast(x, dtype)

    def state(role: str, position: int) -> Symbol:
        return ctx.prepared(
            role, [position], lambda value: value, channels, dtype=dtype, auxiliary=True
        )

    return op.BatchNorm(
        ctx.input(0),
        argument(1),
        argument(2),
        state("moving_mean", 3),
        state("moving_var", 4),
        eps=epsilon,
        fix_gamma=False,
        use_global_stats=True,
        axis=1,
    )


def _composed_batch_normalization(ctx: LayerContext, epsilon: float) -> Symbol:
    shape = (1, -1, *(1,) * (ctx.rank() - 2))
    scale, bias, mean, variance = (op.reshape(ctx.input(i), shape=shape) for i in range(1, 5))
    factor = scale / op.sqrt(variance + epsilon)
    centred = op.broadcast_sub(ctx.input(0), mean)
    return op.broadcast_add(op.broadcast_mul(centred, factor), bias)


def standardize(x: Symbol, axes: Shape, epsilon: float) -> tuple[Symbol, Symbol, Symbol]:
    """Standardizes a tensor to zero mean and unit variance over some axes.

    Returns:
        The result, the mean, and the inverse standard deviation.
    """
    mean = op.mean(x, axis=axes, keepdims=True)
    centred = op.broadcast_sub(x, mean)
    variance = op.mean(op.square(centred), axis=axes, keepdims=True)
    inverse = op.rsqrt(variance + epsilon)
    return op.broadcast_mul(centred, inverse), mean, inverse


def _by_channel(ctx: LayerContext, y: Symbol) -> Symbol:
    """Scales and shifts each channel."""
    shape = (1, -1, *(1,) * (ctx.rank() - 2))
    scale, bias = (op.reshape(ctx.input(i), shape=shape) for i in (1, 2))
    return op.broadcast_add(op.broadcast_mul(y, scale), bias)


@lowers("InstanceNormalization")
def _instance_normalization(ctx: LayerContext) -> Symbol:
    epsilon = ctx.attribute("epsilon")
    if ctx.dtype() == "float32":
        return op.InstanceNorm(ctx.input(0), ctx.input(1), ctx.input(2), eps=epsilon)
    y, _, _ = standardize(ctx.input(0), tuple(range(2, ctx.rank())), epsilon)
    return _by_channel(ctx, y)


@lowers("GroupNormalization")
def _group_normalization(ctx: LayerContext) -> Symbol:
    groups, epsilon = ctx.attribute("num_groups"), ctx.attribute("epsilon")
    # MXNet scales and shifts whole groups; ONNX does it to channels, so that comes after.
    ones, zeros = (np.full(groups, n, dtype=ctx.dtype()) for n in (1, 0))
    shape = ctx.shape()
    spatial = shape if len(shape) > 2 else (*shape, 1)
    y = op.GroupNorm(
        reshaped(ctx.input(0), shape, spatial),
        ctx.fixed("ones", ones),
        ctx.fixed("zeros", zeros),
        num_groups=groups,
        eps=epsilon,
    )
    return _by_channel(ctx, reshaped(y, spatial, shape))


@lowers("LayerNormalization")
def _layer_normalization(ctx: LayerContext) -> list[Symbol]:
    axis, shape, epsilon = ctx.axis(), ctx.shape(), ctx.attribute("epsilon")
    inner = shape[axis:]
    size = product(inner)
    if ctx.wants(1) or ctx.wants(2) or not _covers(ctx, inner):
        y, mean, inverse = standardize(ctx.input(), tuple(range(axis, len(shape))), epsilon)
        moments = [
            x if ctx.out_dtype(i) == ctx.dtype() else cast(x, ctx.out_dtype(i))
            for i, x in ((1, mean), (2, inverse))
            if ctx.wants(i)
        ]
        return [_affine(ctx, y), *moments]
    flat = (*shape[:axis], size)
    gamma = reshaped(ctx.input(1), ctx.shape(1), (size,))
    beta = (
        reshaped(ctx.input(2), ctx.shape(2), (size,))
        if ctx.has(2)
        else ctx.fixed("beta", np.zeros(size, ctx.dtype()))
    )
    y = op.LayerNorm(reshaped(ctx.input(), shape, flat), gamma, beta, axis=axis, eps=epsilon)
    return [reshaped(y, flat, shape)]


def _covers(ctx: LayerContext, inner: Shape) -> bool:
    """Whether scale and shift have one element for each normalized element."""
    return all(product(ctx.shape(i)) == product(inner) for i in (1, 2) if ctx.has(i))


def _affine(ctx: LayerContext, y: Symbol) -> Symbol:
    check_broadcast(ctx.shape(0), ctx.shape(1))
    y = op.broadcast_mul(y, ctx.input(1))
    return op.broadcast_add(y, ctx.input(2)) if ctx.has(2) else y


@lowers("RMSNormalization")
def _rms_normalization(ctx: LayerContext) -> Symbol:
    x, axes = ctx.input(), tuple(range(ctx.axis(), ctx.rank()))
    mean = op.mean(op.square(x), axis=axes, keepdims=True)
    y = op.broadcast_mul(x, op.rsqrt(mean + ctx.attribute("epsilon")))
    return _affine(ctx, y)


@lowers("LRN")
def _lrn(ctx: LayerContext) -> Symbol:
    size = ctx.attribute("size")
    if ctx.dtype() != "float32" or size % 2 == 0 or ctx.rank() != 4:
        raise UnsupportedError("MXNet takes float32 images and an odd number of channels only")
    return op.LRN(
        ctx.input(),
        nsize=size,
        alpha=ctx.attribute("alpha"),
        beta=ctx.attribute("beta"),
        knorm=ctx.attribute("bias"),
    )


@lowers("LpNormalization")
def _lp_normalization(ctx: LayerContext) -> Symbol:
    x, axis = ctx.input(), ctx.axis()
    if ctx.attribute("p") == 1:
        norm = op.sum(op.abs(x), axis=axis, keepdims=True)
    else:
        norm = op.sqrt(op.sum(op.square(x), axis=axis, keepdims=True))
    # A vector of zeros stays zero.
    return op.broadcast_div(x, norm + (norm == 0))


@lowers("MeanVarianceNormalization")
def _mean_variance_normalization(ctx: LayerContext) -> Symbol:
    x, axes = ctx.input(), tuple(ctx.attribute("axes"))
    mean = op.mean(x, axis=axes, keepdims=True)
    centred = op.broadcast_sub(x, mean)
    deviation = op.sqrt(op.mean(op.square(centred), axis=axes, keepdims=True))
    return op.broadcast_div(centred, deviation + 1e-9)

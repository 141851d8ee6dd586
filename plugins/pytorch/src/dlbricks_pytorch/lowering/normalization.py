"""Normalization layers."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers


@lowers("BatchNormalization")
def _batch_norm(ctx: LayerContext) -> Node:
    if ctx.attribute("training_mode") or any(ctx.wants(i) for i in (1, 2)):
        raise UnsupportedError("the training mode is not inference")
    x, scale, bias, mean, variance = ctx.inputs()
    epsilon = ctx.attribute("epsilon")
    return ctx.call(torch.batch_norm, x, scale, bias, mean, variance, False, 0.0, epsilon, False)


@lowers("InstanceNormalization")
def _instance_norm(ctx: LayerContext) -> Node:
    x, scale, bias = ctx.inputs()
    epsilon = ctx.attribute("epsilon")
    return ctx.call(torch.instance_norm, x, scale, bias, None, None, True, 0.0, epsilon, False)


@lowers("GroupNormalization")
def _group_norm(ctx: LayerContext) -> Node:
    x, scale, bias = ctx.inputs()
    epsilon = ctx.attribute("epsilon")
    return ctx.call(torch.group_norm, x, ctx.attribute("num_groups"), scale, bias, epsilon)


def _normalized_shape(ctx: LayerContext) -> tuple[int, ...]:
    return ctx.shape(0)[ctx.axis() :]


def _parameter(ctx: LayerContext, position: int) -> Node | None:
    """A scale or bias in the shape of the normalized axes."""
    if not ctx.has(position):
        return None
    shape = _normalized_shape(ctx)
    if ctx.shape(position) == shape:
        return ctx.input(position)
    try:
        np.broadcast_to(np.empty(ctx.shape(position)), shape)
    except ValueError as error:
        raise UnsupportedError("the scale reaches beyond the normalized axes") from error
    return ctx.prepared(position, lambda value: value.expand(shape), ("expanded", shape))


@lowers("LayerNormalization")
def _layer_norm(ctx: LayerContext) -> Node | tuple[Node, ...]:
    shape, epsilon = _normalized_shape(ctx), ctx.attribute("epsilon")
    arguments = (ctx.input(0), shape, _parameter(ctx, 1), _parameter(ctx, 2), epsilon)
    if not ctx.wants(1) and not ctx.wants(2):
        return ctx.call(torch.layer_norm, *arguments, False)
    results = ctx.call(torch.native_layer_norm, *arguments)
    return tuple(ctx.item(results, i) for i in range(3))


@lowers("RMSNormalization")
def _rms_norm(ctx: LayerContext) -> Node:
    epsilon, shape, weight = ctx.attribute("epsilon"), _normalized_shape(ctx), _parameter(ctx, 1)
    if len(shape) > 1 or weight is None or ctx.torch_dtype(0) == torch.float64:
        return ctx.call(torch.rms_norm, ctx.input(0), shape, weight, epsilon)
    return ctx.call(rms_norm, ctx.input(0), weight, epsilon)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """RMSNorm of the last axis, an operator at a time, as transformers' modules write it."""
    y = x.to(torch.float32)
    variance = y.pow(2).mean(-1, keepdim=True)
    y = y * torch.rsqrt(variance + epsilon)
    return weight * y.to(x.dtype)


@lowers("LRN")
def _lrn(ctx: LayerContext) -> Node:
    size, alpha = ctx.attribute("size"), ctx.attribute("alpha")
    beta, bias = ctx.attribute("beta"), ctx.attribute("bias")
    function = F.local_response_norm if size % 2 else local_response_norm_even
    return ctx.call(function, ctx.input(0), size, alpha, beta, bias)


def local_response_norm_even(
    x: torch.Tensor, size: int, alpha: float, beta: float, bias: float
) -> torch.Tensor:
    """Normalizes with even sizes, where ONNX's window reaches one channel further up."""
    flipped = F.local_response_norm(x.flip(1), size, alpha, beta, bias)
    return flipped.flip(1)


@lowers("LpNormalization")
def _lp_normalization(ctx: LayerContext) -> Node:
    axis, p = ctx.axis(), ctx.attribute("p")
    return ctx.call(lp_normalize, ctx.input(0), p, axis)


def lp_normalize(x: torch.Tensor, p: int, axis: int) -> torch.Tensor:
    """Normalizes by the norm along the axis; zeros stay zero."""
    norm = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@lowers("MeanVarianceNormalization")
def _mean_variance(ctx: LayerContext) -> Node:
    axes = tuple(ctx.attribute("axes"))
    return ctx.call(mean_variance_normalize, ctx.input(0), axes)


def mean_variance_normalize(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """Normalizes to mean 0 and variance 1 over the axes, as in ONNX's function body."""
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (torch.sqrt(variance) + 1e-9)

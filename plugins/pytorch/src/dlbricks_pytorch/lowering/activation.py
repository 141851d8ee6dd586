"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

_PLAIN: dict[str, Callable[..., torch.Tensor]] = {
    "HardSwish": F.hardswish,
    "Mish": F.mish,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Softsign": F.softsign,
}


@lowers(*_PLAIN)
def _plain(ctx: LayerContext) -> Node:
    return ctx.call(_PLAIN[ctx.op], ctx.input(0))


@lowers("Softplus")
def _softplus(ctx: LayerContext) -> Node:
    if ctx.torch_dtype(0) == torch.float64:  # beyond its threshold F.softplus is exact to 1e-9 only
        return ctx.call(torch.logaddexp, ctx.input(0), ctx.call(torch.zeros_like, ctx.input(0)))
    return ctx.call(F.softplus, ctx.input(0))


@lowers("Gelu")
def _gelu(ctx: LayerContext) -> Node:
    return ctx.call(F.gelu, ctx.input(0), approximate=ctx.attribute("approximate"))


@lowers("Swish")
def _swish(ctx: LayerContext) -> Node:
    return ctx.call(_swish_function(ctx), ctx.input(0), *_swish_alpha(ctx))


def _swish_function(ctx: LayerContext) -> Callable[..., torch.Tensor]:
    return F.silu if _is(ctx.attribute("alpha"), 1.0) else swish


def _swish_alpha(ctx: LayerContext) -> tuple[float, ...]:
    alpha = ctx.attribute("alpha")
    return () if _is(alpha, 1.0) else (alpha,)


def swish(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """The input times the sigmoid of its multiple."""
    return x * torch.sigmoid(x * alpha)


@lowers("SwiGLU")
def _swiglu(ctx: LayerContext) -> Node:
    gate = ctx.call(_swish_function(ctx), ctx.input(0), *_swish_alpha(ctx))
    return ctx.call(torch.mul, gate, ctx.input(1))


@lowers("Elu")
def _elu(ctx: LayerContext) -> Node:
    return ctx.call(F.elu, ctx.input(0), ctx.attribute("alpha"))


@lowers("Selu")
def _selu(ctx: LayerContext) -> Node:
    alpha = ctx.attribute("alpha")
    gamma = ctx.attribute("gamma")
    if _is(alpha, 1.6732632423543772) and _is(gamma, 1.0507009873554805):
        return ctx.call(torch.selu, ctx.input(0))
    return ctx.call(torch.ops.aten.elu, ctx.input(0), alpha, gamma)


@lowers("Celu")
def _celu(ctx: LayerContext) -> Node:
    return ctx.call(torch.celu, ctx.input(0), ctx.attribute("alpha"))


@lowers("LeakyRelu")
def _leaky_relu(ctx: LayerContext) -> Node:
    return ctx.call(F.leaky_relu, ctx.input(0), ctx.attribute("alpha"))


@lowers("ThresholdedRelu")
def _thresholded_relu(ctx: LayerContext) -> Node:
    return ctx.call(F.threshold, ctx.input(0), ctx.attribute("alpha"), 0.0)


@lowers("HardSigmoid")
def _hard_sigmoid(ctx: LayerContext) -> Node:
    alpha, beta = ctx.attribute("alpha"), ctx.attribute("beta")
    if _is(alpha, 1 / 6) and _is(beta, 0.5):
        return ctx.call(F.hardsigmoid, ctx.input(0))
    return ctx.call(hard_sigmoid, ctx.input(0), alpha, beta)


def hard_sigmoid(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    """A linear function, clipped to the range from 0 to 1."""
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


@lowers("PRelu")
def _prelu(ctx: LayerContext) -> Node:
    rank, slope = ctx.rank(0), ctx.shape(1)
    padded = (1,) * (rank - len(slope)) + tuple(slope)
    per_channel = all(size == 1 for axis, size in enumerate(padded) if axis != 1)
    if ctx.torch_dtype(0).is_floating_point and rank >= 2 and per_channel:
        return ctx.call(torch.prelu, ctx.input(0), ctx.prepared(1, torch.ravel, "ravel"))
    return ctx.call(leaky, ctx.input(0), ctx.input(1))


def leaky(x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Negative values times a slope that may differ for every element."""
    return torch.where(x < 0, x * slope, x)


@lowers("Shrink")
def _shrink(ctx: LayerContext) -> Node:
    bias, threshold = ctx.attribute("bias"), ctx.attribute("lambd")
    floating = ctx.torch_dtype(0).is_floating_point
    if floating and bias == 0.0 and threshold >= 0:
        return ctx.call(F.hardshrink, ctx.input(0), threshold)
    if floating and bias == threshold and threshold >= 0:
        return ctx.call(F.softshrink, ctx.input(0), threshold)
    return ctx.call(shrink, ctx.input(0), bias, threshold)


def shrink(x: torch.Tensor, bias: float, threshold: float) -> torch.Tensor:
    """Values beyond the threshold move towards zero by the bias; other values become zero."""
    zero = torch.zeros_like(x)
    moved = torch.where(x > threshold, x - bias, zero)
    return torch.where(x < -threshold, x + bias, moved).to(x.dtype)


@lowers("Softmax")
def _softmax(ctx: LayerContext) -> Node:
    return ctx.call(torch.softmax, ctx.input(0), ctx.axis())


@lowers("LogSoftmax")
def _log_softmax(ctx: LayerContext) -> Node:
    return ctx.call(torch.log_softmax, ctx.input(0), ctx.axis())


@lowers("Hardmax")
def _hardmax(ctx: LayerContext) -> Node:
    return ctx.call(hardmax, ctx.input(0), ctx.axis())


def hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    """1 at the first maximum along the axis, 0 elsewhere."""
    return torch.zeros_like(x).scatter_(axis, x.argmax(axis, keepdim=True), 1)


def _is(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=1e-6)

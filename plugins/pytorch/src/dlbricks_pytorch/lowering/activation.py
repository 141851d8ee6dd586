"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering

_PLAIN: dict[str, Callable[..., torch.Tensor]] = {
    "HardSwish": F.hardswish,
    "Mish": F.mish,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Softsign": F.softsign,
}


@lowering(*_PLAIN)
def _plain(layer: LayerContext) -> Node:
    return layer.call(_PLAIN[layer.layer.op], layer.input(0))


@lowering("Softplus")
def _softplus(layer: LayerContext) -> Node:
    if layer.dtype(0) == torch.float64:  # beyond its threshold F.softplus is exact to 1e-9 only
        return layer.call(
            torch.logaddexp, layer.input(0), layer.call(torch.zeros_like, layer.input(0))
        )
    return layer.call(F.softplus, layer.input(0))


@lowering("Gelu")
def _gelu(layer: LayerContext) -> Node:
    return layer.call(F.gelu, layer.input(0), approximate=layer.attribute("approximate", "none"))


@lowering("Swish")
def _swish(layer: LayerContext) -> Node:
    return layer.call(_swish_function(layer), layer.input(0), *_swish_alpha(layer))


def _swish_function(layer: LayerContext) -> Callable[..., torch.Tensor]:
    return F.silu if _is(layer.attribute("alpha", 1.0), 1.0) else swish


def _swish_alpha(layer: LayerContext) -> tuple[float, ...]:
    alpha = layer.attribute("alpha", 1.0)
    return () if _is(alpha, 1.0) else (alpha,)


def swish(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """The input times the sigmoid of its multiple."""
    return x * torch.sigmoid(x * alpha)


@lowering("SwiGLU")
def _swiglu(layer: LayerContext) -> Node:
    gate = layer.call(_swish_function(layer), layer.input(0), *_swish_alpha(layer))
    return layer.call(torch.mul, gate, layer.input(1))


@lowering("Elu")
def _elu(layer: LayerContext) -> Node:
    return layer.call(F.elu, layer.input(0), layer.attribute("alpha", 1.0))


@lowering("Selu")
def _selu(layer: LayerContext) -> Node:
    alpha = layer.attribute("alpha", 1.6732632423543772)
    gamma = layer.attribute("gamma", 1.0507009873554805)
    if _is(alpha, 1.6732632423543772) and _is(gamma, 1.0507009873554805):
        return layer.call(torch.selu, layer.input(0))
    return layer.call(torch.ops.aten.elu, layer.input(0), alpha, gamma)


@lowering("Celu")
def _celu(layer: LayerContext) -> Node:
    return layer.call(torch.celu, layer.input(0), layer.attribute("alpha", 1.0))


@lowering("LeakyRelu")
def _leaky_relu(layer: LayerContext) -> Node:
    return layer.call(F.leaky_relu, layer.input(0), layer.attribute("alpha", 0.01))


@lowering("ThresholdedRelu")
def _thresholded_relu(layer: LayerContext) -> Node:
    return layer.call(F.threshold, layer.input(0), layer.attribute("alpha", 1.0), 0.0)


@lowering("HardSigmoid")
def _hard_sigmoid(layer: LayerContext) -> Node:
    alpha, beta = layer.attribute("alpha", 0.2), layer.attribute("beta", 0.5)
    if _is(alpha, 1 / 6) and _is(beta, 0.5):
        return layer.call(F.hardsigmoid, layer.input(0))
    return layer.call(hard_sigmoid, layer.input(0), alpha, beta)


def hard_sigmoid(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    """A line, cut off at zero and one."""
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


@lowering("PRelu")
def _prelu(layer: LayerContext) -> Node:
    rank, slope = layer.rank(0), layer.shape(1)
    padded = (1,) * (rank - len(slope)) + tuple(slope)
    per_channel = all(size == 1 for axis, size in enumerate(padded) if axis != 1)
    if layer.dtype(0).is_floating_point and rank >= 2 and per_channel:
        return layer.call(torch.prelu, layer.input(0), layer.prepared(1, torch.ravel, "ravel"))
    return layer.call(leaky, layer.input(0), layer.input(1))


def leaky(x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Negative values times a slope that may differ for every element."""
    return torch.where(x < 0, x * slope, x)


@lowering("Shrink")
def _shrink(layer: LayerContext) -> Node:
    bias, threshold = layer.attribute("bias", 0.0), layer.attribute("lambd", 0.5)
    floating = layer.dtype(0).is_floating_point
    if floating and bias == 0.0 and threshold >= 0:
        return layer.call(F.hardshrink, layer.input(0), threshold)
    if floating and bias == threshold and threshold >= 0:
        return layer.call(F.softshrink, layer.input(0), threshold)
    return layer.call(shrink, layer.input(0), bias, threshold)


def shrink(x: torch.Tensor, bias: float, threshold: float) -> torch.Tensor:
    """Values beyond the threshold move by the bias towards zero; the others become zero."""
    zero = torch.zeros_like(x)
    moved = torch.where(x > threshold, x - bias, zero)
    return torch.where(x < -threshold, x + bias, moved).to(x.dtype)


@lowering("Softmax")
def _softmax(layer: LayerContext) -> Node:
    return layer.call(torch.softmax, layer.input(0), layer.axis(default=-1))


@lowering("LogSoftmax")
def _log_softmax(layer: LayerContext) -> Node:
    return layer.call(torch.log_softmax, layer.input(0), layer.axis(default=-1))


@lowering("Hardmax")
def _hardmax(layer: LayerContext) -> Node:
    return layer.call(hardmax, layer.input(0), layer.axis(default=-1))


def hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    """One where the first maximum along the axis is, zero elsewhere."""
    return torch.zeros_like(x).scatter_(axis, x.argmax(axis, keepdim=True), 1)


def _is(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=1e-6)

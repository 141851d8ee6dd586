"""Activation functions."""

from __future__ import annotations

import math

from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import check_broadcast
from dlbricks_mxnet.lowering.limits import FLOAT, NUMBER, SELECTION_AXES
from dlbricks_mxnet.lowering.symbols import Symbol, npi, op, transpose, where
from dlbricks_mxnet.lowering.table import lowers


@lowers("Relu", types=NUMBER)
def _relu(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    return op.Activation(x, act_type="relu") if ctx.dtype() in FLOAT else op.relu(x)


def _activation(name: str, kind: str) -> None:
    @lowers(name)
    def lower(ctx: LayerContext) -> Symbol:
        return op.Activation(ctx.input(), act_type=kind)


for _name, _kind in {
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Softsign": "softsign",
}.items():  # fmt: skip
    _activation(_name, _kind)


@lowers("LeakyRelu")
def _leaky_relu(ctx: LayerContext) -> Symbol:
    return op.LeakyReLU(ctx.input(), act_type="leaky", slope=ctx.attribute("alpha"))


@lowers("PRelu", axes=SELECTION_AXES)
def _prelu(ctx: LayerContext) -> Symbol:
    x, shape, slope = ctx.input(0), ctx.shape(0), ctx.shape(1)
    channels = shape[1] if len(shape) > 1 else 0
    by_channel = (1,) * (len(shape) - len(slope)) + slope
    if ctx.is_weight(1) and by_channel == (1, channels, *(1,) * (len(shape) - 2)):
        gamma = ctx.prepared("slope", [1], lambda value: value, (channels,))
        return op.LeakyReLU(x, gamma, act_type="prelu")
    check_broadcast(shape, slope)
    return where(npi.less_scalar(x, scalar=0), op.broadcast_mul(x, ctx.input(1)), x)


def _elu_of(x: Symbol, alpha: float) -> Symbol:
    return op.LeakyReLU(x, act_type="elu", slope=alpha)


@lowers("Elu")
def _elu(ctx: LayerContext) -> Symbol:
    return _elu_of(ctx.input(), ctx.attribute("alpha"))


@lowers("Celu")
def _celu(ctx: LayerContext) -> Symbol:
    alpha = ctx.attribute("alpha")
    return _elu_of(ctx.input() / alpha, 1.0) * alpha


# MXNet has these two numbers built in.
_SELU = (1.6732632423543772, 1.0507009873554805)
"""Alpha and gamma of Selu."""


@lowers("Selu")
def _selu(ctx: LayerContext) -> Symbol:
    alpha, gamma = ctx.attribute("alpha", _SELU[0]), ctx.attribute("gamma", _SELU[1])
    if all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip((alpha, gamma), _SELU, strict=True)):
        return op.LeakyReLU(ctx.input(), act_type="selu")
    return _elu_of(ctx.input(), alpha) * gamma


@lowers("HardSigmoid")
def _hard_sigmoid(ctx: LayerContext) -> Symbol:
    alpha, beta = ctx.attribute("alpha"), ctx.attribute("beta")
    return op.hard_sigmoid(ctx.input(), alpha=alpha, beta=beta)


@lowers("HardSwish")
def _hard_swish(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    return x * op.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


@lowers("Mish")
def _mish(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    return x * op.tanh(_softplus_of(x, ctx.dtype()))


@lowers("Softplus")
def _softplus(ctx: LayerContext) -> Symbol:
    return _softplus_of(ctx.input(), ctx.dtype())


def _softplus_of(x: Symbol, dtype: str) -> Symbol:
    """MXNet's own softrelu is wrong by percents where the result is small."""
    # From here on the result is the argument, and the exponential has not overflowed yet.
    bound = 10.0 if dtype == "float16" else 80.0
    return op.broadcast_maximum(x, op.log1p(op.exp(op._internal._minimum_scalar(x, bound))))


@lowers("Swish")
def _swish(ctx: LayerContext) -> Symbol:
    x, alpha = ctx.input(), ctx.attribute("alpha")
    return x * op.sigmoid(x if alpha == 1.0 else x * alpha)


@lowers("Gelu")
def _gelu(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    if ctx.attribute("approximate") == "none":
        return op.LeakyReLU(x, act_type="gelu")
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + op.tanh(inner))


@lowers("ThresholdedRelu", axes=SELECTION_AXES)
def _thresholded_relu(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    above = npi.greater_scalar(x, scalar=ctx.attribute("alpha"))
    return where(above, x, op.zeros_like(x))


@lowers("Shrink", types=NUMBER, axes=SELECTION_AXES)
def _shrink(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    threshold, bias = ctx.attribute("lambd"), ctx.attribute("bias")
    low = where(npi.less_scalar(x, scalar=-threshold), x + bias, op.zeros_like(x))
    return where(npi.greater_scalar(x, scalar=threshold), x - bias, low)


@lowers("Softmax")
def _softmax(ctx: LayerContext) -> Symbol:
    return op.softmax(_along_axis(ctx), axis=ctx.axis())


@lowers("LogSoftmax")
def _log_softmax(ctx: LayerContext) -> Symbol:
    return op.log_softmax(_along_axis(ctx), axis=ctx.axis())


def _along_axis(ctx: LayerContext) -> Symbol:
    # Along the last axis, MXNet 1.9.1 crashes on blocks of channels.
    return ctx.plain() if ctx.axis() == ctx.rank() - 1 else ctx.input()


@lowers("Hardmax")
def _hardmax(ctx: LayerContext) -> Symbol:
    axis, shape = ctx.axis(), ctx.shape()
    largest = npi.argmax(ctx.input(), axis=axis, keepdims=False)
    hot = op.one_hot(largest, depth=shape[axis], dtype=ctx.dtype())
    last = len(shape) - 1
    perm = [*range(axis), last, *range(axis, last)]
    return transpose(hot, perm)

"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

_CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
_TRANSPOSED = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


def torch_pads(begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Pads before and after each axis in the order of ``F.pad``: the last axis first."""
    pairs = list(zip(begins, ends, strict=True))
    return [int(pad) for pair in reversed(pairs) for pad in pair]


@lowers("Conv")
def _conv(ctx: LayerContext) -> Node:
    x, padding = padded(ctx, ctx.input(0))
    return ctx.call(convolution_of(ctx), x, ctx.input(1), ctx.optional(2), *geometry(ctx, padding))


def convolution_of(ctx: LayerContext) -> Callable[..., torch.Tensor]:
    """The torch convolution for the layer's number of spatial axes."""
    function = _CONVOLUTIONS.get(ctx.spatial_rank)
    if function is None:
        raise UnsupportedError(f"torch has no convolution over {ctx.spatial_rank} axes")
    return function


def geometry(ctx: LayerContext, padding: tuple[int, ...]) -> tuple[object, ...]:
    """Strides, padding, dilations and groups in torch's order."""
    strides, dilations = ctx.per_axis("strides"), ctx.per_axis("dilations")
    return strides, padding, dilations, ctx.attribute("group")


def padded(ctx: LayerContext, x: Node) -> tuple[Node, tuple[int, ...]]:
    """Pads the input separately where pads of an axis are unequal, which the convolution lacks."""
    begins, ends = ctx.pads()
    if begins == ends and min(begins, default=0) >= 0:
        return x, begins
    return ctx.call(torch.constant_pad_nd, x, torch_pads(begins, ends)), (0,) * len(begins)


@lowers("ConvTranspose")
def _conv_transpose(ctx: LayerContext) -> Node:
    axes = ctx.spatial_rank
    function = _TRANSPOSED.get(axes)
    if function is None:
        raise UnsupportedError(f"torch has no transposed convolution over {axes} axes")
    strides, dilations = ctx.per_axis("strides"), ctx.per_axis("dilations")
    kernel, wanted = ctx.shape(1)[2:], ctx.out_shape()[2:]
    begins, _ = ctx.pads()
    # Size without padding; torch cuts equally on both sides and may add at the end.
    full = [
        (size - 1) * stride + (k - 1) * dilation + 1
        for size, stride, k, dilation in zip(
            ctx.shape(0)[2:], strides, kernel, dilations, strict=True
        )
    ]
    missing = [w - (f - 2 * b) for w, f, b in zip(wanted, full, begins, strict=True)]
    fits = all(
        b >= 0 and 0 <= m < max(s, d)
        for b, m, s, d in zip(begins, missing, strides, dilations, strict=True)
    )
    common = (ctx.attribute("group"), dilations)
    x, weight, bias = ctx.input(0), ctx.input(1), ctx.optional(2)
    if fits:
        return ctx.call(function, x, weight, bias, strides, begins, tuple(missing), *common)
    # Unequal pads: compute everything, then cut (or fill with the bias) to the wanted size.
    zeros = (0,) * axes
    everything = ctx.call(function, x, weight, None, strides, zeros, zeros, *common)
    ends = [w + b - f for w, b, f in zip(wanted, begins, full, strict=True)]
    cut = ctx.call(torch.constant_pad_nd, everything, torch_pads([-b for b in begins], ends))
    if bias is None:
        return cut
    shape = (-1, *(1,) * axes)
    column = ctx.prepared(2, lambda b: b.reshape(shape), ("column", axes))
    return ctx.call(torch.add, cut, column)


@lowers("CausalConvWithState")
def _causal_conv(ctx: LayerContext) -> tuple[Node, Node]:
    width, kernel = ctx.shape(0)[-1], ctx.shape(1)[-1]
    channels = ctx.shape(0)[1]
    if ctx.has(3):
        x = ctx.call(torch.cat, [ctx.input(3), ctx.input(0)], -1)
    else:
        x = ctx.call(torch.constant_pad_nd, ctx.input(0), [kernel - 1, 0])
    y = ctx.call(torch.conv1d, x, ctx.input(1), ctx.optional(2), 1, 0, 1, channels)
    if ctx.attribute("activation") in ("silu", "swish"):
        y = ctx.call(F.silu, y)
    elif ctx.attribute("activation") != "none":
        raise UnsupportedError(f"unknown activation {ctx.attribute('activation')}")
    state = ctx.call(torch.narrow, x, -1, width, kernel - 1)
    return y, state

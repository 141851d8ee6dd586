"""Convolutions and their transposes, in one to three dimensions."""

from __future__ import annotations

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import REAL
from dlbricks_mxnet.lowering.padding import zero_pad
from dlbricks_mxnet.lowering.symbols import Symbol, op
from dlbricks_mxnet.lowering.table import lowers


def _check_dimensions(ctx: LayerContext) -> int:
    dimensions = ctx.spatial_rank
    if not 1 <= dimensions <= 3:
        raise UnsupportedError(f"MXNet has none in {dimensions} dimensions")
    return dimensions


@lowers("Conv", types=REAL)
def _conv(ctx: LayerContext) -> Symbol:
    dimensions = _check_dimensions(ctx)
    begin, end = ctx.pads()
    x = ctx.input(0)
    if begin != end:
        x = zero_pad(x, ctx.shape(0), (0, 0, *begin), (0, 0, *end))
        begin = (0,) * dimensions
    return op.Convolution(
        x,
        *(ctx.input(i) for i in range(1, ctx.count) if ctx.has(i)),
        kernel=ctx.shape(1)[2:],
        stride=ctx.per_axis("strides"),
        dilate=ctx.per_axis("dilations"),
        pad=begin,
        num_filter=ctx.shape(1)[0],
        num_group=ctx.attribute("group"),
        no_bias=not ctx.has(2),
    )


@lowers("ConvTranspose", types=REAL)
def _conv_transpose(ctx: LayerContext) -> Symbol:
    dimensions = _check_dimensions(ctx)
    kernel = ctx.shape(1)[2:]
    strides, dilations = ctx.per_axis("strides"), ctx.per_axis("dilations")
    begin, _ = ctx.pads()
    group = ctx.attribute("group")
    sizes, wanted = ctx.shape(0)[2:], ctx.out_shape()[2:]
    reach = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    if dimensions == 3 and any(d > 1 for d in dilations):
        raise UnsupportedError("MXNet has no dilations in three dimensions")
    # Elements beyond the symmetric form; MXNet allows fewer than a stride of them.
    extra = [w + 2 * b - r for w, b, r in zip(wanted, begin, reach, strict=True)]
    native = all(0 <= e < s for e, s in zip(extra, strides, strict=True))
    pad = begin if native else (0,) * dimensions
    y = op.Deconvolution(
        ctx.input(0),
        *(ctx.input(i) for i in range(1, ctx.count) if ctx.has(i) and (native or i < 2)),
        kernel=kernel,
        stride=strides,
        dilate=dilations,
        pad=pad,
        adj=tuple(extra) if native else (0,) * dimensions,
        num_filter=ctx.shape(1)[1] * group,
        num_group=group,
        no_bias=not (ctx.has(2) and native),
    )
    if native:
        return y
    # The full result is cut, or extended by zeros, before the bias.
    cut = [min(b, r) for b, r in zip(begin, reach, strict=True)]
    y = op.slice(
        y,
        begin=(None, None, *cut),
        end=(None, None, *(min(c + w, r) for c, w, r in zip(cut, wanted, reach, strict=True))),
    )
    missing = [max(c + w - r, 0) for c, w, r in zip(cut, wanted, reach, strict=True)]
    if any(missing):
        held = (*ctx.out_shape()[:2], *(w - m for w, m in zip(wanted, missing, strict=True)))
        y = zero_pad(y, held, (0,) * len(held), (0, 0, *missing))
    if ctx.has(2):
        bias = op.reshape(ctx.input(2), shape=(1, -1, *(1,) * dimensions))
        y = op.broadcast_add(y, bias)
    return y

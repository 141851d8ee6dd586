"""Reading feature maps at computed positions, and adding up windows."""

from __future__ import annotations

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import round_half_even
from dlbricks_mxnet.lowering.limits import FLOAT, REAL
from dlbricks_mxnet.lowering.symbols import Symbol, op
from dlbricks_mxnet.lowering.table import lowers

_MAP_RANK = 4
_MOST_COLUMN_AXES = 2
"""Rank of the maps that MXNet samples, and maximum number of spatial axes of Col2Im."""


@lowers("GridSample", types=REAL)
def _grid_sample(ctx: LayerContext) -> Symbol:
    """Converts ONNX's coordinates to those of the sampler, which reads zeros outside of the map."""
    if ctx.rank() != _MAP_RANK:
        raise UnsupportedError("MXNet has none of volumes")
    mode, padding = ctx.attribute("mode"), ctx.attribute("padding_mode")
    if mode not in ("linear", "nearest") or padding not in ("zeros", "border"):
        raise UnsupportedError(f"MXNet has no mode {mode} with padding {padding}")
    height, width = ctx.shape()[2:]
    if min(height, width) == 1:
        raise UnsupportedError("MXNet has none of a map with one row or column")
    corners = bool(ctx.attribute("align_corners"))
    x, y = op.SliceChannel(ctx.input(1), num_outputs=2, axis=3, squeeze_axis=True)
    axes = [
        op.expand_dims(_normalized(part, size, mode, padding, corners=corners), axis=1)
        for part, size in ((x, width), (y, height))
    ]
    return op.BilinearSampler(ctx.plain(0), op.Concat(*axes, dim=1))


def _normalized(part: Symbol, size: int, mode: str, padding: str, *, corners: bool) -> Symbol:
    """Coordinates along an axis, so that -1 and 1 are the middles of its first and last element."""
    last = size - 1
    half = last / 2
    position = (part + 1) * half if corners else ((part + 1) * size - 1) * 0.5
    if mode == "nearest":
        position = round_half_even(position)
    if padding == "border":
        position = op.clip(position, a_min=0, a_max=last)
    return position * (1 / half) - 1


@lowers("Col2Im", types=FLOAT)
def _col2im(ctx: LayerContext) -> Symbol:
    size = ctx.integers(1)
    kernel = ctx.integers(2)
    rank = len(size)
    if rank > _MOST_COLUMN_AXES:  # MXNet's kernel mistakes its own buffer's size
        raise UnsupportedError("MXNet has none of volumes")
    begins, ends = ctx.pads(rank)
    if begins != ends:
        raise UnsupportedError("MXNet has no other pads at the end than at the beginning")
    return op.col2im(
        ctx.input(0),
        output_size=size,
        kernel=kernel,
        stride=ctx.per_axis("strides", rank),
        dilate=ctx.per_axis("dilations", rank),
        pad=begins,
    )

"""Reading feature maps at computed positions, and adding up windows."""

from __future__ import annotations

from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import round_half_even
from dlbricks_mxnet.lowering.registry import FLOAT, REAL, lowers, unsupported
from dlbricks_mxnet.lowering.symbols import Symbol, op

_MAP_RANK = 4
_MOST_COLUMN_AXES = 2


@lowers("GridSample", types=REAL)
def _grid_sample(ctx: LayerContext) -> Symbol:
    """Maps ONNX's coordinates to those of the sampler, which reads zeros outside of the map."""
    if ctx.rank() != _MAP_RANK:
        raise unsupported("GridSample of volumes")
    mode, padding = ctx.attribute("mode"), ctx.attribute("padding_mode")
    if mode not in ("linear", "nearest") or padding not in ("zeros", "border"):
        raise unsupported(f"GridSample with mode {mode} and padding {padding}")
    height, width = ctx.shape()[2:]
    if min(height, width) == 1:
        raise unsupported("GridSample of a map with one row or column")
    corners = bool(ctx.attribute("align_corners"))
    x, y = op.SliceChannel(ctx.symbol(1), num_outputs=2, axis=3, squeeze_axis=True)
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
    size = tuple(int(n) for n in ctx.known(1, "image size").ravel())
    kernel = tuple(int(n) for n in ctx.known(2, "block size").ravel())
    ones, rank = (1,) * len(size), len(size)
    if rank > _MOST_COLUMN_AXES:  # MXNet's kernel mistakes its own buffer's size
        raise unsupported("Col2Im of volumes")
    pads = tuple(ctx.attribute("pads") or (0,) * 2 * rank)
    if pads[:rank] != pads[rank:]:
        raise unsupported("Col2Im with other pads at the end than at the beginning")
    return op.col2im(
        ctx.symbol(0),
        output_size=size,
        kernel=kernel,
        stride=tuple(ctx.attribute("strides") or ones),
        dilate=tuple(ctx.attribute("dilations") or ones),
        pad=pads[:rank],
    )

"""Padding in all modes, along all axes."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import torch_pads
from dlbricks_pytorch.lowering.table import lowers

Shape = tuple[int, ...]

_TORCH_MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@lowers("Pad")
def _pad(ctx: LayerContext) -> Node:
    mode = ctx.attribute("mode")
    begins, ends = ctx.all_pads()
    if mode == "constant":
        return _constant_pad(ctx, begins, ends)
    if _has_native(ctx, mode, begins, ends):
        spatial = torch_pads(begins[2:], ends[2:])
        return ctx.call(F.pad, ctx.input(0), spatial, _TORCH_MODES[mode])
    node = ctx.input(0)
    for axis, (size, begin, end) in enumerate(zip(ctx.shape(), begins, ends, strict=True)):
        if begin or end:
            index = ctx.fixed(_source_indices(mode, size, begin, end))
            node = ctx.call(torch.index_select, node, axis, index)
    return node


def _constant_pad(ctx: LayerContext, begins: Shape, ends: Shape) -> Node:
    if ctx.has(2) and not ctx.is_scalar_weight(2):
        raise UnsupportedError("the padding value is not a constant")
    value = ctx.number(2) if ctx.has(2) else 0
    return ctx.call(torch.constant_pad_nd, ctx.input(0), torch_pads(begins, ends), value)


def _has_native(ctx: LayerContext, mode: str, begins: Shape, ends: Shape) -> bool:
    """Whether F.pad has the mode for these axes: the spatial ones of floats only."""
    inside = mode == "edge" or all(
        begin < size and end < size
        for size, begin, end in zip(ctx.shape(), begins, ends, strict=True)
    )
    return (
        3 <= ctx.rank() <= 5
        and not any((*begins[:2], *ends[:2]))
        and min((*begins, *ends)) >= 0
        and inside
        and ctx.torch_dtype(0) in (torch.float32, torch.float64)
    )


def _source_indices(mode: str, size: int, begin: int, end: int) -> Array:
    """Source index of each element of the padded axis."""
    position = np.arange(-begin, size + end)
    if mode == "edge":
        return np.asarray(np.clip(position, 0, size - 1))
    if mode == "wrap":
        return position % size
    period = max(2 * (size - 1), 1)
    return np.asarray((size - 1) - np.abs((size - 1) - position % period))

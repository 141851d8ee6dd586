"""Pooling over windows and over whole feature maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import torch_pads
from dlbricks_pytorch.lowering.table import lowers

_MAX = {1: torch.max_pool1d, 2: torch.max_pool2d, 3: torch.max_pool3d}
_MAX_WITH_INDICES = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}


@dataclass(frozen=True)
class Windows:
    """Geometry of a pooling, with the end pads that its result's shape implies.

    ``ends`` are the pads for which exactly the wanted windows fit; they differ from the layer's own
    in ceil mode. ``native`` is whether torch's own padding and ceil mode give the same windows.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    ceil: bool
    native: bool

    @property
    def pads(self) -> list[int]:
        """Pads that make the windows fit, as F.pad takes them."""
        return torch_pads(self.begins, self.ends)


def windows_of(ctx: LayerContext) -> Windows:
    """The windows that the shape of the layer's result implies."""
    axes = ctx.spatial_rank
    kernel: tuple[int, ...] = tuple(ctx.attribute("kernel_shape"))
    strides, dilations = ctx.per_axis("strides"), ctx.per_axis("dilations")
    begins, given_ends = ctx.pads()
    sizes, wanted = ctx.shape(0)[2:], ctx.out_shape()[2:]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    ends = tuple(
        (out - 1) * stride + span - size - begin
        for out, stride, span, size, begin in zip(
            wanted, strides, spans, sizes, begins, strict=True
        )
    )

    def torch_size(i: int, ceil: bool) -> int:
        room = sizes[i] + 2 * begins[i] - spans[i]
        out = (room + (strides[i] - 1 if ceil else 0)) // strides[i] + 1
        return out - 1 if ceil and (out - 1) * strides[i] >= sizes[i] + begins[i] else out

    def fits(ceil: bool) -> bool:
        return all(
            torch_size(i, ceil) == wanted[i] and 0 <= begins[i] <= kernel[i] // 2
            for i in range(axes)
        )

    equal = begins == given_ends
    ceil = equal and not fits(ceil=False) and fits(ceil=True)
    native = equal and (ceil or fits(ceil=False))
    return Windows(kernel, strides, dilations, begins, ends, ceil, native)


@lowers("MaxPool")
def _max_pool(ctx: LayerContext) -> Node | tuple[Node, Node]:
    axes = ctx.spatial_rank
    if axes not in _MAX:
        raise UnsupportedError(f"torch has no pooling over {axes} axes")
    windows = windows_of(ctx)
    x, begins = ctx.input(0), windows.begins
    if not windows.native:
        dtype = ctx.torch_dtype(0)
        lowest = -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min
        x, begins = ctx.call(torch.constant_pad_nd, x, windows.pads, lowest), (0,) * axes
    arguments = (x, windows.kernel, windows.strides, begins, windows.dilations, windows.ceil)
    if not ctx.wants(1):
        return ctx.call(_MAX[axes], *arguments)
    both = ctx.call(_MAX_WITH_INDICES[axes], *arguments, return_indices=True)
    padded = tuple(
        size + (0 if windows.native else begin + end)
        for size, begin, end in zip(ctx.shape(0)[2:], windows.begins, windows.ends, strict=True)
    )
    indices = ctx.call(
        whole_indices,
        ctx.item(both, 1),
        ctx.shape(0),
        padded,
        () if windows.native else windows.begins,
        bool(ctx.attribute("storage_order")),
    )
    return ctx.item(both, 0), indices


def whole_indices(
    indices: torch.Tensor,
    shape: tuple[int, ...],
    padded: tuple[int, ...],
    begins: tuple[int, ...],
    column_major: bool,
) -> torch.Tensor:
    """Converts torch's indices within a channel's plane to ONNX's within the whole tensor."""
    sizes = shape[2:]
    coordinates: list[torch.Tensor] = []
    for size in reversed(padded):
        coordinates.insert(0, indices % size)
        indices = indices // size
    if begins:
        coordinates = [c - b for c, b in zip(coordinates, begins, strict=True)]
    plane = torch.zeros_like(indices)
    order = list(zip(coordinates, sizes, strict=True))
    for coordinate, size in reversed(order) if column_major else order:
        plane = plane * size + coordinate
    planes = torch.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *(1,) * len(sizes))
    return planes * int(np.prod(sizes)) + plane


@lowers("AveragePool")
def _average_pool(ctx: LayerContext) -> Node:
    axes = ctx.spatial_rank
    if axes not in _AVERAGE:
        raise UnsupportedError(f"torch has no pooling over {axes} axes")
    windows = windows_of(ctx)
    include = bool(ctx.attribute("count_include_pad"))
    if windows.native and set(windows.dilations) <= {1}:
        return ctx.call(
            _AVERAGE[axes], ctx.input(0), windows.kernel, windows.strides, windows.begins,
            windows.ceil, include,
        )  # fmt: skip
    total = window_sums(ctx, ctx.input(0), windows)
    counts = ctx.fixed(_window_counts(ctx, windows, include).astype(np.float32))
    if ctx.torch_dtype(0) != torch.float32:
        counts = ctx.call(torch.Tensor.to, counts, ctx.torch_dtype(0))
    return ctx.call(torch.div, total, counts)


def window_sums(ctx: LayerContext, x: Node, windows: Windows) -> Node:
    """Sum of every window, with zeros beyond the borders."""
    axes = len(windows.kernel)
    if any(windows.pads):
        x = ctx.call(torch.constant_pad_nd, x, windows.pads)
    if set(windows.dilations) <= {1}:
        mean = ctx.call(_AVERAGE[axes], x, windows.kernel, windows.strides)
        return ctx.call(torch.mul, mean, int(np.prod(windows.kernel)))
    channels = ctx.shape(0)[1]
    ones = ctx.fixed(torch.ones(channels, 1, *windows.kernel, dtype=ctx.torch_dtype(0)))
    return ctx.call(
        _CONVOLUTIONS[axes], x, ones, None, windows.strides, 0, windows.dilations, channels
    )


def _window_counts(ctx: LayerContext, windows: Windows, include: bool) -> Array:
    """Number of elements that each window averages over."""
    _, ends = ctx.pads()
    axes = len(windows.kernel)
    counts = np.ones((1,) * axes)
    for i, (size, out) in enumerate(zip(ctx.shape(0)[2:], ctx.out_shape()[2:], strict=True)):
        low = -windows.begins[i] if include else 0
        high = size + (ends[i] if include else 0)
        starts = np.arange(out)[:, None] * windows.strides[i] - windows.begins[i]
        taken = starts + np.arange(windows.kernel[i]) * windows.dilations[i]
        inside = ((taken >= low) & (taken < high)).sum(axis=1)
        counts = counts * inside.reshape([-1 if j == i else 1 for j in range(axes)])
    return counts


@lowers("LpPool")
def _lp_pool(ctx: LayerContext) -> Node:
    if ctx.spatial_rank not in _AVERAGE:
        raise UnsupportedError(f"torch has no pooling over {ctx.spatial_rank} axes")
    p = float(ctx.attribute("p"))
    powers = ctx.call(torch.pow, ctx.call(torch.abs, ctx.input(0)), p)
    total = window_sums(ctx, powers, windows_of(ctx))
    return ctx.call(torch.pow, total, 1.0 / p)


def _spatial_axes(ctx: LayerContext) -> tuple[int, ...]:
    return tuple(range(2, ctx.rank(0)))


@lowers("GlobalAveragePool")
def _global_average_pool(ctx: LayerContext) -> Node:
    if ctx.rank(0) == 4:
        return ctx.call(F.adaptive_avg_pool2d, ctx.input(0), (1, 1))
    return ctx.call(torch.mean, ctx.input(0), _spatial_axes(ctx), True)


@lowers("GlobalMaxPool")
def _global_max_pool(ctx: LayerContext) -> Node:
    return ctx.call(torch.amax, ctx.input(0), _spatial_axes(ctx), True)


@lowers("GlobalLpPool")
def _global_lp_pool(ctx: LayerContext) -> Node:
    order = ctx.attribute("p")
    return ctx.call(torch.linalg.vector_norm, ctx.input(0), order, _spatial_axes(ctx), True)


@lowers("MaxUnpool")
def _max_unpool(ctx: LayerContext) -> Node:
    kernel, strides = ctx.attribute("kernel_shape"), ctx.per_axis("strides")
    begins, ends = ctx.pads()
    sizes = tuple(
        (size - 1) * strides[i] + kernel[i] - begins[i] - ends[i]
        for i, size in enumerate(ctx.shape(0)[2:])
    )
    wanted = ctx.out_shape()
    plane = (*ctx.shape(0)[:2], *sizes)
    unpooled = ctx.call(unpool, ctx.input(0), ctx.input(1), plane)
    if plane == wanted:
        return unpooled
    missing = [w - s for w, s in zip(wanted[2:], sizes, strict=True)]
    zeros = [0] * len(missing)
    return ctx.call(torch.constant_pad_nd, unpooled, torch_pads(zeros, missing))


def unpool(x: torch.Tensor, indices: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Values at their flat positions in a tensor of zeros."""
    flat = torch.zeros(int(np.prod(shape)), dtype=x.dtype)
    return flat.scatter_(0, indices.reshape(-1), x.reshape(-1)).reshape(shape)

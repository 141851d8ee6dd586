"""Pooling over windows and over everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import pads_of, spatial, torch_pads
from dlbricks_pytorch.lowering.table import lowering

_MAX = {1: torch.max_pool1d, 2: torch.max_pool2d, 3: torch.max_pool3d}
_MAX_WITH_INDICES = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}


@dataclass(frozen=True)
class Windows:
    """Geometry of a pooling, with the end pads that its result's shape implies.

    ``ends`` are the pads that make exactly the wanted windows fit; they differ from the
    layer's own in ceil mode. ``native`` says that torch's own padding and ceil mode give
    the same windows.
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
        return torch_pads([*self.begins, *self.ends])


def windows_of(layer: LayerContext) -> Windows:
    """The windows that the layer's result shape asks for."""
    axes = layer.rank(0) - 2
    kernel: tuple[int, ...] = tuple(layer.attribute("kernel_shape"))
    strides, dilations = spatial(layer, "strides"), spatial(layer, "dilations")
    pads = pads_of(layer)
    begins, sizes, wanted = pads[:axes], layer.shape(0)[2:], layer.result_shape()[2:]
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

    equal = begins == pads[axes:]
    ceil = equal and not fits(ceil=False) and fits(ceil=True)
    native = equal and (ceil or fits(ceil=False))
    return Windows(kernel, strides, dilations, begins, ends, ceil, native)


@lowering("MaxPool")
def _max_pool(layer: LayerContext) -> Node | tuple[Node, Node]:
    axes = layer.rank(0) - 2
    if axes not in _MAX:
        raise layer.unsupported(f"torch has no pooling over {axes} axes")
    windows = windows_of(layer)
    x, begins = layer.input(0), windows.begins
    if not windows.native:
        dtype = layer.dtype(0)
        lowest = -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min
        x, begins = layer.call(torch.constant_pad_nd, x, windows.pads, lowest), (0,) * axes
    arguments = (x, windows.kernel, windows.strides, begins, windows.dilations, windows.ceil)
    if not layer.wants(1):
        return layer.call(_MAX[axes], *arguments)
    both = layer.call(_MAX_WITH_INDICES[axes], *arguments, return_indices=True)
    padded = tuple(
        size + (0 if windows.native else begin + end)
        for size, begin, end in zip(layer.shape(0)[2:], windows.begins, windows.ends, strict=True)
    )
    indices = layer.call(
        whole_indices,
        layer.item(both, 1),
        layer.shape(0),
        padded,
        () if windows.native else windows.begins,
        bool(layer.attribute("storage_order", 0)),
    )
    return layer.item(both, 0), indices


def whole_indices(
    indices: torch.Tensor,
    shape: tuple[int, ...],
    padded: tuple[int, ...],
    begins: tuple[int, ...],
    column_major: bool,
) -> torch.Tensor:
    """Torch's indices within one channel's plane to ONNX's within the whole tensor."""
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


@lowering("AveragePool")
def _average_pool(layer: LayerContext) -> Node:
    axes = layer.rank(0) - 2
    if axes not in _AVERAGE:
        raise layer.unsupported(f"torch has no pooling over {axes} axes")
    windows = windows_of(layer)
    include = bool(layer.attribute("count_include_pad", 0))
    if windows.native and set(windows.dilations) <= {1}:
        return layer.call(
            _AVERAGE[axes], layer.input(0), windows.kernel, windows.strides, windows.begins,
            windows.ceil, include,
        )  # fmt: skip
    total = window_sums(layer, layer.input(0), windows)
    counts = layer.constant(_window_counts(layer, windows, include).astype(np.float32))
    if layer.dtype(0) != torch.float32:
        counts = layer.call(torch.Tensor.to, counts, layer.dtype(0))
    return layer.call(torch.div, total, counts)


def window_sums(layer: LayerContext, x: Node, windows: Windows) -> Node:
    """Sum of every window, zeros beyond the borders."""
    axes = len(windows.kernel)
    if any(windows.pads):
        x = layer.call(torch.constant_pad_nd, x, windows.pads)
    if set(windows.dilations) <= {1}:
        mean = layer.call(_AVERAGE[axes], x, windows.kernel, windows.strides)
        return layer.call(torch.mul, mean, int(np.prod(windows.kernel)))
    channels = layer.shape(0)[1]
    ones = layer.constant(torch.ones(channels, 1, *windows.kernel, dtype=layer.dtype(0)))
    return layer.call(
        _CONVOLUTIONS[axes], x, ones, None, windows.strides, 0, windows.dilations, channels
    )


def _window_counts(layer: LayerContext, windows: Windows, include: bool) -> np.ndarray[Any, Any]:
    """Number of elements that each window averages over."""
    pads = pads_of(layer)
    axes = len(windows.kernel)
    counts = np.ones((1,) * axes)
    for i, (size, out) in enumerate(zip(layer.shape(0)[2:], layer.result_shape()[2:], strict=True)):
        low = -windows.begins[i] if include else 0
        high = size + (pads[axes + i] if include else 0)
        starts = np.arange(out)[:, None] * windows.strides[i] - windows.begins[i]
        taken = starts + np.arange(windows.kernel[i]) * windows.dilations[i]
        inside = ((taken >= low) & (taken < high)).sum(axis=1)
        counts = counts * inside.reshape([-1 if j == i else 1 for j in range(axes)])
    return counts


@lowering("LpPool")
def _lp_pool(layer: LayerContext) -> Node:
    if layer.rank(0) - 2 not in _AVERAGE:
        raise layer.unsupported(f"torch has no pooling over {layer.rank(0) - 2} axes")
    p = float(layer.attribute("p", 2))
    powers = layer.call(torch.pow, layer.call(torch.abs, layer.input(0)), p)
    total = window_sums(layer, powers, windows_of(layer))
    return layer.call(torch.pow, total, 1.0 / p)


def _spatial_axes(layer: LayerContext) -> tuple[int, ...]:
    return tuple(range(2, layer.rank(0)))


@lowering("GlobalAveragePool")
def _global_average_pool(layer: LayerContext) -> Node:
    if layer.rank(0) == 4:
        return layer.call(F.adaptive_avg_pool2d, layer.input(0), (1, 1))
    return layer.call(torch.mean, layer.input(0), _spatial_axes(layer), True)


@lowering("GlobalMaxPool")
def _global_max_pool(layer: LayerContext) -> Node:
    return layer.call(torch.amax, layer.input(0), _spatial_axes(layer), True)


@lowering("GlobalLpPool")
def _global_lp_pool(layer: LayerContext) -> Node:
    order = layer.attribute("p", 2)
    return layer.call(torch.linalg.vector_norm, layer.input(0), order, _spatial_axes(layer), True)


@lowering("MaxUnpool")
def _max_unpool(layer: LayerContext) -> Node:
    kernel, axes = layer.attribute("kernel_shape"), layer.rank(0) - 2
    strides, pads = spatial(layer, "strides"), pads_of(layer)
    sizes = tuple(
        (size - 1) * strides[i] + kernel[i] - pads[i] - pads[axes + i]
        for i, size in enumerate(layer.shape(0)[2:])
    )
    wanted = layer.result_shape()
    plane = (*layer.shape(0)[:2], *sizes)
    unpooled = layer.call(unpool, layer.input(0), layer.input(1), plane)
    if plane == wanted:
        return unpooled
    missing = [0] * axes + [w - s for w, s in zip(wanted[2:], sizes, strict=True)]
    return layer.call(torch.constant_pad_nd, unpooled, torch_pads(missing))


def unpool(x: torch.Tensor, indices: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Values at their flat positions in a tensor of zeros."""
    flat = torch.zeros(int(np.prod(shape)), dtype=x.dtype)
    return flat.scatter_(0, indices.reshape(-1), x.reshape(-1)).reshape(shape)

"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering

_CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
_TRANSPOSED = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


def torch_pads(pads: Sequence[int]) -> list[int]:
    """ONNX pads (all begins, all ends) as F.pad takes them (last axis first)."""
    half = len(pads) // 2
    return [int(p) for axis in reversed(range(half)) for p in (pads[axis], pads[half + axis])]


def spatial(layer: LayerContext, name: str, default: int = 1) -> tuple[int, ...]:
    """A per-axis attribute of a layer with spatial axes."""
    return tuple(layer.attribute(name, (default,) * (layer.rank(0) - 2)))


def pads_of(layer: LayerContext) -> tuple[int, ...]:
    """The layer's pads, all begins and then all ends."""
    return tuple(layer.attribute("pads", (0,) * (2 * (layer.rank(0) - 2))))


@lowering("Conv")
def _conv(layer: LayerContext) -> Node:
    x, padding = padded(layer, layer.input(0))
    return layer.call(
        convolution_of(layer), x, layer.input(1), layer.optional(2), *geometry(layer, padding)
    )


def convolution_of(layer: LayerContext) -> Callable[..., torch.Tensor]:
    """The torch convolution for the layer's number of spatial axes."""
    function = _CONVOLUTIONS.get(layer.rank(0) - 2)
    if function is None:
        raise layer.unsupported(f"torch has no convolution over {layer.rank(0) - 2} axes")
    return function


def geometry(layer: LayerContext, padding: tuple[int, ...]) -> tuple[object, ...]:
    """Strides, padding, dilations and groups in torch's order."""
    return (spatial(layer, "strides"), padding, spatial(layer, "dilations"),
            layer.attribute("group", 1))  # fmt: skip


def padded(layer: LayerContext, x: Node) -> tuple[Node, tuple[int, ...]]:
    """Pads apart what the convolution itself cannot: unequal pads of an axis."""
    pads = pads_of(layer)
    half = len(pads) // 2
    if pads[:half] == pads[half:] and min(pads, default=0) >= 0:
        return x, pads[:half]
    return layer.call(torch.constant_pad_nd, x, torch_pads(pads)), (0,) * half


@lowering("ConvTranspose")
def _conv_transpose(layer: LayerContext) -> Node:
    axes = layer.rank(0) - 2
    function = _TRANSPOSED.get(axes)
    if function is None:
        raise layer.unsupported(f"torch has no transposed convolution over {axes} axes")
    strides, dilations = spatial(layer, "strides"), spatial(layer, "dilations")
    kernel, wanted = layer.shape(1)[2:], layer.result_shape()[2:]
    begins = pads_of(layer)[:axes]
    # Size without any padding; torch cuts the same on both sides and may add at the end.
    full = [
        (size - 1) * stride + (k - 1) * dilation + 1
        for size, stride, k, dilation in zip(
            layer.shape(0)[2:], strides, kernel, dilations, strict=True
        )
    ]
    missing = [w - (f - 2 * b) for w, f, b in zip(wanted, full, begins, strict=True)]
    fits = all(
        b >= 0 and 0 <= m < max(s, d)
        for b, m, s, d in zip(begins, missing, strides, dilations, strict=True)
    )
    common = (layer.attribute("group", 1), dilations)
    x, weight, bias = layer.input(0), layer.input(1), layer.optional(2)
    if fits:
        return layer.call(function, x, weight, bias, strides, begins, tuple(missing), *common)
    # Unequal pads: compute everything, then cut (or fill with the bias) to the wanted size.
    zeros = (0,) * axes
    everything = layer.call(function, x, weight, None, strides, zeros, zeros, *common)
    ends = [w + b - f for w, b, f in zip(wanted, begins, full, strict=True)]
    cut = layer.call(torch.constant_pad_nd, everything, torch_pads([*(-b for b in begins), *ends]))
    if bias is None:
        return cut
    shape = (-1, *(1,) * axes)
    column = layer.prepared(2, lambda b: b.reshape(shape), ("column", axes))
    return layer.call(torch.add, cut, column)


@lowering("CausalConvWithState")
def _causal_conv(layer: LayerContext) -> tuple[Node, Node]:
    width, kernel = layer.shape(0)[-1], layer.shape(1)[-1]
    channels = layer.shape(0)[1]
    if layer.has(3):
        x = layer.call(torch.cat, [layer.input(3), layer.input(0)], -1)
    else:
        x = layer.call(torch.constant_pad_nd, layer.input(0), [kernel - 1, 0])
    y = layer.call(torch.conv1d, x, layer.input(1), layer.optional(2), 1, 0, 1, channels)
    if layer.attribute("activation", "none") in ("silu", "swish"):
        y = layer.call(F.silu, y)
    elif layer.attribute("activation", "none") != "none":
        raise layer.unsupported(f"unknown activation {layer.attribute('activation')}")
    state = layer.call(torch.narrow, x, -1, width, kernel - 1)
    return y, state

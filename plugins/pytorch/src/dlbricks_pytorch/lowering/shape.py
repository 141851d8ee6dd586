"""Operators that move data without computing."""

from __future__ import annotations

import math
import operator

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import torch_pads
from dlbricks_pytorch.lowering.table import lowering


@lowering("Reshape", "Flatten")
def _reshape(layer: LayerContext) -> Node:
    return layer.call(torch.reshape, layer.input(0), layer.result_shape())


@lowering("Transpose")
def _transpose(layer: LayerContext) -> Node:
    perm = layer.attribute("perm", tuple(reversed(range(layer.rank(0)))))
    return layer.call(torch.permute, layer.input(0), tuple(perm))


@lowering("Squeeze")
def _squeeze(layer: LayerContext) -> Node:
    if not layer.has(1):
        return layer.call(torch.squeeze, layer.input(0))
    return layer.call(torch.squeeze, layer.input(0), layer.integers(1))


@lowering("Unsqueeze")
def _unsqueeze(layer: LayerContext) -> Node:
    axes = layer.integers(1)
    if len(axes) == 1:
        return layer.call(torch.unsqueeze, layer.input(0), axes[0])
    return layer.call(torch.reshape, layer.input(0), layer.result_shape())


@lowering("Expand")
def _expand(layer: LayerContext) -> Node:
    return layer.call(torch.broadcast_to, layer.input(0), layer.result_shape())


@lowering("Tile")
def _tile(layer: LayerContext) -> Node:
    return layer.call(torch.tile, layer.input(0), layer.integers(1))


@lowering("Concat")
def _concat(layer: LayerContext) -> Node:
    return layer.call(torch.cat, layer.inputs(), layer.axis())


@lowering("Split")
def _split(layer: LayerContext) -> tuple[Node, ...]:
    axis = layer.axis()
    sizes = [
        layer.result_shape(i)[axis] if layer.wants(i) else layer.integers(1)[i]
        for i in range(len(layer.layer.outputs))
    ]
    rest = layer.shape(0)[axis] - sum(sizes)
    parts = layer.call(torch.split, layer.input(0), [*sizes, rest] if rest else sizes, axis)
    return tuple(layer.item(parts, i) for i in range(len(sizes)))


@lowering("Slice")
def _slice(layer: LayerContext) -> Node:
    starts, ends = layer.integers(1), layer.integers(2)
    axes = layer.integers(3) if layer.has(3) else tuple(range(len(starts)))
    steps = layer.integers(4) if layer.has(4) else (1,) * len(starts)
    index = [slice(None)] * layer.rank(0)
    flipped = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = layer.shape(0)[axis]
        taken = range(size)[_bounds(start, end, step, size)]
        if step > 0:
            index[axis] = slice(taken.start, taken.stop, step)
        else:  # torch has no negative steps: take the same elements upwards, then turn round
            upwards = taken[::-1]
            index[axis] = slice(upwards.start, upwards.stop, upwards.step)
            flipped.append(axis)
    node = layer.call(operator.getitem, layer.input(0), tuple(index))
    return layer.call(torch.flip, node, tuple(flipped)) if flipped else node


def _bounds(start: int, end: int, step: int, size: int) -> slice:
    """The slice as Python writes it: counting down past the first element has no end."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    return slice(max(start, 0), None if step < 0 and end < 0 else max(end, 0), step)


@lowering("DepthToSpace")
def _depth_to_space(layer: LayerContext) -> Node:
    block = layer.attribute("blocksize")
    if layer.attribute("mode", "DCR") == "CRD":
        return layer.call(F.pixel_shuffle, layer.input(0), block)
    return layer.call(depth_to_space, layer.input(0), block)


def depth_to_space(x: torch.Tensor, block: int) -> torch.Tensor:
    """Blocks of channels to space, the block's position counting before the channel."""
    n, c, h, w = x.shape
    x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block**2, h * block, w * block)


@lowering("SpaceToDepth")
def _space_to_depth(layer: LayerContext) -> Node:
    block = layer.attribute("blocksize")
    if layer.attribute("mode", "DCR") == "CRD":
        return layer.call(F.pixel_unshuffle, layer.input(0), block)
    return layer.call(space_to_depth, layer.input(0), block)


def space_to_depth(x: torch.Tensor, block: int) -> torch.Tensor:
    """Space to blocks of channels, the block's position counting before the channel."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * block**2, h // block, w // block)


@lowering("CenterCropPad")
def _center_crop_pad(layer: LayerContext) -> Node:
    begins, ends = [], []
    for size, wanted in zip(layer.shape(0), layer.result_shape(), strict=True):
        # Odd differences: one more is cut from, or added to, the end.
        begin = (wanted - size) // 2 if wanted > size else -((size - wanted) // 2)
        begins.append(begin)
        ends.append(wanted - size - begin)
    return layer.call(torch.constant_pad_nd, layer.input(0), torch_pads([*begins, *ends]))


@lowering("Col2Im")
def _col2im(layer: LayerContext) -> Node:
    image, block = layer.integers(1), layer.integers(2)
    axes = len(image)
    strides, dilations = (tuple(layer.attribute(n, (1,) * axes)) for n in ("strides", "dilations"))
    pads = tuple(layer.attribute("pads", (0,) * (2 * axes)))
    if axes == 2 and pads[:2] == pads[2:]:
        return layer.call(F.fold, layer.input(0), image, block, dilations, pads[:2], strides)
    whole = tuple(size + pads[i] + pads[axes + i] for i, size in enumerate(image))
    target = layer.constant(_block_positions(whole, block, strides, dilations))
    folded = layer.call(add_blocks, layer.input(0), target, whole)
    return layer.call(torch.constant_pad_nd, folded, torch_pads([-p for p in pads]))


def _block_positions(
    image: tuple[int, ...],
    block: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> torch.Tensor:
    """Flat position in the image of every element of every block, element by element."""
    flat = torch.zeros(1, 1, dtype=torch.int64)
    for size, length, stride, dilation in zip(image, block, strides, dilations, strict=True):
        starts = torch.arange(0, size - (length - 1) * dilation, stride)
        axis = torch.arange(length)[:, None] * dilation + starts
        flat = flat[:, None, :, None] * size + axis[None, :, None, :]
        flat = flat.reshape(flat.shape[0] * length, -1)
    return flat.reshape(-1)


def add_blocks(x: torch.Tensor, target: torch.Tensor, image: tuple[int, ...]) -> torch.Tensor:
    """Sums the columns into an image at their positions."""
    columns = x.reshape(x.shape[0], -1, target.shape[0])
    flat = columns.new_zeros(*columns.shape[:2], math.prod(image))
    return flat.index_add(2, target, columns).reshape(*columns.shape[:2], *image)

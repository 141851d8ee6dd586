"""Operators that move data without computing."""

from __future__ import annotations

import math
import operator

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import torch_pads
from dlbricks_pytorch.lowering.table import lowers


@lowers("Reshape", "Flatten")
def _reshape(ctx: LayerContext) -> Node:
    return ctx.call(torch.reshape, ctx.input(0), ctx.out_shape())


@lowers("Transpose")
def _transpose(ctx: LayerContext) -> Node:
    return ctx.call(torch.permute, ctx.input(0), ctx.permutation())


@lowers("Squeeze")
def _squeeze(ctx: LayerContext) -> Node:
    if not ctx.has(1):
        return ctx.call(torch.squeeze, ctx.input(0))
    return ctx.call(torch.squeeze, ctx.input(0), ctx.integers(1))


@lowers("Unsqueeze")
def _unsqueeze(ctx: LayerContext) -> Node:
    axes = ctx.integers(1)
    if len(axes) == 1:
        return ctx.call(torch.unsqueeze, ctx.input(0), axes[0])
    return ctx.call(torch.reshape, ctx.input(0), ctx.out_shape())


@lowers("Expand")
def _expand(ctx: LayerContext) -> Node:
    return ctx.call(torch.broadcast_to, ctx.input(0), ctx.out_shape())


@lowers("Tile")
def _tile(ctx: LayerContext) -> Node:
    return ctx.call(torch.tile, ctx.input(0), ctx.integers(1))


@lowers("Concat")
def _concat(ctx: LayerContext) -> Node:
    return ctx.call(torch.cat, ctx.inputs(), ctx.axis())


@lowers("Split")
def _split(ctx: LayerContext) -> tuple[Node, ...]:
    axis, sizes = ctx.axis(), ctx.split_sizes()
    rest = ctx.shape(0)[axis] - sum(sizes)
    parts = ctx.call(torch.split, ctx.input(0), [*sizes, rest] if rest else sizes, axis)
    return tuple(ctx.item(parts, i) for i in range(len(sizes)))


@lowers("Slice")
def _slice(ctx: LayerContext) -> Node:
    index = [slice(None)] * ctx.rank(0)
    flipped = []
    for axis, taken in ctx.slices().items():
        if taken.step > 0:
            index[axis] = slice(taken.start, taken.stop, taken.step)
        else:  # torch has no negative steps: take the same elements upwards, then turn round
            upwards = taken[::-1]
            index[axis] = slice(upwards.start, upwards.stop, upwards.step)
            flipped.append(axis)
    node = ctx.call(operator.getitem, ctx.input(0), tuple(index))
    return ctx.call(torch.flip, node, tuple(flipped)) if flipped else node


@lowers("DepthToSpace")
def _depth_to_space(ctx: LayerContext) -> Node:
    block = ctx.attribute("blocksize")
    if ctx.attribute("mode") == "CRD":
        return ctx.call(F.pixel_shuffle, ctx.input(0), block)
    return ctx.call(depth_to_space, ctx.input(0), block)


def depth_to_space(x: torch.Tensor, block: int) -> torch.Tensor:
    """Blocks of channels to space, the block's position counting before the channel."""
    n, c, h, w = x.shape
    x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block**2, h * block, w * block)


@lowers("SpaceToDepth")
def _space_to_depth(ctx: LayerContext) -> Node:
    block = ctx.attribute("blocksize")
    if ctx.attribute("mode") == "CRD":
        return ctx.call(F.pixel_unshuffle, ctx.input(0), block)
    return ctx.call(space_to_depth, ctx.input(0), block)


def space_to_depth(x: torch.Tensor, block: int) -> torch.Tensor:
    """Space to blocks of channels, the block's position counting before the channel."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * block**2, h // block, w // block)


@lowers("CenterCropPad")
def _center_crop_pad(ctx: LayerContext) -> Node:
    begins, ends = [], []
    for size, wanted in zip(ctx.shape(0), ctx.out_shape(), strict=True):
        # Odd differences: one more is cut from, or added to, the end.
        begin = (wanted - size) // 2 if wanted > size else -((size - wanted) // 2)
        begins.append(begin)
        ends.append(wanted - size - begin)
    return ctx.call(torch.constant_pad_nd, ctx.input(0), torch_pads(begins, ends))


@lowers("Col2Im")
def _col2im(ctx: LayerContext) -> Node:
    image, block = ctx.integers(1), ctx.integers(2)
    axes = len(image)
    strides, dilations = ctx.per_axis("strides", axes), ctx.per_axis("dilations", axes)
    begins, ends = ctx.pads(axes)
    if axes == 2 and begins == ends:
        return ctx.call(F.fold, ctx.input(0), image, block, dilations, begins, strides)
    whole = tuple(sum(sizes) for sizes in zip(image, begins, ends, strict=True))
    target = ctx.fixed(_block_positions(whole, block, strides, dilations))
    folded = ctx.call(add_blocks, ctx.input(0), target, whole)
    cut = torch_pads([-begin for begin in begins], [-end for end in ends])
    return ctx.call(torch.constant_pad_nd, folded, cut)


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

"""Operators that move elements without computing."""

from __future__ import annotations

from collections.abc import Callable

from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import check_broadcast
from dlbricks_mxnet.lowering.limits import ANY, ANY_AXES, MOST_AXES
from dlbricks_mxnet.lowering.symbols import (
    Shape,
    Symbol,
    broadcast_to,
    cast,
    op,
    physical,
    rearranged,
    reshape,
    transpose,
)
from dlbricks_mxnet.lowering.table import lowers

_SLICE_AXES = 5
_VOLUME_RANK = 5
"""Maximum number of axes that MXNet slices, and rank of a batch of volumes."""


def as_numbers(ctx: LayerContext, move: Callable[..., Symbol], *inputs: Symbol) -> Symbol:
    """Moves elements with an operator that has no kernel for booleans."""
    if ctx.out_dtype() != "bool":
        return move(*inputs)
    return cast(move(*(cast(x, "uint8") for x in inputs)), "bool")


@lowers("Reshape", "Squeeze", "Unsqueeze", types=ANY, axes=ANY_AXES)
def _reshape(ctx: LayerContext) -> Symbol:
    return reshape(_reshapable(ctx), ctx.out_shape())


def _reshapable(ctx: LayerContext) -> Symbol:
    # Blocks of volumes are reshaped as they are, and what reads them fails or crashes.
    return ctx.plain() if ctx.rank() == _VOLUME_RANK else ctx.input()


@lowers("Flatten", types=ANY)
def _flatten(ctx: LayerContext) -> Symbol:
    if ctx.attribute("axis") == 1 and ctx.rank() > 1:
        return op.Flatten(_reshapable(ctx))
    return reshape(_reshapable(ctx), ctx.out_shape())


@lowers("Transpose", types=ANY, axes=ANY_AXES)
def _transpose(ctx: LayerContext) -> Symbol:
    rank = ctx.rank()
    perm = ctx.permutation()
    if perm == tuple(range(rank)):
        return op.identity(ctx.input())
    if rank > MOST_AXES:
        y = as_numbers(ctx, lambda x: rearranged(x, ctx.shape(), perm), ctx.input())
        return reshape(y, ctx.out_shape())
    return as_numbers(ctx, lambda x: transpose(x, perm), ctx.input())


@lowers("Concat", types=ANY)
def _concat(ctx: LayerContext) -> Symbol:
    axis = ctx.axis()
    if ctx.count == 1:
        return op.identity(ctx.input())
    return as_numbers(ctx, lambda *parts: op.Concat(*parts, dim=axis), *ctx.inputs())


@lowers("Slice", types=ANY)
def _slice(ctx: LayerContext) -> Symbol:
    shape = ctx.shape()
    begin: list[int | None] = [None] * len(shape)
    end: list[int | None] = [None] * len(shape)
    step: list[int | None] = [None] * len(shape)
    for axis, taken in ctx.slices().items():
        begin[axis], step[axis] = taken.start, taken.step
        beyond = taken[-1] + (1 if taken.step > 0 else -1)
        end[axis] = beyond if beyond >= 0 else None
    if len(shape) > _SLICE_AXES and not any(stride not in (None, 1) for stride in step):
        return _sliced_one_by_one(ctx, begin, end)
    return op.slice(ctx.input(), begin=tuple(begin), end=tuple(end), step=tuple(step))


def _sliced_one_by_one(ctx: LayerContext, begin: list[int | None], end: list[int | None]) -> Symbol:
    x = ctx.input() if ctx.dtype() != "bool" else cast(ctx.input(), "uint8")
    for axis, (first, last) in enumerate(zip(begin, end, strict=True)):
        if first is not None:
            x = op.slice_axis(x, axis=axis, begin=first, end=last)
    return x if ctx.dtype() != "bool" else cast(x, "bool")


@lowers("Split", types=ANY)
def _split(ctx: LayerContext) -> list[Symbol]:
    axis, sizes = ctx.axis(), ctx.split_sizes()
    count = len(sizes)
    x = cast(ctx.input(), "uint8") if ctx.dtype() == "bool" else ctx.input()
    if len(set(sizes)) == 1 and count > 1:
        parts = list(op.SliceChannel(x, num_outputs=count, axis=axis))
    else:
        starts = [sum(sizes[:i]) for i in range(count)]
        parts = [
            op.slice_axis(x, axis=axis, begin=start, end=start + size)
            for start, size in zip(starts, sizes, strict=True)
        ]
    return [cast(part, "bool") for part in parts] if ctx.dtype() == "bool" else parts


@lowers("Expand", types=ANY)
def _expand(ctx: LayerContext) -> Symbol:
    check_broadcast(ctx.shape(), ctx.out_shape())
    if physical(ctx.shape()) == physical(ctx.out_shape()):
        return op.identity(ctx.input())
    return broadcast_to(ctx.input(), ctx.shape(), ctx.out_shape())


@lowers("Tile", types=ANY)
def _tile(ctx: LayerContext) -> Symbol:
    repeats = ctx.integers(1)
    x, rank = ctx.input(), len(repeats)
    repeated = [axis for axis in range(rank) if repeats[axis] > 1]
    if not repeated:
        return op.identity(x)
    # MXNet's kernel broadcasts over five axes, which two repeated ones may need.
    for some in (repeated[i : i + 2] for i in range(0, len(repeated), 2)):
        x = op.tile(x, reps=tuple(repeats[a] if a in some else 1 for a in range(rank)))
    return x


@lowers("DepthToSpace", types=ANY)
def _depth_to_space(ctx: LayerContext) -> Symbol:
    block, mode = ctx.attribute("blocksize"), ctx.attribute("mode")
    if mode == "DCR" and ctx.dtype() != "bool":
        return op.depth_to_space(ctx.input(), block_size=block)
    n, c, h, w = ctx.shape()
    deep = c // block**2
    split, perm = {
        "DCR": ((n, block, block, deep, h, w), (0, 3, 4, 1, 5, 2)),
        "CRD": ((n, deep, block, block, h, w), (0, 1, 4, 2, 5, 3)),
    }[mode]
    return _rearranged(ctx, split, perm)


@lowers("SpaceToDepth", types=ANY)
def _space_to_depth(ctx: LayerContext) -> Symbol:
    block, mode = ctx.attribute("blocksize"), ctx.attribute("mode")
    if mode == "DCR" and ctx.dtype() != "bool":
        return op.space_to_depth(ctx.input(), block_size=block)
    n, c, h, w = ctx.shape()
    split = (n, c, h // block, block, w // block, block)
    perm = {"DCR": (0, 3, 5, 1, 2, 4), "CRD": (0, 1, 3, 5, 2, 4)}[mode]
    return _rearranged(ctx, split, perm)


def _rearranged(ctx: LayerContext, split: Shape, perm: Shape) -> Symbol:
    """Splits axes, permutes them, and joins them to the output's shape."""
    x = reshape(ctx.input(), split)
    return reshape(as_numbers(ctx, lambda t: transpose(t, perm), x), ctx.out_shape())

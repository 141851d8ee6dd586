"""Reading and writing at computed positions."""

from __future__ import annotations

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import ANY, FLOAT, NUMBER, SELECTION_AXES
from dlbricks_mxnet.lowering.symbols import (
    Shape,
    Symbol,
    cast,
    npi,
    op,
    product,
    reshape,
    reshaped,
    transpose,
    where,
)
from dlbricks_mxnet.lowering.table import lowers


@lowers("Gather", types=ANY)
def _gather(ctx: LayerContext) -> Symbol:
    axis = ctx.axis()
    # MXNet clips indices that are out of range by default; wrapping makes -1 the last element.
    mode = "clip" if _known_positive(ctx, 1) else "wrap"
    y = op.take(ctx.input(0), ctx.input(1), axis=axis, mode=mode)
    if ctx.rank(1):
        return y
    return reshape(y, ctx.out_shape())


def _known_positive(ctx: LayerContext, position: int) -> bool:
    value = ctx.constant(position)
    return value is not None and bool((value >= 0).all())


def _from_front(ctx: LayerContext, x: Symbol, size: int) -> Symbol:
    """Indices counted from the front, as 64-bit integers."""
    index = x if ctx.dtype(1) == "int64" else cast(x, "int64")
    if _known_positive(ctx, 1):
        return index
    return where(npi.less_scalar(index, scalar=0), index + size, index)


@lowers("GatherElements", types=ANY, axes=SELECTION_AXES)
def _gather_elements(ctx: LayerContext) -> Symbol:
    flat = op.reshape(ctx.input(0), shape=(-1,))
    return op.take(flat, _element_positions(ctx), axis=0, mode="clip")


def _element_positions(ctx: LayerContext) -> Symbol:
    """Position in the flattened data of every element that the index tensor names."""
    axis, data, index = ctx.axis(), ctx.shape(0), ctx.shape(1)
    strides = [product(data[i + 1 :]) for i in range(len(data))]
    grid = np.zeros(index, np.int64)
    for i, size in enumerate(index):
        if i != axis:
            grid += (np.arange(size) * strides[i]).reshape(
                [-1 if j == i else 1 for j in range(len(index))]
            )
    moved = _from_front(ctx, ctx.input(1), data[axis]) * strides[axis]
    return moved + ctx.fixed("grid", grid)


def _tuple_positions(ctx: LayerContext, batch: int) -> tuple[Symbol, int, int]:
    """Position of every slice that the index tensor's tuples name.

    Returns:
        Flat list of positions along the merged indexed axes, the number of merged rows, and the
        size of a slice.
    """
    data, (*wanted, depth) = ctx.shape(0), ctx.shape(1)
    indexed = data[batch : batch + depth]
    strides = [product(indexed[i + 1 :]) for i in range(depth)]
    tuples = (*wanted[:batch], product(wanted[batch:]), depth)
    index = reshaped(ctx.input(1), ctx.shape(1), tuples)
    total: Symbol | None = None
    for i in range(depth):
        part = op.slice_axis(index, axis=batch + 1, begin=i, end=i + 1)
        part = _from_front(ctx, part, indexed[i]) * strides[i]
        total = part if total is None else total + part
    if batch:
        rows = np.arange(product(data[:batch])) * product(indexed)
        total = op.broadcast_add(total, ctx.fixed("rows", rows.reshape(*data[:batch], 1, 1)))
    positions = op.reshape(total, shape=(-1,))
    return positions, product(data[: batch + depth]), product(data[batch + depth :])


@lowers("GatherND", types=ANY)
def _gather_nd(ctx: LayerContext) -> Symbol:
    positions, rows, size = _tuple_positions(ctx, ctx.attribute("batch_dims"))
    table = reshape(ctx.input(0), (rows, size))
    return reshape(op.take(table, positions, axis=0, mode="clip"), ctx.out_shape())


@lowers("ScatterElements", types=NUMBER, axes=SELECTION_AXES)
def _scatter_elements(ctx: LayerContext) -> Symbol:
    positions = op.reshape(_element_positions(ctx), shape=(-1,))
    updates = op.reshape(ctx.input(2), shape=(-1,))
    y = _scattered(ctx, op.reshape(ctx.input(0), shape=(-1,)), positions, updates,
                   (product(ctx.shape(0)),), product(ctx.shape(1)))  # fmt: skip
    return reshape(y, ctx.out_shape())


@lowers("ScatterND", types=NUMBER)
def _scatter_nd(ctx: LayerContext) -> Symbol:
    positions, rows, size = _tuple_positions(ctx, 0)
    count = product(ctx.shape(1)[:-1])
    y = _scattered(
        ctx,
        reshape(ctx.input(0), (rows, size)),
        positions,
        reshape(ctx.input(2), (count, size)),
        (rows, size),
        count,
    )
    return reshape(y, ctx.out_shape())


def _scattered(
    ctx: LayerContext, data: Symbol, positions: Symbol, updates: Symbol, shape: Shape, count: int
) -> Symbol:
    """Writes or adds rows at positions of the first axis."""
    reduction = ctx.attribute("reduction")
    index = reshape(positions, (1, count))
    if reduction == "none":
        written = op._internal._scatter_set_nd(data, updates, index, shape=shape)
        # It has no gradient, which a hybridized block would ask for.
        return op.BlockGrad(written)
    if reduction == "add" and ctx.dtype() in FLOAT | {"int32", "int64"}:
        return data + op._internal._backward_gather_nd(updates, index, shape=shape)
    raise UnsupportedError(f"MXNet does not reduce by {reduction!r}")


@lowers("OneHot", types=NUMBER, axes=SELECTION_AXES)
def _one_hot(ctx: LayerContext) -> Symbol:
    depth = ctx.integer(1)
    index = cast(ctx.input(0), "int64")
    index = where(npi.less_scalar(index, scalar=0), index + depth, index)
    hot = op.one_hot(index, depth=depth, dtype="uint8")
    values = ctx.input(2)
    if ctx.dtype(2) == "bool":
        values = cast(values, "uint8")
    off, on = (op.slice_axis(values, axis=0, begin=i, end=i + 1) for i in (0, 1))
    y = where(cast(hot, "bool"), on, off)
    if ctx.dtype(2) == "bool":
        y = cast(y, "uint8")
    y = reshaped(y, (*(ctx.shape(0) or (1,)), depth), (*ctx.shape(0), depth))
    rank = ctx.rank(0) + 1
    axis = ctx.axis(rank=rank)
    y = transpose(y, [*range(axis), rank - 1, *range(axis, rank - 1)])
    return cast(y, "bool") if ctx.dtype(2) == "bool" else y


@lowers("Trilu", types=ANY, axes=SELECTION_AXES)
def _trilu(ctx: LayerContext) -> Symbol:
    k = ctx.integer(1) if ctx.has(1) else 0
    triangle = np.triu if ctx.attribute("upper") else np.tril
    mask = triangle(np.ones(ctx.shape()[-2:], bool), k)
    x = ctx.input() if ctx.dtype() != "bool" else cast(ctx.input(), "uint8")
    y = where(ctx.fixed("triangle", mask), x, op.zeros_like(x))
    return y if ctx.dtype() != "bool" else cast(y, "bool")


@lowers("ReverseSequence", types=FLOAT)
def _reverse_sequence(ctx: LayerContext) -> Symbol:
    time, batch = ctx.attribute("time_axis"), ctx.attribute("batch_axis")
    rank = ctx.rank()
    front = [time, batch, *(a for a in range(rank) if a not in (time, batch))]
    x = transpose(ctx.input(0), front)
    lengths = cast(ctx.input(1), "int32")
    y = op.SequenceReverse(x, lengths, use_sequence_length=True)
    return transpose(y, list(np.argsort(front)))

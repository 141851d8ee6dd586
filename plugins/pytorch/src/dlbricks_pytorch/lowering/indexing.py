"""Gathering, scattering and masks."""

from __future__ import annotations

import numpy as np
import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import UNSUPPORTED, lowers

UNSUPPORTED["Unique"] = "the shape of its result depends on the data"


@lowers("NonZero")
def _non_zero(ctx: LayerContext) -> Node:
    return ctx.call(torch.t, ctx.call(torch.nonzero, ctx.input(0)))


@lowers("Compress")
def _compress(ctx: LayerContext) -> Node:
    kept = ctx.fixed(np.flatnonzero(ctx.known(1)))
    x, axis = ctx.input(0), ctx.attribute("axis")
    if axis is None:
        return ctx.call(torch.index_select, ctx.call(torch.ravel, x), 0, kept)
    return ctx.call(torch.index_select, x, axis % ctx.rank(0), kept)


@lowers("Gather")
def _gather(ctx: LayerContext) -> Node:
    axis, rank = ctx.axis(), ctx.rank(1)
    if ctx.is_weight(1) and not ctx.is_weight(0):
        if rank == 0:
            return ctx.call(torch.select, ctx.input(0), axis, ctx.number(1))
        if rank == 1:
            index = _counted_from_zero(ctx, 1, ctx.shape(0)[axis])
            return ctx.call(torch.index_select, ctx.input(0), axis, index)
    if ctx.is_weight(0) and ctx.rank(0) == 2 and axis == 0 and ctx.torch_dtype(0).is_floating_point:
        # nn.Embedding calls this function; for it, a negative index is an error, not a wrong value.
        return ctx.call(torch.embedding, ctx.input(0), ctx.input(1))
    return ctx.call(take, ctx.input(0), ctx.input(1), axis)


def take(x: torch.Tensor, index: torch.Tensor, axis: int) -> torch.Tensor:
    """Advanced indexing along one axis, where negative indices count from the end."""
    return x[(slice(None),) * axis + (index,)]


def _counted_from_zero(ctx: LayerContext, position: int, size: int) -> Node:
    """Non-negative indices, because most torch operators reject negative indices."""
    return ctx.prepared(position, lambda index: index.long() % size, ("wrapped", size))


def wrap(index: torch.Tensor, size: int) -> torch.Tensor:
    """Negative indices counted from the end."""
    return torch.remainder(index.long(), size)


def _wrapped(ctx: LayerContext, position: int, size: int) -> Node:
    if ctx.is_weight(position):
        return _counted_from_zero(ctx, position, size)
    return ctx.call(wrap, ctx.input(position), size)


@lowers("GatherElements")
def _gather_elements(ctx: LayerContext) -> Node:
    axis = ctx.axis()
    index = _wrapped(ctx, 1, ctx.shape(0)[axis])
    return ctx.call(torch.gather, ctx.input(0), axis, index)


@lowers("GatherND")
def _gather_nd(ctx: LayerContext) -> Node:
    batch_dims = ctx.attribute("batch_dims")
    return ctx.call(gather_nd, ctx.input(0), ctx.input(1), batch_dims)


def gather_nd(x: torch.Tensor, index: torch.Tensor, batch_dims: int) -> torch.Tensor:
    """Advanced indexing with index tuples along the last axis."""
    rank = index.dim() - 1
    batch = [
        torch.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(rank)])
        for axis in range(batch_dims)
    ]
    return x[(*batch, *index.unbind(-1))]


_SCATTER_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@lowers("ScatterElements")
def _scatter_elements(ctx: LayerContext) -> Node:
    axis = ctx.axis()
    index = _wrapped(ctx, 1, ctx.shape(0)[axis])
    reduction = ctx.attribute("reduction")
    x, updates = ctx.input(0), ctx.input(2)
    if reduction == "none":
        return ctx.call(torch.scatter, x, axis, index, updates)
    kind = _SCATTER_REDUCE[reduction]
    return ctx.call(torch.scatter_reduce, x, axis, index, updates, kind)


@lowers("ScatterND")
def _scatter_nd(ctx: LayerContext) -> Node:
    reduction = ctx.attribute("reduction")
    arguments = (ctx.input(0), ctx.input(1), ctx.input(2))
    if reduction in ("none", "add"):
        return ctx.call(scatter_nd, *arguments, reduction == "add")
    return ctx.call(scatter_nd_reduce, *arguments, _SCATTER_REDUCE[reduction])


def scatter_nd(
    x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, accumulate: bool
) -> torch.Tensor:
    """A copy with updates put at, or added to, index tuples."""
    return x.index_put(index.unbind(-1), updates, accumulate)


def scatter_nd_reduce(
    x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, kind: str
) -> torch.Tensor:
    """A copy with the product or extreme of old and new values at index tuples."""
    depth = index.shape[-1]
    flat = torch.zeros(index.shape[:-1], dtype=torch.int64)
    for axis in range(depth):
        flat = flat * x.shape[axis] + torch.remainder(index[..., axis], x.shape[axis])
    rows = x.flatten(0, depth - 1)
    values = updates.reshape(-1, *rows.shape[1:])
    return rows.index_reduce(0, flat.reshape(-1), values, kind).reshape(x.shape)


@lowers("OneHot")
def _one_hot(ctx: LayerContext) -> Node:
    shape = ctx.out_shape()
    axis = ctx.axis(rank=len(shape))
    return ctx.call(one_hot, ctx.input(0), ctx.input(2), axis, shape[axis])


def one_hot(index: torch.Tensor, values: torch.Tensor, axis: int, depth: int) -> torch.Tensor:
    """The second value where the index points to, the first elsewhere and out of range."""
    classes = torch.arange(depth).reshape([-1] + [1] * (index.dim() - axis))
    index = torch.where(index < 0, index + depth, index).unsqueeze(axis)
    return torch.where(index == classes, values[1], values[0])


@lowers("Trilu")
def _trilu(ctx: LayerContext) -> Node:
    function = torch.triu if ctx.attribute("upper") else torch.tril
    return ctx.call(function, ctx.input(0), ctx.integer(1) if ctx.has(1) else 0)


@lowers("ReverseSequence")
def _reverse_sequence(ctx: LayerContext) -> Node:
    axes = (ctx.attribute("time_axis"), ctx.attribute("batch_axis"))
    return ctx.call(reverse_sequence, ctx.input(0), ctx.input(1), *axes)


def reverse_sequence(
    x: torch.Tensor, lengths: torch.Tensor, time_axis: int, batch_axis: int
) -> torch.Tensor:
    """Each sequence of the batch, reversed within its own length."""
    time = torch.arange(x.shape[time_axis])
    source = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    if time_axis < batch_axis:
        source = source.t()
    source = source.reshape(*source.shape, *(1,) * (x.dim() - 2)).expand(x.shape)
    return torch.gather(x, time_axis, source)


@lowers("TensorScatter")
def _tensor_scatter(ctx: LayerContext) -> Node:
    axis = ctx.axis()
    circular = ctx.attribute("mode") == "circular"
    return ctx.call(tensor_scatter, ctx.input(0), ctx.input(1), ctx.optional(2), axis, circular)


def tensor_scatter(
    cache: torch.Tensor,
    update: torch.Tensor,
    starts: torch.Tensor | None,
    axis: int,
    circular: bool,
) -> torch.Tensor:
    """A copy of the cache with the update, written at each batch element's start."""
    slots = torch.arange(update.shape[axis]).expand(cache.shape[0], -1)
    if starts is not None:
        slots = slots + starts[:, None]
    if circular:
        slots = slots % cache.shape[axis]
    shape = [1] * cache.dim()
    shape[0], shape[axis] = slots.shape
    return torch.scatter(cache, axis, slots.reshape(shape).expand(update.shape), update)

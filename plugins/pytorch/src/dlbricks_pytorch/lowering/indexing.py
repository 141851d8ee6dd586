"""Gathering, scattering and masks."""

from __future__ import annotations

import numpy as np
import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import UNSUPPORTED, lowering

UNSUPPORTED["Unique"] = "the shape of its result depends on the data"


@lowering("NonZero")
def _non_zero(layer: LayerContext) -> Node:
    return layer.call(torch.t, layer.call(torch.nonzero, layer.input(0)))


@lowering("Compress")
def _compress(layer: LayerContext) -> Node:
    kept = layer.constant(np.flatnonzero(layer.parameter(1)))
    x, axis = layer.input(0), layer.attribute("axis")
    if axis is None:
        return layer.call(torch.index_select, layer.call(torch.ravel, x), 0, kept)
    return layer.call(torch.index_select, x, axis % layer.rank(0), kept)


@lowering("Gather")
def _gather(layer: LayerContext) -> Node:
    axis, rank = layer.axis(), layer.rank(1)
    if layer.is_weight(1) and not layer.is_weight(0):
        if rank == 0:
            return layer.call(torch.select, layer.input(0), axis, layer.number(1))
        if rank == 1:
            index = _counted_from_zero(layer, 1, layer.shape(0)[axis])
            return layer.call(torch.index_select, layer.input(0), axis, index)
    if layer.is_weight(0) and layer.rank(0) == 2 and axis == 0 and layer.dtype(0).is_floating_point:
        # What nn.Embedding calls; an index below zero is an error there, not a wrong value.
        return layer.call(torch.embedding, layer.input(0), layer.input(1))
    return layer.call(take, layer.input(0), layer.input(1), axis)


def take(x: torch.Tensor, index: torch.Tensor, axis: int) -> torch.Tensor:
    """Advanced indexing along one axis, where negative indices count from the end."""
    return x[(slice(None),) * axis + (index,)]


def _counted_from_zero(layer: LayerContext, position: int, size: int) -> Node:
    """Indices without negative ones, which most torch operators do not take."""
    return layer.prepared(position, lambda index: index.long() % size, ("wrapped", size))


def wrap(index: torch.Tensor, size: int) -> torch.Tensor:
    """Negative indices counted from the end."""
    return torch.remainder(index.long(), size)


def _wrapped(layer: LayerContext, position: int, size: int) -> Node:
    if layer.is_weight(position):
        return _counted_from_zero(layer, position, size)
    return layer.call(wrap, layer.input(position), size)


@lowering("GatherElements")
def _gather_elements(layer: LayerContext) -> Node:
    axis = layer.axis()
    index = _wrapped(layer, 1, layer.shape(0)[axis])
    return layer.call(torch.gather, layer.input(0), axis, index)


@lowering("GatherND")
def _gather_nd(layer: LayerContext) -> Node:
    batch_dims = layer.attribute("batch_dims", 0)
    return layer.call(gather_nd, layer.input(0), layer.input(1), batch_dims)


def gather_nd(x: torch.Tensor, index: torch.Tensor, batch_dims: int) -> torch.Tensor:
    """Advanced indexing with index tuples along the last axis."""
    rank = index.dim() - 1
    batch = [
        torch.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(rank)])
        for axis in range(batch_dims)
    ]
    return x[(*batch, *index.unbind(-1))]


_SCATTER_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@lowering("ScatterElements")
def _scatter_elements(layer: LayerContext) -> Node:
    axis = layer.axis()
    index = _wrapped(layer, 1, layer.shape(0)[axis])
    reduction = layer.attribute("reduction", "none")
    x, updates = layer.input(0), layer.input(2)
    if reduction == "none":
        return layer.call(torch.scatter, x, axis, index, updates)
    kind = _SCATTER_REDUCE[reduction]
    return layer.call(torch.scatter_reduce, x, axis, index, updates, kind)


@lowering("ScatterND")
def _scatter_nd(layer: LayerContext) -> Node:
    reduction = layer.attribute("reduction", "none")
    arguments = (layer.input(0), layer.input(1), layer.input(2))
    if reduction in ("none", "add"):
        return layer.call(scatter_nd, *arguments, reduction == "add")
    return layer.call(scatter_nd_reduce, *arguments, _SCATTER_REDUCE[reduction])


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


@lowering("OneHot")
def _one_hot(layer: LayerContext) -> Node:
    shape = layer.result_shape()
    axis = layer.axis(default=-1, rank=len(shape))
    return layer.call(one_hot, layer.input(0), layer.input(2), axis, shape[axis])


def one_hot(index: torch.Tensor, values: torch.Tensor, axis: int, depth: int) -> torch.Tensor:
    """The second value where the index points to, the first elsewhere and out of range."""
    classes = torch.arange(depth).reshape([-1] + [1] * (index.dim() - axis))
    index = torch.where(index < 0, index + depth, index).unsqueeze(axis)
    return torch.where(index == classes, values[1], values[0])


@lowering("Trilu")
def _trilu(layer: LayerContext) -> Node:
    function = torch.triu if layer.attribute("upper", 1) else torch.tril
    return layer.call(function, layer.input(0), layer.integers(1)[0] if layer.has(1) else 0)


@lowering("ReverseSequence")
def _reverse_sequence(layer: LayerContext) -> Node:
    axes = (layer.attribute("time_axis", 0), layer.attribute("batch_axis", 1))
    return layer.call(reverse_sequence, layer.input(0), layer.input(1), *axes)


def reverse_sequence(
    x: torch.Tensor, lengths: torch.Tensor, time_axis: int, batch_axis: int
) -> torch.Tensor:
    """Each sequence of the batch turned round within its own length."""
    time = torch.arange(x.shape[time_axis])
    source = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    if time_axis < batch_axis:
        source = source.t()
    source = source.reshape(*source.shape, *(1,) * (x.dim() - 2)).expand(x.shape)
    return torch.gather(x, time_axis, source)


@lowering("TensorScatter")
def _tensor_scatter(layer: LayerContext) -> Node:
    axis = layer.axis(default=-2)
    circular = layer.attribute("mode", "linear") == "circular"
    return layer.call(
        tensor_scatter, layer.input(0), layer.input(1), layer.optional(2), axis, circular
    )


def tensor_scatter(
    cache: torch.Tensor,
    update: torch.Tensor,
    starts: torch.Tensor | None,
    axis: int,
    circular: bool,
) -> torch.Tensor:
    """A copy of the cache with the update written from each batch's start."""
    slots = torch.arange(update.shape[axis]).expand(cache.shape[0], -1)
    if starts is not None:
        slots = slots + starts[:, None]
    if circular:
        slots = slots % cache.shape[axis]
    shape = [1] * cache.dim()
    shape[0], shape[axis] = slots.shape
    return torch.scatter(cache, axis, slots.reshape(shape).expand(update.shape), update)

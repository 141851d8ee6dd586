"""Reductions, cumulative sums and products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

Axes = tuple[int, ...]
Reduction = Callable[[torch.Tensor, Axes, bool], torch.Tensor]


def _prod(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):  # torch.prod reduces one axis at a time
        x = torch.prod(x, axis, keepdims, dtype=x.dtype)
    return x


def _sum(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.sum(x, axes, keepdims, dtype=x.dtype)


def _integer_mean(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.mean(x, axes, keepdims, dtype=torch.float64).to(x.dtype)


def _l1(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.sum(torch.abs(x), axes, keepdims, dtype=x.dtype)


def _l2(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.sqrt(torch.sum(x * x, axes, keepdims, dtype=torch.float64)).to(x.dtype)


def _log_sum(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.log(torch.sum(x, axes, keepdims)).to(x.dtype)


def _log_sum_exp(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.logsumexp(x, axes, keepdims).to(x.dtype)


def _sum_square(x: torch.Tensor, axes: Axes, keepdims: bool) -> torch.Tensor:
    return torch.sum(torch.square(x), axes, keepdims, dtype=x.dtype)


def _norm(order: int) -> Reduction:
    return lambda x, axes, keepdims: torch.linalg.vector_norm(x, order, axes, keepdims)


#: Torch functions for floating-point numbers and for integers, by operator.
_REDUCTIONS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "ReduceSum": (torch.sum, _sum),
    "ReduceMean": (torch.mean, _integer_mean),
    "ReduceMax": (torch.amax, torch.amax),
    "ReduceMin": (torch.amin, torch.amin),
    "ReduceProd": (_prod, _prod),
    "ReduceL1": (torch.linalg.vector_norm, _l1),
    "ReduceL2": (torch.linalg.vector_norm, _l2),
    "ReduceLogSum": (_log_sum, _log_sum),
    "ReduceLogSumExp": (torch.logsumexp, _log_sum_exp),
    "ReduceSumSquare": (_sum_square, _sum_square),
}
_ORDERS = {"ReduceL1": (1,), "ReduceL2": (2,)}
"""Order of the norm that an operator is, as arguments."""


@lowers(*_REDUCTIONS)
def _reduce(ctx: LayerContext) -> Node:
    axes, keepdims = ctx.reduced_axes(), bool(ctx.attribute("keepdims"))
    x = ctx.input()
    if not axes and ctx.rank():  # each element by itself
        x, axes, keepdims = ctx.call(torch.unsqueeze, x, -1), (ctx.rank(),), False
    operator = ctx.op
    if operator in ("ReduceMax", "ReduceMin") and 0 in ctx.shape(0):
        return _extreme_of_nothing(ctx)
    floating = ctx.torch_dtype(0).is_floating_point
    function = _REDUCTIONS[operator][0 if floating else 1]
    order = _ORDERS.get(operator, ()) if floating else ()
    return ctx.call(function, x, *order, axes, keepdims)


def _extreme_of_nothing(ctx: LayerContext) -> Node:
    dtype, largest = ctx.torch_dtype(0), ctx.op == "ReduceMax"
    if dtype.is_floating_point:
        value: float | int | bool = -float("inf") if largest else float("inf")
    elif dtype == torch.bool:
        value = not largest
    else:
        value = torch.iinfo(dtype).min if largest else torch.iinfo(dtype).max
    return ctx.call(torch.full, ctx.out_shape(), value, dtype=dtype)


@lowers("ArgMax", "ArgMin")
def _arg(ctx: LayerContext) -> Node:
    function = torch.argmax if ctx.op == "ArgMax" else torch.argmin
    axis, keepdims = ctx.axis(), bool(ctx.attribute("keepdims"))
    if not ctx.attribute("select_last_index"):
        return ctx.call(function, ctx.input(0), axis, keepdims)
    flipped = ctx.call(torch.flip, ctx.input(0), (axis,))
    index = ctx.call(function, flipped, axis, keepdims)
    return ctx.call(torch.rsub, index, ctx.shape(0)[axis] - 1)


@lowers("CumSum", "CumProd")
def _cumulative(ctx: LayerContext) -> Node:
    sums = ctx.op == "CumSum"
    axis = ctx.integer(1) % ctx.rank(0)
    exclusive, reverse = (bool(ctx.attribute(n)) for n in ("exclusive", "reverse"))
    if not exclusive and not reverse:
        function = torch.cumsum if sums else torch.cumprod
        return ctx.call(function, ctx.input(0), axis, dtype=ctx.torch_dtype(0))
    return ctx.call(cumulate, ctx.input(0), axis, sums, exclusive, reverse)


def cumulate(
    x: torch.Tensor, axis: int, sums: bool, exclusive: bool, reverse: bool
) -> torch.Tensor:
    """Cumulative sum or product from either end, with or without the element itself."""
    if reverse:
        x = x.flip(axis)
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), 0 if sums else 1)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    x = (torch.cumsum if sums else torch.cumprod)(x, axis, dtype=x.dtype)
    return x.flip(axis) if reverse else x

"""Reductions over axes, and positions of extremes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import ANY, FLOAT, NUMBER
from dlbricks_mxnet.lowering.symbols import Symbol, npi, op
from dlbricks_mxnet.lowering.table import lowers

_REDUCED_AXES = 5
"""Maximum number of groups of axes that MXNet reduces."""

Reduce = Callable[..., Symbol]


def _check_axes(ctx: LayerContext, axes: tuple[int, ...]) -> None:
    """Raises an error where MXNet's kernel, which merges neighbouring axes, fails at run time."""
    kinds = [axis in axes for axis, size in enumerate(ctx.shape()) if size != 1]
    groups = sum(a != b for a, b in itertools.pairwise(kinds)) + 1
    if groups > _REDUCED_AXES:
        raise UnsupportedError(f"MXNet does not reduce more than {_REDUCED_AXES} groups of axes")


def _reduction(name: str, function: Reduce, types: frozenset[str]) -> None:
    """Registers ``function(x, axis=, keepdims=)``."""

    @lowers(name, types=types)
    def lower(ctx: LayerContext) -> Symbol:
        axes, keepdims = ctx.reduced_axes(), bool(ctx.attribute("keepdims"))
        _check_axes(ctx, axes)
        if ctx.rank() == 0:
            axes = (0,)
        x = ctx.input()
        if not axes:  # each element by itself
            x, axes, keepdims = op.expand_dims(x, axis=ctx.rank()), (ctx.rank(),), False
        return function(x, axis=axes, keepdims=keepdims)


def _log_sum_exp(x: Symbol, **over: object) -> Symbol:
    top = op.max(x, axis=over["axis"], keepdims=True)
    total = op.log(op.sum(op.exp(op.broadcast_sub(x, top)), **over))
    return total + op.max(x, **over)


_reduction("ReduceSum", op.sum, NUMBER)
_reduction("ReduceMean", op.mean, FLOAT)
_reduction("ReduceMax", op.max, ANY)
_reduction("ReduceMin", op.min, ANY)
_reduction("ReduceProd", op.prod, NUMBER)
_reduction("ReduceL1", lambda x, **over: op.sum(op.abs(x), **over), NUMBER - {"int64"})
_reduction("ReduceL2", lambda x, **over: op.sqrt(op.sum(op.square(x), **over)), FLOAT)
_reduction("ReduceLogSum", lambda x, **over: op.log(op.sum(x, **over)), FLOAT)
_reduction("ReduceLogSumExp", _log_sum_exp, FLOAT)
_reduction("ReduceSumSquare", lambda x, **over: op.sum(x * x, **over), NUMBER)


def _extreme(name: str, function: Reduce) -> None:
    @lowers(name, types=NUMBER)
    def lower(ctx: LayerContext) -> Symbol:
        axis = ctx.axis()
        # To MXNet, a result without axes has an unknown shape.
        keepdims = bool(ctx.attribute("keepdims")) or ctx.rank() == 1
        x = ctx.input()
        if not ctx.attribute("select_last_index"):
            return function(x, axis=axis, keepdims=keepdims)
        last = ctx.shape()[axis] - 1
        return last - function(op.reverse(x, axis=axis), axis=axis, keepdims=keepdims)


_extreme("ArgMax", npi.argmax)
_extreme("ArgMin", npi.argmin)


@lowers("CumSum", types=NUMBER)
def _cumsum(ctx: LayerContext) -> Symbol:
    axis = ctx.integer(1) % max(ctx.rank(), 1)
    size = ctx.shape()[axis]
    x = ctx.input()
    backwards = ctx.attribute("reverse")
    if backwards:
        x = op.reverse(x, axis=axis)
    if ctx.attribute("exclusive"):
        zero = op.zeros_like(op.slice_axis(x, axis=axis, begin=0, end=1))
        shifted = [op.slice_axis(x, axis=axis, begin=0, end=size - 1)] if size > 1 else []
        x = op.Concat(zero, *shifted, dim=axis)
    y = op.cumsum(x, axis=axis)
    return op.reverse(y, axis=axis) if backwards else y


@lowers("TopK", types=NUMBER)
def _topk(ctx: LayerContext) -> list[Symbol]:
    axis, k = ctx.axis(), ctx.integer(1)
    # Sorting all keeps equal elements in order; MXNet's partial sort does not.
    values, indices = op.topk(
        ctx.input(),
        axis=axis,
        k=ctx.shape()[axis],
        ret_typ="both",
        is_ascend=not ctx.attribute("largest"),
        dtype="int64",
    )
    return [op.slice_axis(t, axis=axis, begin=0, end=k) for t in (values, indices)]

"""Poolings: local and global."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import Array, LayerContext
from dlbricks_mxnet.lowering.limits import FLOAT
from dlbricks_mxnet.lowering.padding import constant_pad
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, cast, op
from dlbricks_mxnet.lowering.table import lowers


@dataclass(frozen=True)
class _Axis:
    """Windows along one axis.

    Attributes:
        size: Elements of the input.
        kernel: Elements of a window, ``dilation`` apart.
        begin: Padding before the input.
        end: Padding after it.
        wanted: Number of windows in the output.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    wanted: int

    @property
    def reach(self) -> int:
        """Number of elements from the first to the last of a window."""
        return (self.kernel - 1) * self.dilation + 1

    def count(self, end: int) -> int:
        """Number of windows with another padding at the end, rounding down."""
        return (self.size + self.begin + end - self.reach) // self.stride + 1

    @property
    def rounded_up(self) -> int:
        """Number of windows by MXNet's other convention."""
        return -(-(self.size + self.begin + self.end - self.reach) // self.stride) + 1

    @property
    def covering_end(self) -> int:
        """Padding at the end with which rounding down yields the wanted number of windows."""
        return max((self.wanted - 1) * self.stride + self.reach - self.size - self.begin, 0)

    def counted(self, *, with_padding: bool) -> Array:
        """Elements of each window that its average divides by."""
        low, high = (-self.begin, self.size + self.end) if with_padding else (0, self.size)
        first = np.arange(self.wanted)[:, np.newaxis] * self.stride - self.begin
        positions = first + np.arange(self.kernel) * self.dilation
        return ((positions >= low) & (positions < high)).sum(axis=1)


class _Window:
    """The windows of a pooling layer."""

    def __init__(self, ctx: LayerContext) -> None:
        sizes = ctx.shape()[2:]
        if not 1 <= len(sizes) <= 3:
            raise UnsupportedError(f"MXNet has none in {len(sizes)} dimensions")
        self.kernel: Shape = tuple(ctx.attribute("kernel_shape"))
        self.strides = ctx.per_axis("strides")
        self.begin, self.end = ctx.pads()
        dilations = ctx.per_axis("dilations")
        self.axes = [
            _Axis(*of_axis)
            for of_axis in zip(
                sizes, self.kernel, self.strides, dilations, self.begin, self.end,
                ctx.out_shape()[2:], strict=True,
            )
        ]  # fmt: skip
        self.is_dilated = any(d != 1 for d in dilations)

    @property
    def is_native(self) -> bool:
        """Whether MXNet's padding and rounding, both plain, give the same windows."""
        return self._is_symmetric and all(a.count(a.end) == a.wanted for a in self.axes)

    @property
    def is_rounded_up(self) -> bool:
        """Whether MXNet's other convention gives the same windows."""
        return self._is_symmetric and all(a.rounded_up == a.wanted for a in self.axes)

    @property
    def _is_symmetric(self) -> bool:
        return not self.is_dilated and self.begin == self.end

    def counts(self, *, with_padding: bool) -> Array:
        """Elements of each window that its average divides by."""
        grid = np.ones([axis.wanted for axis in self.axes])
        for i, axis in enumerate(self.axes):
            along = [-1 if j == i else 1 for j in range(len(self.axes))]
            grid *= axis.counted(with_padding=with_padding).reshape(along)
        return grid


def _pool(x: Symbol, window: _Window, kind: str, pad: Shape, **options: object) -> Symbol:
    return op.Pooling(
        x, pool_type=kind, kernel=window.kernel, stride=window.strides, pad=pad, **options
    )


def _padded(ctx: LayerContext, window: _Window, x: Symbol, value: float) -> Symbol:
    """The input, padded so that the wanted windows result."""
    end = [axis.covering_end for axis in window.axes]
    return constant_pad(x, ctx.shape(), (0, 0, *window.begin), (0, 0, *end), value)


def _explicit(
    ctx: LayerContext, window: _Window, x: Symbol, value: float, kind: str, **options: object
) -> Symbol:
    """Pads with a separate operator, pools, and drops surplus windows."""
    y = _pool(_padded(ctx, window, x, value), window, kind, (0,) * len(window.axes), **options)
    if all(axis.count(axis.covering_end) == axis.wanted for axis in window.axes):
        return y
    wanted = tuple(axis.wanted for axis in window.axes)
    return op.slice(y, begin=(None, None, *(0,) * len(wanted)), end=(None, None, *wanted))


def _dilated(
    ctx: LayerContext,
    window: _Window,
    x: Symbol,
    value: float,
    combine: Callable[[Symbol, Symbol], Symbol],
) -> Symbol:
    """MXNet's windows have no gaps: combines one strided slice for each of their elements."""
    x = _padded(ctx, window, x, value)
    total: Symbol | None = None
    for offsets in product(*(range(axis.kernel) for axis in window.axes)):
        begin = [o * axis.dilation for o, axis in zip(offsets, window.axes, strict=True)]
        end = [b + (a.wanted - 1) * a.stride + 1 for b, a in zip(begin, window.axes, strict=True)]
        part = op.slice(
            x, begin=(None, None, *begin), end=(None, None, *end), step=(1, 1, *window.strides)
        )
        total = part if total is None else combine(total, part)
    return total


def _total(ctx: LayerContext, window: _Window, x: Symbol) -> Symbol:
    """Sums over the windows."""
    if window.is_dilated:
        return _dilated(ctx, window, x, 0.0, op.elemwise_add)
    return _explicit(ctx, window, x, 0.0, "sum")


@lowers("MaxPool", types=FLOAT | {"int8", "uint8"})
def _max_pool(ctx: LayerContext) -> Symbol:
    if ctx.wants(1):
        raise UnsupportedError("MXNet does not give the positions of the maxima")
    if ctx.dtype() in FLOAT:
        return _maximum(ctx, ctx.input(), ctx.dtype())
    return cast(_maximum(ctx, cast(ctx.input(), "float32"), "float32"), ctx.dtype())


def _maximum(ctx: LayerContext, x: Symbol, dtype: str) -> Symbol:
    window = _Window(ctx)
    lowest = float(np.finfo(dtype).min)
    if window.is_dilated:
        return _dilated(ctx, window, x, lowest, op.broadcast_maximum)
    if window.is_native:
        return _pool(x, window, "max", window.begin)
    if window.is_rounded_up:
        return _pool(x, window, "max", window.begin, pooling_convention="full")
    return _explicit(ctx, window, x, lowest, "max")


@lowers("AveragePool")
def _average_pool(ctx: LayerContext) -> Symbol:
    window = _Window(ctx)
    with_padding = bool(ctx.attribute("count_include_pad"))
    if window.is_native:
        return _pool(ctx.input(), window, "avg", window.begin, count_include_pad=with_padding)
    counts = window.counts(with_padding=with_padding)
    if not window.is_dilated and (counts == math.prod(window.kernel)).all():
        return _explicit(ctx, window, ctx.input(), 0.0, "avg", count_include_pad=True)
    share = (1 / counts).astype(ctx.dtype())[np.newaxis, np.newaxis]
    return op.broadcast_mul(_total(ctx, window, ctx.input()), ctx.fixed("share", share))


@lowers("LpPool")
def _lp_pool(ctx: LayerContext) -> Symbol:
    window = _Window(ctx)
    power = ctx.attribute("p")
    size = op.abs(ctx.input())
    if power in (1, 2, 3) and window.is_native:
        return _pool(size, window, "lp", window.begin, p_value=power)
    return _total(ctx, window, size**power) ** (1 / power)


def _global(name: str, kind: str) -> None:
    @lowers(name)
    def lower(ctx: LayerContext) -> Symbol:
        dimensions = ctx.spatial_rank
        if 1 <= dimensions <= 3:
            return op.Pooling(ctx.input(), global_pool=True, pool_type=kind,
                              kernel=(1,) * dimensions)  # fmt: skip
        reduce = {"avg": op.mean, "max": op.max}[kind]
        if dimensions < 1:
            return op.identity(ctx.input())
        return reduce(ctx.input(), axis=tuple(range(2, ctx.rank())), keepdims=True)


_global("GlobalAveragePool", "avg")
_global("GlobalMaxPool", "max")


@lowers("GlobalLpPool")
def _global_lp_pool(ctx: LayerContext) -> Symbol:
    power = ctx.attribute("p")
    total = op.sum(op.abs(ctx.input()) ** power, axis=tuple(range(2, ctx.rank())), keepdims=True)
    return total ** (1 / power)

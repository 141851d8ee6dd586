"""Padding in all modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import ANY, FLOAT
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, cast, op, reshape, slice_axis
from dlbricks_mxnet.lowering.table import lowers


def zero_pad(x: Symbol, shape: Shape, begin: Sequence[int], end: Sequence[int]) -> Symbol:
    """Pads a floating-point tensor with zeros."""
    return constant_pad(x, shape, begin, end, 0.0)


def constant_pad(
    x: Symbol, shape: Shape, begin: Sequence[int], end: Sequence[int], value: float
) -> Symbol:
    """Pads a floating-point tensor with one value."""
    if not any((*begin, *end)):
        return x
    return _native_pad(x, shape, begin, end, "constant", value)


def _native_pad(
    x: Symbol, shape: Shape, begin: Sequence[int], end: Sequence[int], mode: str, value: float
) -> Symbol:
    """MXNet's Pad, which pads the last two of four axes or the last three of five."""
    keep = _unpadded(begin, end)
    inner = len(shape) - keep
    if inner > 3:
        raise UnsupportedError(f"MXNet has no padding of {inner} axes")
    spatial = max(inner, 2)
    lead = len(shape) - spatial
    # Any leading axes become two.
    inside = (1,) * -min(lead, 0) + tuple(shape[max(lead, 0) :])
    outside = (1, int(np.prod(shape[: max(lead, 0)], dtype=np.int64)))
    fill = (0,) * (spatial - inner)
    before = (*fill, *begin[keep:])
    after = (*fill, *end[keep:])
    view = (*outside, *inside)
    native = view == tuple(shape)
    if len(shape) == len(view) and not any((*begin[:2], *end[:2])):
        view, native = tuple(shape), True
        before, after = tuple(begin[2:]), tuple(end[2:])
    width = [0, 0, 0, 0]
    for b, e in zip(before, after, strict=True):
        width += [b, e]
    y = op.Pad(
        x if native else reshape(x, view),
        mode=mode,
        pad_width=tuple(width),
        constant_value=value,
    )
    if native:
        return y
    return reshape(y, [n + b + e for n, b, e in zip(shape, begin, end, strict=True)])


def _unpadded(begin: Sequence[int], end: Sequence[int]) -> int:
    """Number of leading axes without padding."""
    for axis, (b, e) in enumerate(zip(begin, end, strict=True)):
        if b or e:
            return axis
    return len(begin)


@lowers("Pad", types=ANY)
def _pad(ctx: LayerContext) -> Symbol:
    shape, x = ctx.shape(), ctx.input()
    begin, end = ctx.all_pads()
    for axis, (b, e) in enumerate(zip(begin, end, strict=True)):
        if b < 0 or e < 0:
            x = slice_axis(x, axis, max(-b, 0), shape[axis] - max(-e, 0))
    shape = tuple(n + min(b, 0) + min(e, 0) for n, b, e in zip(shape, begin, end, strict=True))
    begin, end = tuple(max(b, 0) for b in begin), tuple(max(e, 0) for e in end)
    if not any((*begin, *end)):
        ctx.ignore("mode")
        return op.identity(x)
    return _MODES[ctx.attribute("mode")](ctx, x, shape, begin, end)


def _constant(ctx: LayerContext, x: Symbol, shape: Shape, begin: Shape, end: Shape) -> Symbol:
    value = ctx.known(2).ravel()[0] if ctx.has(2) else np.zeros((), ctx.dtype())[()]
    if ctx.dtype() in FLOAT and len(shape) - _unpadded(begin, end) <= 3:
        return _native_pad(x, shape, begin, end, "constant", float(value))
    for axis in range(len(shape)):
        parts = []
        for width in (begin[axis], end[axis]):
            part = (*_grown(shape, begin, end, axis), width, *shape[axis + 1 :])
            parts.append(_filled(part, value, ctx.dtype()) if width else None)
        x = _joined(ctx, [parts[0], x, parts[1]], axis)
    return x


def _filled(shape: Shape, value: float, dtype: str) -> Symbol:
    if dtype == "int64" and abs(int(value)) > 2**53:
        raise UnsupportedError("MXNet has no padding values beyond 53 bits")
    return op.full(shape=shape, val=value.item(), dtype="uint8" if dtype == "bool" else dtype)


def _grown(shape: Shape, begin: Shape, end: Shape, axes: int) -> Shape:
    """Shape after padding only the axes before ``axes``."""
    return tuple(shape[i] + begin[i] + end[i] for i in range(axes))


def _edge(ctx: LayerContext, x: Symbol, shape: Shape, begin: Shape, end: Shape) -> Symbol:
    return _gathered(ctx, x, shape, begin, end, "edge")


def _reflect(ctx: LayerContext, x: Symbol, shape: Shape, begin: Shape, end: Shape) -> Symbol:
    return _gathered(ctx, x, shape, begin, end, "reflect")


def _wrap(ctx: LayerContext, x: Symbol, shape: Shape, begin: Shape, end: Shape) -> Symbol:
    return _gathered(ctx, x, shape, begin, end, "wrap")


def _gathered(
    ctx: LayerContext, x: Symbol, shape: Shape, begin: Shape, end: Shape, mode: str
) -> Symbol:
    """Padding by MXNet's Pad where possible; otherwise each axis is gathered by positions."""
    inner = len(shape) - _unpadded(begin, end)
    short = any(
        b >= n or e >= n for n, b, e in zip(shape, begin, end, strict=True) if mode == "reflect"
    )
    if mode != "wrap" and ctx.dtype() in FLOAT and inner <= 3 and not short:
        return _native_pad(x, shape, begin, end, mode, 0.0)
    for axis, (b, e) in enumerate(zip(begin, end, strict=True)):
        if b or e:
            positions = np.pad(np.arange(shape[axis]), (b, e), mode=mode)  # type: ignore[call-overload]
            index = ctx.fixed(f"positions{axis}", positions.astype(np.int32))
            x = op.take(x, index, axis=axis, mode="clip")
    return x


def _joined(ctx: LayerContext, parts: list[Symbol | None], axis: int) -> Symbol:
    present = [part for part in parts if part is not None]
    if len(present) == 1:
        return present[0]
    if ctx.dtype() == "bool":  # MXNet does not join booleans
        middle = parts[1]
        numbers = [cast(p, "uint8") if p is middle else p for p in present]
        return cast(op.Concat(*numbers, dim=axis), "bool")
    return op.Concat(*present, dim=axis)


_MODES = {"constant": _constant, "edge": _edge, "reflect": _reflect, "wrap": _wrap}

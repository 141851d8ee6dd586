"""Resizing: MXNet's operators where they are equivalent, otherwise exact tables of weights."""

from __future__ import annotations

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import Array, LayerContext
from dlbricks_mxnet.lowering.interpolation import Axis, coordinates, nearest, weights
from dlbricks_mxnet.lowering.limits import ANY, FLOAT, REAL
from dlbricks_mxnet.lowering.symbols import Symbol, op, transpose
from dlbricks_mxnet.lowering.table import lowers


@lowers("Resize", types=ANY)
def _resize(ctx: LayerContext) -> Symbol:
    transform = ctx.attribute("coordinate_transformation_mode")
    mode = ctx.attribute("mode")
    # These concern other modes than they are read for, or are in the sizes already.
    ctx.ignore("extrapolation_value", "keep_aspect_ratio_policy", "nearest_mode", "axes")
    axes = _axes(ctx, transform)
    positions: dict[int, Array] = {}
    for i, axis in axes.items():
        found = coordinates(axis, transform)
        if found is None:
            raise UnsupportedError(f"MXNet has no coordinates {transform}")
        positions[i] = found
    if not axes:
        ctx.ignore(*ctx.layer.attributes)
        return op.identity(ctx.input())
    if mode == "nearest":
        ctx.ignore("antialias", "exclude_outside", "cubic_coeff_a")
        y = _nearest(ctx, axes, positions)
    elif mode not in ("linear", "cubic"):
        raise UnsupportedError(f"MXNet has no mode {mode}")
    elif ctx.dtype() not in REAL:
        raise UnsupportedError(f"MXNet does not interpolate {ctx.dtype()}")
    elif (native := _bilinear(ctx, axes, transform, mode)) is not None:
        return native
    else:
        y = _interpolated(ctx, axes, positions, mode)
    if transform == "tf_crop_and_resize":
        y = _extrapolated(ctx, y, axes, positions)
    return y


def _axes(ctx: LayerContext, transform: str) -> dict[int, Axis]:
    """The axes whose elements move, by number."""
    rank, out = ctx.rank(), ctx.out_shape()
    named = ctx.attribute("axes") or tuple(range(rank))
    named = [int(a) % rank for a in named]
    scales = _scales_of_sizes(ctx, named) if ctx.has(3) else ctx.known(2).ravel().tolist()
    regions = {}
    if transform == "tf_crop_and_resize":
        roi = ctx.known(1).ravel().tolist()
        half = len(roi) // 2
        regions = {a: (roi[i], roi[i + half]) for i, a in enumerate(named)}
    axes = {}
    for i, scale in zip(named, scales, strict=True):
        axis = Axis(ctx.shape()[i], out[i], scale, regions.get(i, (0.0, 1.0)))
        if scale != 1.0 or axis.size != axis.resized or axis.region != (0.0, 1.0):
            axes[i] = axis
    return axes


def _scales_of_sizes(ctx: LayerContext, named: list[int]) -> list[float]:
    shape, out = ctx.shape(), ctx.out_shape()
    policy = ctx.attribute("keep_aspect_ratio_policy")
    if policy == "stretch":
        return [out[a] / shape[a] for a in named]
    ratios = [n / shape[a] for a, n in zip(named, ctx.integers(3), strict=True)]
    return [min(ratios) if policy == "not_larger" else max(ratios)] * len(named)


def _nearest(ctx: LayerContext, axes: dict[int, Axis], positions: dict[int, Array]) -> Symbol:
    rounding = ctx.attribute("nearest_mode")
    index = {i: nearest(axis, positions[i], rounding) for i, axis in axes.items()}
    factor = _whole_factor(ctx, axes, index)
    x = ctx.input()
    if factor and ctx.dtype() in FLOAT:
        return op.UpSampling(x, scale=factor, sample_type="nearest")
    for i in axes:
        x = op.take(x, ctx.fixed(f"nearest{i}", index[i]), axis=i, mode="clip")
    return x


def _whole_factor(ctx: LayerContext, axes: dict[int, Axis], index: dict[int, Array]) -> int:
    """Integer factor by which both sides of images are repeated; 0 if there is none."""
    if ctx.rank() != 4 or set(axes) != {2, 3}:
        return 0
    factors = {axis.resized // axis.size for axis in axes.values()}
    factor = factors.pop()
    repeats = all(
        np.array_equal(index[i], np.repeat(np.arange(axis.size), factor))
        for i, axis in axes.items()
    )
    return factor if not factors and repeats else 0


def _bilinear(ctx: LayerContext, axes: dict[int, Axis], transform: str, mode: str) -> Symbol | None:
    """MXNet's bilinear resizing of images; ``None`` where its definition differs."""
    same = all(a.scale == a.resized / a.size and min(a.resized, a.size) > 1 for a in axes.values())
    plain = not ctx.attribute("antialias") and not ctx.attribute("exclude_outside")
    corners = {"align_corners": True, "half_pixel": False, "pytorch_half_pixel": False}
    images = ctx.rank() == 4 and set(axes) == {2, 3}
    if not (images and same and plain and mode == "linear" and transform in corners):
        return None
    height, width = ctx.out_shape()[2:]
    return op.contrib.BilinearResize2D(
        ctx.input(), height=height, width=width, align_corners=corners[transform]
    )


def _interpolated(
    ctx: LayerContext, axes: dict[int, Axis], positions: dict[int, Array], mode: str
) -> Symbol:
    """One product with a matrix of weights for each axis."""
    x, rank = ctx.input(), ctx.rank()
    for i, axis in axes.items():
        matrix = weights(
            axis,
            positions[i],
            mode,
            a=ctx.attribute("cubic_coeff_a"),
            antialias=bool(ctx.attribute("antialias")),
            exclude_outside=bool(ctx.attribute("exclude_outside")),
        )
        swap = list(range(rank))
        swap[i], swap[-1] = swap[-1], swap[i]
        x = op.FullyConnected(
            transpose(x, swap),
            ctx.fixed(f"weights{i}", matrix.astype(ctx.dtype())),
            num_hidden=axis.resized,
            no_bias=True,
            flatten=False,
        )
        x = transpose(x, swap)
    return x


def _extrapolated(
    ctx: LayerContext, y: Symbol, axes: dict[int, Axis], positions: dict[int, Array]
) -> Symbol:
    """Puts a fixed value where the crop reaches beyond the original."""
    outside = np.zeros(ctx.out_shape(), bool)
    for i, axis in axes.items():
        beyond = (positions[i] < 0) | (positions[i] > axis.size - 1)
        outside |= beyond.reshape([-1 if j == i else 1 for j in range(ctx.rank())])
    if not outside.any():
        return y
    if ctx.dtype() not in REAL:
        raise UnsupportedError(f"MXNet does not extrapolate {ctx.dtype()}")
    keep = ctx.fixed("inside", (~outside).astype(ctx.dtype()))
    fill = outside * np.asarray(ctx.attribute("extrapolation_value"), ctx.dtype())
    return op.elemwise_add(y * keep, ctx.fixed("fill", fill.astype(ctx.dtype())))

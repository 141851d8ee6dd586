"""Resizing: torch's interpolation where it is equivalent, otherwise matrix products.

Interpolation is linear and separable, so each axis is a matrix from the old positions to the new
ones. The matrix follows from ONNX's definition. Torch's own operator is used where its matrix,
found by resizing unit impulses, is equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

Matrix = np.ndarray[Any, np.dtype[np.float64]]

_TORCH_MODES = {("linear", 1): "linear", ("linear", 2): "bilinear", ("linear", 3): "trilinear",
                ("cubic", 2): "bicubic"}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """How a Resize layer interpolates along every axis."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    exclude_outside: bool
    antialias: bool


@dataclass(frozen=True)
class Axis:
    """One resized axis: sizes, scale, and the region of the input."""

    size: int
    wanted: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@lowers("Resize")
def _resize(ctx: LayerContext) -> Node:
    rule = Rule(
        mode=ctx.attribute("mode"),
        coordinates=ctx.attribute("coordinate_transformation_mode"),
        nearest=ctx.attribute("nearest_mode"),
        cubic_a=round(ctx.attribute("cubic_coeff_a"), 6),
        exclude_outside=bool(ctx.attribute("exclude_outside")),
        antialias=bool(ctx.attribute("antialias")),
    )
    axes = _axes(ctx)
    if rule.mode == "nearest":
        node = _resize_nearest(ctx, rule, axes)
    elif not ctx.torch_dtype(0).is_floating_point:
        raise UnsupportedError(f"torch does not interpolate {ctx.torch_dtype(0)} as ONNX does")
    else:
        node = _native(ctx, rule, axes) or _by_matrices(ctx, rule, axes)
    return _extrapolated(ctx, rule, axes, node)


def _axes(ctx: LayerContext) -> dict[int, Axis]:
    """Axes whose size changes, or that have a scale or region, by number."""
    shape, wanted, rank = ctx.shape(0), ctx.out_shape(), ctx.rank(0)
    named = [axis % rank for axis in ctx.attribute("axes", tuple(range(rank))) or range(rank)]
    if ctx.has(2) and ctx.known(2).size:
        scales = [float(s) for s in ctx.known(2)]
    else:
        scales = [size / shape[axis] for size, axis in zip(ctx.integers(3), named, strict=True)]
        policy = ctx.attribute("keep_aspect_ratio_policy")
        if policy != "stretch":
            scales = [(min if policy == "not_larger" else max)(scales)] * len(scales)
    roi = [float(r) for r in ctx.known(1)] if ctx.has(1) else []
    cropped = ctx.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    axes = {}
    for i, (axis, scale) in enumerate(zip(named, scales, strict=True)):
        region = (roi[i], roi[len(named) + i]) if cropped and roi else (0.0, 1.0)
        if shape[axis] != wanted[axis] or scale != 1.0 or region != (0.0, 1.0):
            axes[axis] = Axis(shape[axis], wanted[axis], scale, *region)
    return axes


def source_positions(rule: Rule, axis: Axis) -> Matrix:
    """Position of each new element on the old axis."""
    x = np.arange(axis.wanted, dtype=np.float64)
    length = axis.scale * axis.size  # not rounded, as the definition has it
    if rule.coordinates == "align_corners":
        return x * 0 if length == 1 else x * (axis.size - 1) / (length - 1)
    if rule.coordinates == "asymmetric":
        return x / axis.scale
    if rule.coordinates == "tf_crop_and_resize":
        span = (axis.end - axis.start) * (axis.size - 1)
        if length == 1:
            return x * 0 + span / 2 + axis.start * (axis.size - 1)
        return x * span / (length - 1) + axis.start * (axis.size - 1)
    if rule.coordinates == "pytorch_half_pixel" and length == 1:
        return x * 0 - 0.5
    position = (x + 0.5) / axis.scale - 0.5
    if rule.coordinates == "half_pixel_symmetric":
        position += axis.size / 2 * (1 - axis.wanted / length)
    return position


def nearest_sources(rule: Rule, axis: Axis) -> Array:
    """The old element that each new one copies."""
    rounding: dict[str, Callable[[Matrix], Matrix]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    }
    sources = rounding[rule.nearest](source_positions(rule, axis))
    return np.asarray(np.clip(sources, 0, axis.size - 1), np.int64)


@lru_cache(maxsize=256)
def interpolation_matrix(rule: Rule, axis: Axis) -> Matrix:
    """Weights of the old elements (columns) for each new one (rows)."""
    position = source_positions(rule, axis)
    stretch = min(axis.scale, 1.0) if rule.antialias else 1.0
    reach = math.ceil((1 if rule.mode == "linear" else 2) / stretch)
    taps = np.floor(position)[:, None] + np.arange(-reach, reach + 2)
    distance = np.abs(taps - position[:, None]) * stretch
    weights = _linear(distance) if rule.mode == "linear" else _cubic(distance, rule.cubic_a)
    if rule.exclude_outside:
        weights = np.where((taps < 0) | (taps >= axis.size), 0.0, weights)
    weights /= weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((axis.wanted, axis.size))
    columns = np.clip(taps, 0, axis.size - 1).astype(np.int64)
    np.add.at(matrix, (np.arange(axis.wanted)[:, None], columns), weights)
    return matrix


def _linear(distance: Matrix) -> Matrix:
    return np.clip(1 - distance, 0, 1)


def _cubic(distance: Matrix, a: float) -> Matrix:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _resize_nearest(ctx: LayerContext, rule: Rule, axes: dict[int, Axis]) -> Node:
    sources = {number: nearest_sources(rule, axis) for number, axis in axes.items()}
    rank = ctx.rank(0)
    if 3 <= rank <= 5 and min(axes, default=2) >= 2 and ctx.torch_dtype(0).is_floating_point:
        for mode, shift in (("nearest", 0.0), ("nearest-exact", 0.5)):
            if all(
                np.array_equal(sources[number], _torch_nearest(axis, shift))
                for number, axis in axes.items()
            ):
                return ctx.call(F.interpolate, ctx.input(0), ctx.out_shape()[2:], mode=mode)
    node = ctx.input(0)
    for number, source in sources.items():
        node = ctx.call(torch.index_select, node, number, ctx.fixed(source))
    return node


def _torch_nearest(axis: Axis, shift: float) -> Array:
    """Source index of each element in F.interpolate, computed with its own arithmetic."""
    ratio = np.float32(axis.size / axis.wanted)
    position = (np.arange(axis.wanted, dtype=np.float32) + np.float32(shift)) * ratio
    return np.asarray(np.minimum(np.floor(position), axis.size - 1), np.int64)


def _native(ctx: LayerContext, rule: Rule, axes: dict[int, Axis]) -> Node | None:
    """F.interpolate, where it computes the same."""
    mode = _TORCH_MODES.get((rule.mode, ctx.rank(0) - 2))
    if mode is None or min(axes, default=2) < 2 or (rule.antialias and ctx.rank(0) != 4):
        return None
    corners = rule.coordinates == "align_corners"
    for axis in axes.values():
        own = _torch_matrix(rule.mode, corners, rule.antialias, axis.size, axis.wanted)
        if not np.allclose(own, interpolation_matrix(rule, axis), atol=1e-5):
            return None
    return ctx.call(
        F.interpolate, ctx.input(0), ctx.out_shape()[2:], mode=mode,
        align_corners=corners, antialias=rule.antialias,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _torch_matrix(mode: str, corners: bool, antialias: bool, size: int, wanted: int) -> Matrix:
    """Torch's weights, from its response to a unit impulse at every old position."""
    impulses = torch.eye(size).reshape(1, size, size, 1)
    resized = F.interpolate(
        impulses, (wanted, 1), mode=_TORCH_MODES[mode, 2], align_corners=corners,
        antialias=antialias,
    )  # fmt: skip
    return resized[0, :, :, 0].t().double().numpy()


def _by_matrices(ctx: LayerContext, rule: Rule, axes: dict[int, Axis]) -> Node:
    node = ctx.input(0)
    for number, axis in axes.items():
        matrix = torch.from_numpy(interpolation_matrix(rule, axis)).to(ctx.torch_dtype(0))
        node = ctx.call(resample, node, ctx.fixed(matrix), number)
    return node


def resample(x: torch.Tensor, matrix: torch.Tensor, axis: int) -> torch.Tensor:
    """The matrix applied along one axis."""
    return torch.matmul(x.movedim(axis, -1), matrix.t()).movedim(-1, axis)


def _extrapolated(ctx: LayerContext, rule: Rule, axes: dict[int, Axis], node: Node) -> Node:
    """Inserts the extrapolation value where the region exceeds the input."""
    if rule.coordinates != "tf_crop_and_resize":
        return node
    value, rank = ctx.attribute("extrapolation_value"), ctx.rank(0)
    outside = np.zeros((1,) * rank, dtype=bool)
    for number, axis in axes.items():
        position = source_positions(rule, axis)
        beyond = (position < 0) | (position > axis.size - 1)
        outside = outside | beyond.reshape([-1 if i == number else 1 for i in range(rank)])
    if not outside.any():
        return node
    return ctx.call(torch.masked_fill, node, ctx.fixed(outside), value)

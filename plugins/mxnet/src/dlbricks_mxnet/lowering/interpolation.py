"""Source coordinates of the elements of a resized axis, as ONNX defines ``Resize``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dlbricks_mxnet.lowering.context import Array


@dataclass(frozen=True)
class Axis:
    """One axis that is resized.

    Attributes:
        size: Number of elements before.
        resized: Number of elements after.
        scale: Ratio for the coordinates, which may differ from ``resized / size``.
        region: Start and end of the crop, as shares of the axis.
    """

    size: int
    resized: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


def _align_corners(axis: Axis, x: Array) -> Array:
    length = axis.scale * axis.size
    return x * (axis.size - 1) / (length - 1) if length != 1 else np.zeros_like(x)


def _half_pixel_symmetric(axis: Axis, x: Array) -> Array:
    adjustment = axis.resized / (axis.scale * axis.size)
    return axis.size / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5


def _crop(axis: Axis, x: Array) -> Array:
    start, end = axis.region
    if axis.resized > 1:
        return start * (axis.size - 1) + x * (end - start) * (axis.size - 1) / (axis.resized - 1)
    return np.full_like(x, 0.5 * (start + end) * (axis.size - 1))


def _half_pixel(axis: Axis, x: Array) -> Array:
    return (x + 0.5) / axis.scale - 0.5


_COORDINATES: dict[str, Callable[[Axis, Array], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda axis, x: (
        _half_pixel(axis, x) if axis.resized > 1 else np.zeros_like(x)
    ),
    "align_corners": _align_corners,
    "asymmetric": lambda axis, x: x / axis.scale,
    "tf_crop_and_resize": _crop,
}

_ROUNDING: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def coordinates(axis: Axis, mode: str) -> Array | None:
    """Position in the original axis of each resized element; ``None`` for an unknown mode."""
    if mode not in _COORDINATES:
        return None
    return _COORDINATES[mode](axis, np.arange(axis.resized, dtype=np.float64))


def nearest(axis: Axis, positions: Array, rounding: str) -> Array:
    """Index of the original element that each resized one copies."""
    return np.clip(_ROUNDING[rounding](positions), 0, axis.size - 1).astype(np.int32)


def _triangle(x: Array, a: float) -> Array:
    return np.clip(1 - np.abs(x), 0, 1)


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


#: Mode -> kernel, and how far it reaches to each side.
_KERNELS = {"linear": (_triangle, 1), "cubic": (_cubic, 2)}


def weights(
    axis: Axis, positions: Array, mode: str, *, a: float, antialias: bool, exclude_outside: bool
) -> Array:
    """Matrix (resized, original) of interpolation weights along the axis."""
    kernel, reach = _KERNELS[mode]
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    first = int(np.floor(-reach / stretch)) + 1
    offsets = np.arange(first, 2 - first)
    base = np.floor(positions)
    taps = kernel((offsets - (positions - base)[:, np.newaxis]) * stretch, a)
    index = base[:, np.newaxis].astype(np.int64) + offsets
    if exclude_outside:
        taps = np.where((index >= 0) & (index < axis.size), taps, 0)
    if exclude_outside or antialias:
        taps = taps / taps.sum(axis=1, keepdims=True)
    matrix = np.zeros((axis.resized, axis.size))
    rows = np.repeat(np.arange(axis.resized), len(offsets))
    np.add.at(matrix, (rows, np.clip(index, 0, axis.size - 1).ravel()), taps.ravel())
    return matrix

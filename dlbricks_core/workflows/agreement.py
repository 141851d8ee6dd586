"""How far results lie apart, and which of several agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np

from dlbricks_core.backends import Array
from dlbricks_core.ir import dtype_name

Results = Mapping[str, Array]
"""Outputs of a model by name."""

_UNITS, _MOST_ROUNDED = 12, 0.25
"""Of the precision of floats below 32 bits that two results may lie apart, and the largest part of
a number that this may be: how a framework rounds on the way is its own. In networks of 200 layers
errors reach nine units, compared with results that are computed in float32."""

_SHORT_BYTES = 4

_LEAST_SPREAD = 1e-4
"""Outputs that vary less than this, relative to their size, show nothing."""


def difference(actual: Results, expected: Results) -> float:
    """Largest relative error over all outputs that are expected."""
    return max((relative_error(actual[n], value) for n, value in expected.items()), default=0.0)


def majority(results: Sequence[Results], tolerance: float) -> tuple[int, ...]:
    """Indices of those that agree with one of them, if they are two and more than half."""
    most: tuple[int, ...] = ()
    for centre in results:
        near = tuple(i for i, each in enumerate(results) if difference(each, centre) <= tolerance)
        most = max(most, near, key=len)
    return most if len(most) > max(1, len(results) / 2) else ()


def relative_error(actual: Array, expected: Array) -> float:
    """Largest error of an element, relative to how far the elements lie from their mean.

    That is stricter than an error relative to the elements themselves where a large common
    part would hide a difference. Infinite where shapes, texts, NaNs or infinities differ. Some
    units of a short float's precision are no error.
    """
    if actual.shape != expected.shape or _is_text(actual) != _is_text(expected):
        return np.inf
    if _is_text(expected):
        return 0.0 if np.array_equal(actual.astype(str), expected.astype(str)) else np.inf
    got, want = _numbers(actual), _numbers(expected)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return np.inf
    got, want = got[finite], want[finite]
    if not want.size:
        return 0.0
    if want.size > 1 and _varies(expected):
        scale = np.abs(want - want.mean()) + want.std()
    else:
        scale = np.maximum(np.abs(want), np.finfo(np.float32).tiny)
    precision = max(_precision(actual.dtype), _precision(expected.dtype))
    rounding = min(_UNITS * precision, _MOST_ROUNDED) * np.maximum(np.abs(want), scale)
    error = np.maximum(np.abs(got - want) - rounding, 0) / scale
    return float(error.max()) if np.isfinite(error).all() else np.inf


def all_vary(results: Results) -> bool:
    """Whether every output varies, so that a comparison shows something."""
    return all(map(_varies, results.values()))


def _varies(values: Array) -> bool:
    """Whether there is something to see; a single element always is."""
    if _is_text(values):
        return values.size < 2 or len(set(values.ravel().tolist())) > 1
    numbers = _numbers(values)
    finite = numbers[np.isfinite(numbers)]
    if finite.size < 2:
        return True
    return bool(finite.std() > _LEAST_SPREAD * np.abs(finite).max())


def _precision(dtype: np.dtype[np.generic]) -> float:
    """Distance from 1 to the next number of a short float; 0 for other types."""
    if dtype.itemsize >= _SHORT_BYTES or not dtype_name(dtype).startswith(("float", "bfloat")):
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _is_text(values: Array) -> bool:
    return values.dtype.kind in "OUST"


def _numbers(values: Array) -> Array:
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    return values.astype(wide).ravel()

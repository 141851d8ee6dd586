"""Agreement: the difference between results, and the majority among several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import ml_dtypes
import numpy as np

from dlbricks_core.backends import Array
from dlbricks_core.ir import dtype_name

Results = Mapping[str, Array]  #: Outputs of a model by name.

#: Precision of an output by its name, where it is lower than that of the output's type.
Precisions = Mapping[str, float]

_AS_TYPED: Precisions = MappingProxyType({})

#: Tolerance of results in floats below 32 bits, in units of their precision, and maximum relative
#: error that this tolerance may reach. Frameworks round intermediate results in different ways. In
#: networks of 200 layers, errors reach nine units compared with results computed in float32.
_UNITS, _MOST_ROUNDED = 12, 0.25

_SHORT_BYTES = 4  #: Floats of fewer bytes are short.

#: Minimum spread of an output relative to its size. An output that varies less reveals no
#: difference.
_LEAST_SPREAD = 1e-4


def allowance(precision: float) -> float:
    """Relative error that counts as none in results of a precision."""
    return min(_UNITS * precision, _MOST_ROUNDED)


def difference(actual: Results, expected: Results, precisions: Precisions = _AS_TYPED) -> float:
    """Maximum relative error over all expected outputs."""
    return max(
        (relative_error(actual[n], value, precisions.get(n, 0.0)) for n, value in expected.items()),
        default=0.0,
    )


def majority(
    results: Sequence[Results], tolerance: float, precisions: Precisions = _AS_TYPED
) -> tuple[int, ...]:
    """Indices of results that agree with one among them, if they are a majority of two or more."""
    most: tuple[int, ...] = ()
    for centre in results:
        near = tuple(
            i for i, each in enumerate(results) if difference(each, centre, precisions) <= tolerance
        )
        most = max(most, near, key=len)
    return most if len(most) > max(1, len(results) / 2) else ()


def relative_error(actual: Array, expected: Array, precision: float = 0.0) -> float:
    """Maximum error of an element, relative to the deviation of the elements from their mean.

    The measure is stricter than an error relative to the elements themselves, whose large common
    part may hide a difference. It is infinite where shapes, texts, NaNs or infinities differ.
    Differences of a few units of a short float's precision, or of a given lower precision, are no
    error.
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
    precision = max(precision, _precision(actual.dtype), _precision(expected.dtype))
    rounding = allowance(precision) * np.maximum(np.abs(want), scale)
    if precision and expected.dtype.kind in "iu":  # codes: one unit in the last place
        rounding = np.maximum(rounding, 1)
    error = np.maximum(np.abs(got - want) - rounding, 0) / scale
    return float(error.max()) if np.isfinite(error).all() else np.inf


def all_vary(results: Results) -> bool:
    """Whether every output varies, so that a comparison is meaningful."""
    return all(map(_varies, results.values()))


def _varies(values: Array) -> bool:
    """Whether an output varies; a single element always counts as varying."""
    if _is_text(values):
        return values.size < 2 or len(set(values.ravel().tolist())) > 1
    numbers = _numbers(values)
    finite = numbers[np.isfinite(numbers)]
    if finite.size < 2:
        return True
    return bool(finite.std() > _LEAST_SPREAD * np.abs(finite).max())


def _precision(dtype: np.dtype[np.generic]) -> float:
    """Machine epsilon of a short float; 0 for other types."""
    if dtype.itemsize >= _SHORT_BYTES or not dtype_name(dtype).startswith(("float", "bfloat")):
        return 0.0
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _is_text(values: Array) -> bool:
    return values.dtype.kind in "OUST"


def _numbers(values: Array) -> Array:
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    return values.astype(wide).ravel()

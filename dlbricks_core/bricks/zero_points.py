"""Zero points of quantized tensors: the codes of zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dlbricks_core.operators.table import standing_for

if TYPE_CHECKING:
    from dlbricks_core.ir import Array, Layer


def is_zero_point(layer: Layer, position: int, value: Array) -> bool:
    """Whether a value is the zero point of a whole tensor: bricks distinguish the least code."""
    whole = value.size == 1 and value.dtype.kind in "iu"
    return whole and standing_for(layer).input(position).coarse


def is_least(zero: Array) -> bool:
    """Whether a zero point is the least code, so that no code means a negative number.

    Frameworks leave out a rectifier whose result is quantized so.
    """
    return int(zero.ravel()[0]) == zero_code(zero.dtype, least=True)


def zero_code(dtype: np.dtype[Any], *, least: bool) -> int:
    """The code of zero in an integer type: the least code, or the middle code."""
    codes = np.iinfo(dtype)
    return int(codes.min) if least else (int(codes.min) + int(codes.max) + 1) // 2


def coarse(zero: Array) -> Array:
    """The zero point that represents all zero points that frameworks treat alike.

    It is the least code, or the one in the middle.
    """
    return np.full(zero.shape, zero_code(zero.dtype, least=is_least(zero)), zero.dtype)

"""Widths of intervals in words."""

from __future__ import annotations

import math
from collections.abc import Collection

_WIDE = 0.6
"""Relative half-width from which the width is given as a factor, here 2. Wide intervals reach
further up than down, so their lower end is less than a half-width below the estimate.
"""


def width_text(half_width: float, digits: int = 0) -> str:
    """Half-width of an interval relative to its middle: ``±10%``, or ``within a factor of 3``.

    The factor is that between either end and the geometric middle. An interval that begins at 0 or
    below has none.

    Args:
        half_width: As of :func:`~dlbricks_core.figures.figure.relative_half_width`.
        digits: Decimal places of a percentage.

    Examples:
        >>> width_text(0.1)
        '±10%'
        >>> width_text(0.8)
        'within a factor of 3'
    """
    if half_width <= _WIDE or half_width >= 1:
        return f"±{half_width:.{digits}%}"
    return _within(math.exp(math.atanh(half_width)))


def widest_text(half_widths: Collection[float], digits: int = 0) -> str:
    """Bound on some half-widths: ``±10%`` if there is one, or else ``at most ±10%``.

    Args:
        half_widths: At least one, each as for :func:`width_text`.
        digits: Decimal places of a percentage.
    """
    text = width_text(max(half_widths), digits)
    return f"at most {text}" if len(half_widths) > 1 and text.startswith("±") else text


def spread_text(half_width: float) -> str:
    """Half-width of an interval relative to the estimate, which is its geometric middle.

    Examples:
        >>> spread_text(4 / 3)
        'within a factor of 3'
    """
    if half_width <= _WIDE:
        return f"±{half_width:.0%}"
    return _within(math.exp(math.asinh(half_width)))


def _within(factor: float) -> str:
    return (
        f"within a factor of {factor:.2g}" if factor < 10 else f"within a factor of {factor:,.0f}"
    )

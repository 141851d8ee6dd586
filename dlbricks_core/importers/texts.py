"""Fragments of error messages of importers."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_NAMES = 8


def cut(names: Sequence[str]) -> str:
    """Names separated by commas; the first ones and the number of others if there are many.

    Examples:
        >>> cut([f"w{i}" for i in range(45)])
        'w0, w1, w2, w3, w4, w5, w6, w7 ... and 37 more'
    """
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" ... and {more} more" if more > 0 else "")

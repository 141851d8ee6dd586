"""Axes of the site's plots, in HTML, because thousands of plots must be written quickly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_STEPS = ((1,), (1, 2, 5))
"""Ticks within a decade; axes of many decades have few."""

_FINE = [step / 10 for step in range(10, 100)]
"""Candidate ticks where all values are close together; only every n-th is shown."""

_MOST_TICKS = 6


@dataclass(frozen=True)
class Mark:
    """A dot with its interval, in a row of its own.

    Attributes:
        label: Name of the row.
        value: The value; larger than 0.
        interval: The 90% interval.
        text: The value in words.
        origin: Origin of the value; each origin has its own shape.
    """

    label: str
    value: float
    interval: tuple[float, float]
    text: str
    origin: str


@dataclass(frozen=True)
class Axis:
    """Logarithmic axis over values that are larger than 0.

    Attributes:
        low: Value at the left end.
        high: Value at the right end.
        ticks: Values with a label.
    """

    low: float
    high: float
    ticks: Sequence[float]

    @classmethod
    def over(cls, marks: Sequence[Mark]) -> Self:
        """The axis that holds all values and intervals of at least one mark."""
        ends = [end for m in marks for end in (m.value, *m.interval) if end > 0]
        low, high = min(ends) * 0.92, max(ends) * 1.08
        return cls(low, high, _ticks(low, high))

    def at(self, value: float) -> float:
        """Place of a value, in percent of the width from the left."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return round(100 * min(share, 1.0), 2)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within the limits."""
    for steps in (*_STEPS, _FINE):
        within = _within(low, high, steps)
        if 2 <= len(within) <= _MOST_TICKS:
            return within
    return within[:: math.ceil(len(within) / _MOST_TICKS)] or [low, high]


def _within(low: float, high: float, steps: Sequence[float]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = (float(f"{step * 10.0**decade:.3g}") for decade in decades for step in steps)
    return [tick for tick in found if low <= tick <= high]

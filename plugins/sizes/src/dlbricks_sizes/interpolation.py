"""Means over whole numbers of something that is known at a few of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlbricks_core.figures.statistics import FloatArray


def spread_over(numbers: range, most: int) -> tuple[int, ...]:
    """Evenly spaced numbers of a range, including both ends.

    Args:
        numbers: Consecutive whole numbers, at least one.
        most: Most numbers to take, 2 or more.
    """
    places = np.linspace(0, len(numbers) - 1, min(most, len(numbers)))
    return tuple(dict.fromkeys(numbers[round(place)] for place in places))


def weights_at(numbers: range, known: Sequence[int]) -> FloatArray:
    """Weights with which values at a few numbers give the value at each of them.

    Values at other numbers are interpolated linearly between known values.

    Args:
        numbers: Consecutive whole numbers, at least one.
        known: Some of them, ascending, both ends among them: shape (n,).

    Returns:
        Array of shape (numbers, n) whose rows have the sum 1.
    """
    every = np.asarray(numbers, dtype=np.float64)
    return np.stack([np.interp(every, known, each) for each in np.eye(len(known))], axis=1)


def mean_weights(numbers: range, known: Sequence[int]) -> FloatArray:
    """Mean of :func:`weights_at` over all numbers: array of shape (n,) whose sum is 1."""
    return np.asarray(weights_at(numbers, known).mean(axis=0))

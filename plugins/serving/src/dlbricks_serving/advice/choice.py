"""Choices between alternatives of uncertain cost: which is first, and how probable that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray, IntArray

Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_JITTER = 1e-9
"""Number that is added to the diagonal of correlations, because rounding may make an eigenvalue
slightly negative.
"""


def first_shares(costs: FloatArray, admitted: Mask) -> FloatArray:
    """Probability of each alternative to have the least cost of those that are admitted.

    Alternatives of equal cost share a draw. A draw in which none is admitted belongs to none, so
    that the probabilities may sum to less than 1.

    Args:
        costs: Joint draws of the alternatives' costs: shape (alternatives, draws).
        admitted: Whether an alternative may be chosen in a draw: the same shape.

    Returns:
        Array of shape (alternatives,).
    """
    first = _least(costs, admitted)
    return np.asarray((first / np.maximum(first.sum(axis=0), 1)).mean(axis=1))


def on_front(costs: FloatArray, merits: FloatArray, admitted: Mask) -> Mask:
    """Whether an alternative is on the Pareto front: none of more merit costs as little.

    Of alternatives of equal merit those of least cost are on it.

    Args:
        costs: Joint draws of the alternatives' costs: shape (alternatives, draws).
        merits: Merit of each alternative: shape (alternatives,).
        admitted: Whether an alternative may be chosen in a draw: the shape of ``costs``.

    Returns:
        Array of the shape of ``costs``.
    """
    front = np.zeros(costs.shape, dtype=bool)
    better = np.full(costs.shape[1], np.inf)
    for merit in np.unique(merits)[::-1]:
        equal = np.flatnonzero(merits == merit)
        least = _least(costs[equal], admitted[equal])
        front[equal] = least & (costs[equal] < better)
        better = np.minimum(better, np.where(admitted[equal], costs[equal], np.inf).min(axis=0))
    return front


def coupled(
    draws: Sequence[FloatArray], correlation: FloatArray, seed: int = 0
) -> list[FloatArray]:
    """Draws of several predictions in an order in which their errors are correlated.

    The draws themselves do not change, and neither do errors that the rows of one prediction share.
    Their order is that of correlated normal variables (Iman and Conover, Communications in
    Statistics B11, 1982), by the errors that the rows of a prediction share.

    Args:
        draws: Positive draws of each prediction: shape (rows, draws).
        correlation: Correlation of the predictions' errors: shape (predictions, predictions).
        seed: Seed of the order.
    """
    orders = coupled_orders([np.log(each).mean(axis=0) for each in draws], correlation, seed)
    return [each[:, order] for each, order in zip(draws, orders, strict=True)]


def coupled_orders(
    levels: Sequence[FloatArray], correlation: FloatArray, seed: int = 0
) -> list[IntArray]:
    """Orders of the draws of several predictions in which their levels are correlated.

    Args:
        levels: Level of each draw of each prediction: shape (draws,).
        correlation: As for :func:`coupled`.
        seed: Seed of the order.
    """
    size = len(levels)
    factor = scipy.linalg.cholesky(correlation + _JITTER * np.eye(size), lower=True)
    count = len(levels[0]) if size else 0
    drivers = factor @ np.random.default_rng(seed).standard_normal((size, count))
    return [_order(level, driver) for level, driver in zip(levels, drivers, strict=True)]


def _order(level: FloatArray, driver: FloatArray) -> IntArray:
    """The order of draws in which their level rises where the driver does."""
    found = np.empty(len(level), dtype=np.int64)
    found[np.argsort(driver)] = np.argsort(level, kind="stable")
    return found


def _least(costs: FloatArray, admitted: Mask) -> Mask:
    """Which alternatives have the least cost of those that are admitted, in each draw."""
    counted = np.where(admitted, costs, np.inf)
    return np.asarray((counted == counted.min(axis=0)) & admitted)

"""Rounds of samples, and their shared replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from zlib import crc32

import numpy as np

from dlbricks_core.facts import Measurement
from dlbricks_core.figures.protocols import Statistic
from dlbricks_core.figures.statistics import RESAMPLES, FloatArray, Samples, faster_half

FEWEST_QUIET = 3
"""Undisturbed samples that suffice to leave disturbed ones out."""

Round = tuple[str, int]
"""A round: the identifier of its session, and its number."""


def undisturbed(measurement: Measurement) -> Measurement:
    """The measurement without disturbed samples, if enough others are left.

    A disturbance does not slow all networks down by the same factor. Disturbed samples of some
    networks cannot be compared with undisturbed samples of other networks.
    """
    quiet = tuple(taken for taken in measurement.observations if not taken.flags)
    enough = sum(len(taken.values) for taken in quiet) >= FEWEST_QUIET
    return replace(measurement, observations=quiet) if enough else measurement


def overhead_of(measurement: Measurement, statistic: Statistic) -> float:
    """Share of a value that the measurement itself causes; 0 if it was never measured.

    Args:
        measurement: Measurement with at least one sample.
        statistic: Statistic of the samples. Any other would subtract too much or too
            little when the machine's speed changes from round to round.
    """
    return float(statistic(measurement.overheads)) if measurement.overheads else 0.0


def rounds_of(measurement: Measurement) -> tuple[Round, ...]:
    """The round in which each value was taken."""
    return tuple(
        (each.session, each.round) for each in measurement.observations for _ in each.values
    )


def means_by_rounds(samples: Samples, rounds: Sequence[Round]) -> FloatArray:
    """Bootstrap replicates of ``faster_half`` in which drift is common to all networks.

    Each replicate gives every round a weight, drawn from an exponential distribution. It then
    takes the weighted mean of the fastest samples that together hold half of all weight (the
    Bayesian bootstrap: Rubin, The Annals of Statistics 9, 1981). A round has the same weight
    for every network that ran in it.

    The replicates of a mean of n samples vary by ``(n - 1) / (n + 1)`` of the variance of the mean
    itself. They are spread out to make up for that.

    Args:
        samples: Values of one network.
        rounds: The round in which each was taken.

    Returns:
        Array of shape (RESAMPLES,), in the unit of the samples.
    """
    values = np.asarray(samples, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    weights = np.array([_weights(*rounds[i]) for i in order])
    passed = np.cumsum(weights, axis=0)
    half = passed[-1] / 2
    counted = np.clip(half - (passed - weights), 0, weights)
    count, mean = len(values), float(faster_half(values))
    # Without BLAS, as in faster_half.
    means = mean + np.einsum("i,ij", values[order] - mean, counted) / half
    spread = math.sqrt((count + 1) / max(count - 1, 1))
    return np.asarray(mean + (means - mean) * spread)


@lru_cache(maxsize=4096)
def _weights(session: str, number: int) -> FloatArray:
    """Weight of a round in each replicate: always the same for the same round."""
    drawn = np.random.default_rng((crc32(session.encode()), number))
    return drawn.exponential(size=RESAMPLES)

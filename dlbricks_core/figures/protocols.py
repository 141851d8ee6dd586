"""Protocols: number and order of runs, and the statistic of the samples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal, get_args
from zlib import crc32

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Measurement
from dlbricks_core.figures.statistics import (
    RESAMPLES,
    FloatArray,
    Samples,
    faster_half,
    median,
    trimmed_mean,
)

Condition = Literal["hot", "cold"]
"""Condition of a latency. Hot: the whole model in a loop of its own, as its user runs it.
Cold: after other networks, with weights that come from memory."""

TIMEOUT_S = 120.0
"""Default maximum seconds to load a network, or to run it once."""

CONDITIONS: tuple[Condition, ...] = get_args(Condition)

Statistic = Callable[[Samples], FloatArray]
"""Function that reduces the last axis of an array of samples."""


@dataclass(frozen=True)
class Protocol:
    """One way to measure.

    Attributes:
        name: Name that users type.
        identity: Part of the identity of every measurement. It changes whenever a change of
            the protocol would give other samples.
        runs: Number of samples of each network, unless the user gives another; ``None`` for
            as many as make the figures precise.
        interleaved: Whether all networks run once a round, in turn (True), or one
            after the other, each in a loop of its own (False).
        warm_io: Whether the inputs are brought into the cache before each run.
        statistic: Statistic of a network's samples.
        statistic_name: Name of the statistic, for people to read.
    """

    name: str
    identity: str
    runs: int | None
    interleaved: bool
    warm_io: bool
    statistic: Statistic
    statistic_name: str


#: Protocols by their names; the first is the default.
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="interleaved",
            identity="interleaved/9",
            runs=None,
            interleaved=True,
            warm_io=True,
            statistic=faster_half,
            statistic_name="mean of the faster half",
        ),
        Protocol(
            name="paper",
            identity="paper/3",
            runs=100,
            interleaved=False,
            warm_io=False,
            statistic=trimmed_mean,
            statistic_name="20% trimmed mean",
        ),
    )
}


HOT = Protocol(
    name="hot",
    identity="hot/1",
    runs=None,
    interleaved=False,
    warm_io=False,
    statistic=median,
    statistic_name="median",
)
"""Whole models, each in a loop of its own, in a process with a user's settings, as in a plain
script. Bricks inside of them are known from the framework's profile."""


def protocol_named(name: str) -> Protocol:
    """The protocol of that name.

    Raises:
        DLBricksError: If there is none.
    """
    if name not in PROTOCOLS:
        raise DLBricksError(f"unknown protocol {name!r}", hint=f"Known: {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]


# Rounds of samples, and their shared replicates.

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


# Differences between hours: latencies on one machine differ from one quiet hour to another.
#
# Rounds of one session do not show them, and further rounds do not narrow them.


@dataclass(frozen=True)
class UsualHours:
    """Differences between two hours on machines like those of the reference data.

    Attributes:
        virtual: Standard deviation of the relative difference on a virtual machine, whose
            neighbours do not show.
        real: The same on real hardware.
        differences: Number of sessions' differences that count as much.
    """

    virtual: float
    real: float
    differences: int


@cache
def usual_hours() -> UsualHours:
    """The differences that were fitted."""
    return UsualHours(**fitted.values(__file__, "hours"))


def between_hours(
    measurements: Iterable[Measurement], statistic: Statistic, *, virtual: bool
) -> float:
    """Standard deviation of the relative difference of a latency from one hour to another.

    The usual difference is combined with the differences of networks that were timed in several
    sessions. Networks of one session differ together, so that the sessions are counted, and not the
    networks.

    Args:
        measurements: Measurements on the machine; networks of a single session are ignored.
        statistic: Statistic of the samples of a session.
        virtual: Whether the machine is a virtual one.
    """
    usual = usual_hours()
    squares, degrees, most = 0.0, 0, 0
    for each in measurements:
        logs = _by_session(each, statistic)
        squares += float(((logs - logs.mean()) ** 2).sum()) if len(logs) > 1 else 0.0
        degrees += max(len(logs) - 1, 0)
        most = max(most, len(logs) - 1)
    expected = (usual.virtual if virtual else usual.real) ** 2
    # Two hours differ from each other by twice the variance by which each differs from the mean.
    seen = 2 * squares / degrees if degrees else 0.0
    weights = usual.differences, most
    return math.sqrt((weights[0] * expected + weights[1] * seen) / sum(weights))


def _by_session(measurement: Measurement, statistic: Statistic) -> FloatArray:
    """Logarithm of the statistic of each session with enough samples that others left alone."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for each in measurement.observations:
        values[each.session] += () if each.flags else each.values
    found = [statistic(np.array(each)) for each in values.values() if len(each) >= FEWEST_QUIET]
    return np.asarray(np.log([float(each) for each in found if each > 0]))

"""Latencies with their uncertainty, from raw samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from zlib import crc32

import numpy as np

from dlbricks_core.measure.protocols import Protocol, Statistic
from dlbricks_core.measure.statistics import FloatArray, Samples, faster_half
from dlbricks_core.store import Measurement

RESAMPLES = 1000
"""Bootstrap replicates that an interval rests on."""

PERCENTILES = (5.0, 95.0)
"""Ends of the intervals that are reported."""

FEWEST_QUIET = 3
"""Samples that nothing disturbed, from which on no others count."""

Round = tuple[str, int]
"""Of a session: its identifier, and a number."""


@dataclass(frozen=True)
class Latency:
    """What the samples of one network say.

    Attributes:
        samples_ms: Raw latencies that count, in the order in which they were taken.
        protocol: How they were taken.
        call_ms: What the timer itself cost a call.
        rounds: The session and the round in it in which each sample was taken; if left
            out, they are the first rounds of one session.
    """

    samples_ms: tuple[float, ...]
    protocol: Protocol
    call_ms: float = 0.0
    rounds: tuple[Round, ...] = ()

    @classmethod
    def of(cls, measurement: Measurement, protocol: Protocol) -> Latency:
        """Latency of a measurement that has samples; :func:`counted` ones."""
        used = counted(measurement)
        call_ms = call_of(used, protocol.statistic)
        return cls(used.samples_ms, protocol, call_ms, rounds_of(used))

    @property
    def told_by(self) -> tuple[str, ...]:
        """Signatures of other networks that it was told by; none where it has samples."""
        return ()

    @cached_property
    def ms(self) -> float:
        """The number that stands for the samples, in milliseconds."""
        return float(self.protocol.statistic(np.asarray(self.samples_ms)))

    @cached_property
    def replicates(self) -> FloatArray:
        """The same number for ``RESAMPLES`` bootstrap samples.

        Those of interleaved rounds are made by :func:`means_by_rounds`. Samples of loops
        are drawn with replacement: rounds mean nothing there.
        """
        samples = np.asarray(self.samples_ms)
        count = len(samples)
        if self.protocol.interleaved:
            return means_by_rounds(samples, self.rounds or [("", i) for i in range(count)])
        chosen = np.random.default_rng(count).integers(0, count, (RESAMPLES, count))
        return self.protocol.statistic(samples[chosen])

    @property
    def plausible(self) -> FloatArray:
        """Replicates in which all that the latency may be off by is, not the scatter alone."""
        return self.replicates


@dataclass(frozen=True)
class Source:
    """A network that was timed, and tells about another that was not.

    Attributes:
        signature: Of the network.
        latency: What it takes.
        weight: What its cost, without the timer's own, counts for in the other's.
    """

    signature: str
    latency: Latency
    weight: float

    def cost(self, latencies_ms: FloatArray) -> FloatArray:
        """What latencies of the network are worth in the other's cost."""
        return np.maximum(latencies_ms - self.latency.call_ms, 0.0) * self.weight


@dataclass(frozen=True)
class Inferred(Latency):
    """What the latencies of other networks tell about one that was not timed.

    Attributes:
        sources: The networks that were. The sum of their weighted costs is this one's.
        error: Standard deviation of the logarithm of what that sum is off by.
        seed: The same wherever this network occurs.
    """

    sources: tuple[Source, ...] = ()
    error: float = 0.0
    seed: int = 0

    @classmethod
    def told(cls, signature: str, sources: Sequence[Source], error: float) -> Inferred:
        """Latency of ``signature`` from those of others, of which there is one at least."""
        protocol = sources[0].latency.protocol
        call_ms = max(source.latency.call_ms for source in sources)
        seed = crc32(signature.encode())
        return cls((), protocol, call_ms, (), tuple(sources), error, seed)

    @property
    def told_by(self) -> tuple[str, ...]:
        """Signatures of the networks that were timed."""
        return tuple(source.signature for source in self.sources)

    @cached_property
    def ms(self) -> float:
        """The number that samples would have, in milliseconds."""
        cost = sum(float(each.cost(np.array(each.latency.ms))) for each in self.sources)
        return self.call_ms + max(cost, 0.0)

    @cached_property
    def replicates(self) -> FloatArray:
        """Those of the other networks, with the weights as they are."""
        costs = sum((each.cost(each.latency.replicates) for each in self.sources), np.zeros(1))
        return np.asarray(self.call_ms + np.maximum(costs, 0.0))

    @cached_property
    def plausible(self) -> FloatArray:
        """The replicates, with what the sum may be off by."""
        off = np.exp(self.error * np.random.default_rng(self.seed).standard_normal(RESAMPLES))
        return np.asarray(self.call_ms + (self.replicates - self.call_ms) * off)


def counted(measurement: Measurement) -> Measurement:
    """The same without samples that something disturbed, where enough others are left.

    What disturbs networks does not slow them all down by the same factor: what was timed in
    part then and what was not cannot be compared.
    """
    quiet = tuple(taken for taken in measurement.samples if not taken.warnings)
    enough = sum(len(taken.samples_ms) for taken in quiet) >= FEWEST_QUIET
    return replace(measurement, samples=quiet) if enough else measurement


def call_of(measurement: Measurement, statistic: Statistic) -> float:
    """What the timer itself cost a call, by the number that stands for the samples too.

    Another number would take too much or too little off them wherever the machine's speed
    changes from round to round. 0 if it was never measured.
    """
    return float(statistic(measurement.calls_ms)) if measurement.calls_ms else 0.0


def rounds_of(measurement: Measurement) -> tuple[Round, ...]:
    """The round in which each sample was taken."""
    return tuple(
        (each.session, each.round) for each in measurement.samples for _ in each.samples_ms
    )


def means_by_rounds(samples: Samples, rounds: Sequence[Round]) -> FloatArray:
    """Bootstrap replicates of ``faster_half``, in which drift is common to many networks.

    Each replicate gives each round a weight, drawn from an exponential distribution, and
    takes the weighted mean of the samples that hold the faster half of all weight (the
    Bayesian bootstrap: Rubin, The Annals of Statistics 9, 1981). A round weighs the same for
    every network that ran in it, however many other rounds each of them ran in. Of n
    samples, replicates of a mean vary by ``(n - 1) / (n + 1)`` of what the mean itself
    does; they are pulled apart to make up for it.

    Args:
        samples: In milliseconds.
        rounds: In which each was taken.
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
    apart = math.sqrt((count + 1) / max(count - 1, 1))
    return np.asarray(mean + (means - mean) * apart)


@lru_cache(maxsize=4096)
def _weights(session: str, number: int) -> FloatArray:
    """What a round weighs in each replicate; always the same for the same round."""
    drawn = np.random.default_rng((crc32(session.encode()), number))
    return drawn.exponential(size=RESAMPLES)


def interval(replicates: Sequence[float] | FloatArray) -> tuple[float, float]:
    """90% interval: the percentiles 5 and 95 of bootstrap replicates."""
    low, high = np.percentile(np.asarray(replicates), PERCENTILES)
    return float(low), float(high)


def relative_half_width(ends: tuple[float, float] | None) -> float:
    """Half the width of an interval over its middle; 0 where there is none."""
    if ends is None or not sum(ends):
        return 0.0
    low, high = ends
    return (high - low) / (high + low)

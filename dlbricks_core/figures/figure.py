"""Figures: answers to questions, each with its uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal
from zlib import crc32

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.facts import Measurement
from dlbricks_core.figures.protocols import (
    Protocol,
    Round,
    means_by_rounds,
    overhead_of,
    rounds_of,
    undisturbed,
)
from dlbricks_core.figures.statistics import QUIET, Disturbance, FloatArray
from dlbricks_core.figures.statistics import RESAMPLES as RESAMPLES

PERCENTILES = (5.0, 95.0)
"""Ends of the intervals that are reported."""

MOST_SPAN = 50.0
"""Maximum ratio of the ends of an interval. Samples that scatter more measure nothing."""

_LEAST_RATIO = 1e-3
"""Least share of its value that a replicate counts as: logarithms need positive numbers."""

_SMALLEST = 1e-6
"""Least value, in the unit of the quantity, that replicates are compared with."""

Origin = Literal["measured", "stored", "profiled", "derived", "predicted"]
"""Origin of a figure: samples of this run, earlier samples in the store, profiles of running
models, figures of other networks, or a predictor."""


class Figure(ABC):
    """Answer to a question, in the unit of the question's quantity.

    Attributes:
        overhead: Share of the value that the measurement itself causes; for latency, the cost of
            a call of the timer.
        samples: Raw values that the figure rests on, in the order in which they were taken.
    """

    overhead: float
    samples: tuple[float, ...]

    @property
    @abstractmethod
    def origin(self) -> Origin:
        """Where the figure comes from. Stored samples read as measured: a figure knows no runs."""

    @property
    @abstractmethod
    def value(self) -> float:
        """Expected value of the figure."""

    @property
    @abstractmethod
    def replicates(self) -> FloatArray:
        """Values that other samples of the same kind would give: array of shape (RESAMPLES,).

        Replicates of figures that rest on the same rounds vary together.
        """

    @property
    def log_variance(self) -> float:
        """Variance of the logarithm of the value due to the scatter of the samples."""
        least = _LEAST_RATIO * max(self.value, _SMALLEST)
        return float(np.var(np.log(np.maximum(self.replicates, least))))

    @property
    def plausible(self) -> FloatArray:
        """Replicates that also vary by the figure's other errors."""
        return np.asarray(self.replicates * self.disturbance.factors)

    @property
    def disturbance(self) -> Disturbance:
        """Disturbance of the samples that the figure rests on."""
        return QUIET

    @property
    def teaches(self) -> bool:
        """Whether figures of other networks may rest on this one: not if it was disturbed."""
        return not self.disturbance.marked

    @property
    def interval(self) -> tuple[float, float]:
        """90% interval of the value, including the figure's other errors."""
        return interval(self.plausible, self.value)

    @property
    def scatter(self) -> tuple[float, float]:
        """90% interval of the value as far as the samples alone scatter."""
        return interval(self.replicates, self.value)

    @property
    def relative_scatter(self) -> float:
        """Half-width of :attr:`scatter`, relative to its middle."""
        return relative_half_width(self.scatter)

    @property
    def measures_nothing(self) -> bool:
        """Whether an interval is useless: samples scatter, or others used nearly all CPUs."""
        if self.origin not in ("measured", "profiled"):
            return False
        if self.disturbance.leaves_nothing:
            return True
        # In place, the same brick took 2 to 16 ms in models of one run: that is no scatter of runs.
        if self.origin == "profiled":
            return False
        low, high = self.scatter
        return high > MOST_SPAN * low

    @property
    def common_error(self) -> float:
        """Standard deviation of the relative error that the figures of one model share.

        Each model has its own such error. Neither replicates nor draws include it, because a figure
        may belong to many models.
        """
        return 0.0

    def spread_in(self, model_ms: float) -> float:
        """Factor of the spread of a model's draws, as far as they are this figure's.

        Args:
            model_ms: Latency of the model in milliseconds.
        """
        return 1.0

    @property
    def derived_from(self) -> tuple[str, ...]:
        """Signatures of the other networks that the figure follows from; usually none."""
        return ()

    def networks(self, signature: str) -> tuple[str, ...]:
        """Signatures of the networks whose samples the figure rests on.

        Args:
            signature: Signature of the network that the figure is of.
        """
        return self.derived_from or (signature,)

    @property
    def own(self) -> float:
        """The value without the share that the measurement itself causes."""
        return max(self.value - self.overhead, 0.0)


@dataclass(frozen=True)
class Measured(Figure):
    """Figure that rests on samples of the network itself.

    Attributes:
        samples: Raw values that count, in the order in which they were taken.
        protocol: Protocol by which they were taken.
        overhead: As in :class:`Figure`.
        rounds: The round of each sample; by default the first rounds of one session.
        disturbed: Disturbance of the samples.
        flags: Disturbances of the machine while they were taken.
    """

    samples: tuple[float, ...]
    protocol: Protocol
    overhead: float = 0.0
    rounds: tuple[Round, ...] = ()
    disturbed: Disturbance = QUIET
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, measurement: Measurement, protocol: Protocol) -> Measured:
        """Figure of a measurement that has samples; see :func:`undisturbed`."""
        used = undisturbed(measurement)
        overhead = overhead_of(used, protocol.statistic)
        disturbance = Disturbance.of(used)
        return cls(used.values, protocol, overhead, rounds_of(used), disturbance, used.flags)

    @property
    def disturbance(self) -> Disturbance:
        """Disturbance of the samples."""
        return self.disturbed

    @property
    def origin(self) -> Origin:
        """Samples."""
        return "measured"

    @cached_property
    def value(self) -> float:
        """The protocol's statistic of the samples."""
        return float(self.protocol.statistic(np.asarray(self.samples)))

    @cached_property
    def replicates(self) -> FloatArray:
        """Statistic of ``RESAMPLES`` bootstrap samples.

        Interleaved samples are resampled by round, see :func:`means_by_rounds`. Samples of loops
        are drawn with replacement, because loops have no rounds.
        """
        samples = np.asarray(self.samples)
        count = len(samples)
        if self.protocol.interleaved:
            return means_by_rounds(samples, self.rounds or [("", i) for i in range(count)])
        chosen = np.random.default_rng(count).integers(0, count, (RESAMPLES, count))
        return self.protocol.statistic(samples[chosen])


@dataclass(frozen=True)
class InPlaceErrors:
    """Errors of profiled bricks, relative to their latencies.

    Attributes:
        shared: Standard deviation of the error that profiled bricks of one model have in common.
        spread: Least standard deviation of a brick's latency from one model to another.
    """

    shared: float
    spread: float


@cache
def in_place_errors() -> InPlaceErrors:
    """The errors that were fitted."""
    return InPlaceErrors(**fitted.values(__file__, "in_place"))


@dataclass(frozen=True)
class InPlace(Figure):
    """Figure of a brick inside of running models, as the framework's profiler sees it.

    Attributes:
        samples: Latency in each model that was profiled, in milliseconds.
        seed: Seed of the replicates, the same wherever the brick occurs.
        overhead: Always 0: the call of the timer is no part of a profile.
        disturbed: Disturbance of the runs.
        levels: For each sample, how long other bricks of that run took, relative to their means
            over runs. Empty if all took as long as on average.
    """

    samples: tuple[float, ...]
    seed: int
    overhead: float = 0.0
    disturbed: Disturbance = QUIET
    levels: tuple[float, ...] = ()

    @property
    def disturbance(self) -> Disturbance:
        """Disturbance of the runs."""
        return self.disturbed

    @property
    def origin(self) -> Origin:
        """Profiles."""
        return "profiled"

    def networks(self, signature: str) -> tuple[str, ...]:
        """No networks: a profile of whole models holds no samples of a brick alone."""
        return ()

    @cached_property
    def value(self) -> float:
        """Mean over the models."""
        return float(np.mean(self.samples))

    @cached_property
    def replicates(self) -> FloatArray:
        """Latencies that further models would show, each brick independently of others.

        What all bricks of a run share, such as the speed that the machine had, is no spread of a
        brick: in a sum over many bricks it would average out, and it does not.
        """
        own = np.divide(self.samples, self.levels or 1.0)
        spread = float(np.std(own, ddof=1)) if len(own) > 1 else 0.0
        deviation = max(spread, in_place_errors().spread * self.value)
        normal = np.random.default_rng(self.seed).standard_normal(RESAMPLES)
        return np.asarray(np.maximum(self.value + deviation * normal, 0.0))

    @property
    def common_error(self) -> float:
        """Error that the bricks of one model share: their profile is scaled as a whole."""
        return in_place_errors().shared


@dataclass(frozen=True)
class Source:
    """A network whose figure gives the figure of another network.

    Attributes:
        signature: Signature of the network.
        figure: Figure of the network.
        weight: Factor of the figure's value, without the overhead, in the other network's value.
    """

    signature: str
    figure: Figure
    weight: float

    def share(self, values: FloatArray) -> FloatArray:
        """Parts of the other network's value that come from values of this network."""
        return np.maximum(values - self.figure.overhead, 0.0) * self.weight


@dataclass(frozen=True)
class Derived(Figure):
    """Figure that follows from that of another network.

    Attributes:
        source: The other network. Its share is this network's value.
        error: Standard deviation of the logarithm of that share's error.
        seed: Seed of the errors, the same wherever this network occurs.
        overhead: As in :class:`Figure`.
        samples: Always empty.
    """

    source: Source
    error: float
    seed: int
    overhead: float
    samples: tuple[float, ...] = ()

    @classmethod
    def of(cls, signature: str, source: Source, error: float) -> Derived:
        """Figure of the network ``signature`` from that of another."""
        return cls(source, error, crc32(signature.encode()), source.figure.overhead)

    @property
    def origin(self) -> Origin:
        """Figures of other networks."""
        return "derived"

    @property
    def disturbance(self) -> Disturbance:
        """Disturbance of the source."""
        return self.source.figure.disturbance

    @property
    def derived_from(self) -> tuple[str, ...]:
        """Signature of the source."""
        return (self.source.signature,)

    @cached_property
    def value(self) -> float:
        """The overhead and the source's share."""
        return self.overhead + float(self.source.share(np.array(self.source.figure.value)))

    @cached_property
    def replicates(self) -> FloatArray:
        """Replicates from those of the source, with a weight that does not vary."""
        return np.asarray(self.overhead + self.source.share(self.source.figure.replicates))

    @cached_property
    def plausible(self) -> FloatArray:
        """Replicates that also vary by the error of the share."""
        errors = np.random.default_rng(self.seed).standard_normal(RESAMPLES)
        factors = np.exp(self.error * errors)
        share = (self.replicates - self.overhead) * factors * self.disturbance.factors
        return np.asarray(self.overhead + share)


@dataclass(frozen=True)
class Combined(Figure):
    """Weighted sum of figures, such as a mean over several sizes of a model.

    Replicates are added one by one, so that effects that rounds share do not average out.

    Attributes:
        parts: Weights and figures; one or more.
        samples: Always empty.
    """

    parts: tuple[tuple[float, Figure], ...]
    samples: tuple[float, ...] = ()

    @property
    def overhead(self) -> float:  # type: ignore[override]
        """Sum over the parts."""
        return sum(weight * part.overhead for weight, part in self.parts)

    @property
    def origin(self) -> Origin:
        """Figures of other networks."""
        return "derived"

    @property
    def value(self) -> float:
        """Sum over the parts."""
        return sum(weight * part.value for weight, part in self.parts)

    @property
    def disturbance(self) -> Disturbance:
        """The worst of the parts."""
        return Disturbance.worst([part.disturbance for _, part in self.parts])

    @cached_property
    def replicates(self) -> FloatArray:
        """Sums over the parts' replicates."""
        return np.asarray(sum(weight * part.replicates for weight, part in self.parts))

    @cached_property
    def plausible(self) -> FloatArray:
        """Sums over the parts' plausible values."""
        return np.asarray(sum(weight * part.plausible for weight, part in self.parts))


def interval(
    replicates: Sequence[float] | FloatArray, value: float | None = None
) -> tuple[float, float]:
    """90% interval: the 5th and the 95th percentile of replicates.

    Args:
        replicates: The replicates.
        value: Value that the interval must hold. All replicates of a minimum of few samples may
            lie above it.
    """
    ordered = np.sort(np.asarray(replicates, dtype=np.float64))
    low, high = (_percentile(ordered, each) for each in PERCENTILES)
    return (low, high) if value is None else (min(low, value), max(high, value))


def _percentile(ordered: FloatArray, percent: float) -> float:
    """Percentile as NumPy interpolates it, which takes ten times as long for few numbers."""
    last = len(ordered) - 1
    place = percent / 100 * last
    share = place - int(place)
    low, high = ordered[int(place)], ordered[min(int(place) + 1, last)]
    return float(high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share)


def relative_half_width(ends: tuple[float, float] | None) -> float:
    """Half the width of an interval, divided by its middle; 0 if there is no interval."""
    if ends is None or not sum(ends):
        return 0.0
    low, high = ends
    return (high - low) / (high + low)


@dataclass(frozen=True)
class Cost:
    """A latency, or another quantity, to compare.

    Costs whose samples were taken in the same rounds have replicates of the same rounds, so that
    drift of the machine cancels in their ratio.

    Attributes:
        ms: The latency in milliseconds, or a value in the unit of another quantity.
        replicates: Its bootstrap replicates, in the same unit.
        disturbance: Disturbance of the samples.
    """

    ms: float
    replicates: FloatArray
    disturbance: Disturbance = QUIET

    @classmethod
    def whole(cls, latency: Figure) -> Cost:
        """Cost of a whole model: its measured latency."""
        return cls(latency.value, latency.replicates, latency.disturbance)

    @classmethod
    def total(cls, costs: Iterable[tuple[int, Cost]]) -> Cost:
        """Sum of costs, each times a number of occurrences."""
        ms, replicates, disturbances = 0.0, np.zeros(RESAMPLES), []
        for number, each in costs:
            ms += number * each.ms
            replicates = replicates + number * each.replicates
            disturbances.append(each.disturbance)
        return cls(ms, replicates, Disturbance.worst(disturbances))

    @property
    def interval_ms(self) -> tuple[float, float]:
        """90% interval of the latency, in milliseconds."""
        return interval(self.replicates * self.disturbance.factors, self.ms)

    @classmethod
    def brick(cls, latency: Figure) -> Cost:
        """Cost of a brick: the latency that it adds to a model, without the cost of a call."""
        net = np.maximum(latency.replicates - latency.overhead, 0.0)
        return cls(max(latency.value - latency.overhead, 0.0), net, latency.disturbance)

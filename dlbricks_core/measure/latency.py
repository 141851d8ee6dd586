"""Latencies with their uncertainty, from raw samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dlbricks_core.measure.protocols import Protocol
from dlbricks_core.measure.statistics import FloatArray
from dlbricks_core.store import Measurement

RESAMPLES = 1000
"""Bootstrap replicates that an interval rests on."""


@dataclass(frozen=True)
class Latency:
    """What the samples of one network say.

    Attributes:
        samples_ms: Raw latencies, in the order in which they were taken.
        protocol: How they were taken.
        call_ms: What the timer itself cost a call.
    """

    samples_ms: tuple[float, ...]
    protocol: Protocol
    call_ms: float = 0.0

    @classmethod
    def of(cls, measurement: Measurement, protocol: Protocol) -> Latency:
        """Latency of a measurement that has samples."""
        return cls(measurement.samples_ms, protocol, measurement.call_ms or 0.0)

    @cached_property
    def ms(self) -> float:
        """The number that stands for the samples, in milliseconds."""
        return float(self.protocol.statistic(np.asarray(self.samples_ms)))

    @cached_property
    def replicates(self) -> FloatArray:
        """The same number for ``RESAMPLES`` bootstrap samples.

        Latencies with equally many samples are resampled alike, round by round: drift
        of the machine that all of them saw in a round then stays common to them.
        """
        samples = np.asarray(self.samples_ms)
        count = len(samples)
        chosen = np.random.default_rng(count).integers(0, count, (RESAMPLES, count))
        return self.protocol.statistic(samples[chosen])


def interval(replicates: Sequence[float] | FloatArray) -> tuple[float, float]:
    """95% interval: the percentiles 2.5 and 97.5 of bootstrap replicates."""
    low, high = np.percentile(np.asarray(replicates), (2.5, 97.5))
    return float(low), float(high)

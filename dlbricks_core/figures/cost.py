"""Latencies, or other quantities, to compare: with replicates of the same rounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dlbricks_core.figures.figure import RESAMPLES, Figure, interval
from dlbricks_core.figures.statistics import QUIET, Disturbance, FloatArray


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

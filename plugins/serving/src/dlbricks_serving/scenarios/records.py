"""Records: load patterns, service times, and the figures of a load pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from dlbricks_core.figures.statistics import FloatArray

LOAD_S = 10.0
"""Default minimum seconds of a run of a scenario."""


class Scenario(StrEnum):
    """A load pattern of MLPerf Inference.

    A query has one sample or more; a sample is one inference of the model. Source: MLCommons,
    MLPerf Inference Rules, section "Scenarios".
    """

    OFFLINE = "offline"
    """All samples are available at the start. The figure is the throughput in samples/s."""

    SERVER = "server"
    """Queries of one sample arrive by a Poisson process. The figure is the highest rate of queries
    for which the 99th percentile of the latency stays within a bound.
    """

    SINGLE_STREAM = "single-stream"
    """A query of one sample arrives as soon as the previous query is done. The figure is the 90th
    percentile of the latency.
    """

    MULTI_STREAM = "multi-stream"
    """A query of eight samples arrives as soon as the previous query is done. The figure is the
    99th percentile of the latency of a query, which ends with its last sample.
    """


@dataclass(frozen=True)
class LoadPattern:
    """Properties of a scenario that MLPerf's rules fix."""

    samples: int = 1  #: Number of samples in a query.
    #: Percentile of the latency that counts, as a share; ``None`` where latency does not count.
    percentile: float | None = None
    unit: str = "queries"  #: Unit of the throughput: ``"samples"`` or ``"queries"``.
    #: Whether the figure is a latency, so that less is better. Otherwise it is the throughput.
    by_latency: bool = False
    needs_bound: bool = False  #: Whether the figure requires a bound on the latency.
    at_once: bool = False  #: Whether more than one query may be in the system at a time.


PATTERNS: Mapping[Scenario, LoadPattern] = {
    Scenario.OFFLINE: LoadPattern(unit="samples", at_once=True),
    Scenario.SERVER: LoadPattern(percentile=0.99, needs_bound=True, at_once=True),
    Scenario.SINGLE_STREAM: LoadPattern(percentile=0.90, by_latency=True),
    Scenario.MULTI_STREAM: LoadPattern(samples=8, percentile=0.99, by_latency=True),
}
"""The load pattern of each scenario."""

MINIMUM_DURATION_S = 600.0
"""Minimum duration of a run in seconds, by MLPerf's rules."""

OFFLINE_SAMPLES = 24_576
"""Minimum number of samples in a run of the offline scenario, by MLPerf's rules."""


@dataclass(frozen=True, eq=False)
class ServiceTimes:
    """Service times of an instance: the latencies of single samples, in milliseconds."""

    instances: int  #: Number of instances.
    #: Latencies of one inference while all other instances are busy: shape (k,).
    latency_ms: FloatArray
    #: Latencies by the number of busy instances, including the measured one: shapes (k,). For a
    #: number that is missing, the latencies with all instances busy hold.
    busy_of: Mapping[int, FloatArray] | None = None

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise ValueError(f"{self.instances} instances")
        for taken in (self.latency_ms, *(self.busy_of or {}).values()):
            if np.ndim(taken) != 1 or not len(taken) or not np.all(taken > 0):
                raise ValueError("at least one latency is needed, and all must be positive")

    def while_busy(self, instances: int) -> FloatArray:
        """Latencies in milliseconds while a number of instances, this one included, are busy."""
        return (self.busy_of or {}).get(instances, self.latency_ms)


Interval = tuple[float, float]
"""Lower and upper end of a 90% interval."""


@dataclass(frozen=True)
class ScenarioAnswer:
    """Latency and throughput of a number of instances in a scenario."""

    scenario: Scenario  #: The load pattern.
    instances: int  #: Number of instances.
    #: Samples or queries per second, in the unit of the load pattern. In the server scenario, the
    #: highest rate of arrivals under the bound; 0 if no rate keeps it.
    throughput: float
    #: Median latency of a query in milliseconds; in the offline scenario, of an inference.
    p50: float
    p90: float  #: 90th percentile of the latency in milliseconds.
    p99: float  #: 99th percentile of the latency in milliseconds.
    #: Estimate of the scenario's percentile by MLPerf's early-stopping rule, in milliseconds;
    #: ``None`` where the scenario has no percentile, or the run has too few queries.
    early_stopping_ms: float | None
    #: Whether the scenario's percentile is within the bound; ``None`` without a bound. False for a
    #: server that keeps the bound at no rate.
    holds: bool | None
    queries: int  #: Number of queries behind the latencies.
    #: 90% interval of the throughput; ``None`` if unknown.
    throughput_interval: Interval | None = field(default=None)
    #: 90% interval of the scenario's percentile in milliseconds. A scenario without a percentile
    #: uses the 99th.
    tail_interval: Interval | None = field(default=None)

    @property
    def pattern(self) -> LoadPattern:
        """The load pattern of the scenario."""
        return PATTERNS[self.scenario]

    def within(self, bound_ms: float | None) -> ScenarioAnswer:
        """A copy whose percentile is compared with a bound."""
        holds = None if bound_ms is None else self.tail_ms <= bound_ms and self.throughput > 0
        return replace(self, holds=holds)

    @property
    def tail_ms(self) -> float:
        """Latency at the scenario's percentile, in milliseconds; at the 99th if it has none."""
        return self.p90 if self.pattern.percentile == 0.90 else self.p99

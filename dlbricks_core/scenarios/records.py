"""Records: load patterns, how long instances serve, and what a load pattern shows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from dlbricks_core.figures.statistics import FloatArray


class Scenario(StrEnum):
    """A load pattern of MLPerf Inference.

    A query asks for one sample or more; a sample is one inference of the model. Source: MLCommons,
    MLPerf Inference Rules, section "Scenarios".
    """

    OFFLINE = "offline"
    """All samples are there at the start. The figure is the throughput in samples per second."""

    SERVER = "server"
    """Queries of one sample arrive by a Poisson process. The figure is the highest rate of queries
    at which the 99th percentile of the latency stays under a bound."""

    SINGLE_STREAM = "single-stream"
    """A query of one sample arrives whenever the one before is done. The figure is the 90th
    percentile of the latency."""

    MULTI_STREAM = "multi-stream"
    """A query of eight samples arrives whenever the one before is done. The figure is the 99th
    percentile of the latency of a query: its last sample counts."""


@dataclass(frozen=True)
class LoadPattern:
    """What MLPerf's rules fix about a scenario.

    Attributes:
        samples: Number of samples of a query.
        percentile: Share of the queries whose latency counts; ``None`` where latency does not.
        unit: What the throughput counts: ``"samples"`` or ``"queries"``.
        by_latency: Whether the figure is a latency, so that less is better; otherwise it is the
            throughput.
        needs_bound: Whether there is no figure without a bound on the latency.
        at_once: Whether more than one query may be in the system.
    """

    samples: int = 1
    percentile: float | None = None
    unit: str = "queries"
    by_latency: bool = False
    needs_bound: bool = False
    at_once: bool = False


PATTERNS: Mapping[Scenario, LoadPattern] = {
    Scenario.OFFLINE: LoadPattern(unit="samples", at_once=True),
    Scenario.SERVER: LoadPattern(percentile=0.99, needs_bound=True, at_once=True),
    Scenario.SINGLE_STREAM: LoadPattern(percentile=0.90, by_latency=True),
    Scenario.MULTI_STREAM: LoadPattern(samples=8, percentile=0.99, by_latency=True),
}
"""The load pattern of each scenario."""

MINIMUM_DURATION_S = 600.0
"""Seconds that a run takes at least by MLPerf's rules."""

OFFLINE_SAMPLES = 24_576
"""Samples that a run of the offline scenario has at least by MLPerf's rules."""


@dataclass(frozen=True, eq=False)
class ServiceTimes:
    """How long an instance serves a sample, in milliseconds.

    Attributes:
        instances: Number of instances.
        latency_ms: Latencies of one inference while all other instances are busy: shape (k,).
        busy_of: The same while so many instances are busy, the one itself among them, by that
            number; shapes (k,). What is missing in it is as with all instances busy.
    """

    instances: int
    latency_ms: FloatArray
    busy_of: Mapping[int, FloatArray] | None = None

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise ValueError(f"{self.instances} instances")
        for taken in (self.latency_ms, *(self.busy_of or {}).values()):
            if np.ndim(taken) != 1 or not len(taken) or not np.all(taken > 0):
                raise ValueError("latencies must be one or more, and positive")

    def while_busy(self, instances: int) -> FloatArray:
        """Latencies while a number of instances are busy, the one itself among them."""
        return (self.busy_of or {}).get(instances, self.latency_ms)


Interval = tuple[float, float]
"""Ends of a 90% interval."""


@dataclass(frozen=True)
class ScenarioAnswer:
    """What a number of instances show in a scenario.

    Attributes:
        scenario: The load pattern.
        instances: Number of instances.
        throughput: Samples or queries per second, as the pattern counts them. In the server
            scenario the highest rate of arrivals under the bound; 0 if there is none.
        p50: Median latency of a query in milliseconds; in the offline scenario, of an inference.
        p90: 90th percentile of the same.
        p99: 99th percentile of the same.
        early_stopping_ms: Estimate of the scenario's percentile by MLPerf's early-stopping rule,
            in milliseconds; ``None`` where the scenario has none, or queries are too few for it.
        holds: Whether the scenario's percentile is within the bound; ``None`` without a bound. Of
            a server that no rate is low enough for, it is not.
        queries: Number of queries that the latencies are of.
        throughput_interval: 90% interval of the throughput; ``None`` if it is not known.
        tail_interval: 90% interval of the scenario's percentile in milliseconds; the 99th where
            the scenario has none.
    """

    scenario: Scenario
    instances: int
    throughput: float
    p50: float
    p90: float
    p99: float
    early_stopping_ms: float | None
    holds: bool | None
    queries: int
    throughput_interval: Interval | None = field(default=None)
    tail_interval: Interval | None = field(default=None)

    @property
    def pattern(self) -> LoadPattern:
        """What the rules fix about the scenario."""
        return PATTERNS[self.scenario]

    @property
    def tail_ms(self) -> float:
        """The scenario's percentile of the latency in milliseconds; the 99th if it has none."""
        return self.p90 if self.pattern.percentile == 0.90 else self.p99

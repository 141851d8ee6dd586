"""Figures of models under load, each with equally likely values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np

from dlbricks_core.figures.figure import RESAMPLES, interval
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_serving.scenarios import (
    PATTERNS,
    Interval,
    Scenario,
    ScenarioAnswer,
    ServiceTimes,
    answer,
    answer_of,
    simulate,
)
from dlbricks_serving.serving.composed import Composed

_LEVELS, _QUERIES = 7, 5_000
"""Number of latencies from short to long for which a scenario is simulated, and queries of each
simulation. Figures of all draws are interpolated between them.
"""

_LEAST = 1e-3
"""Least factor by which service times may be off."""


@dataclass(frozen=True, eq=False)
class LoadFigures:
    """Figures of a scenario, each with equally likely values."""

    answer: ScenarioAnswer  #: The figures.
    rates: FloatArray  #: Equally likely throughputs: shape (RESAMPLES,).
    #: Equally likely percentiles of the latency in milliseconds: shape (RESAMPLES,).
    tails_ms: FloatArray

    @classmethod
    def measured(cls, shown: ScenarioAnswer, rng: np.random.Generator) -> LoadFigures:
        """Figures of a load that was measured, which scatter by their intervals."""
        rates = shown.throughput * _scatter(shown.throughput_interval, rng)
        return cls(shown, rates, shown.tail_ms * _scatter(shown.tail_interval, rng))

    @classmethod
    def composed(
        cls,
        composed: Composed,
        scenario: Scenario,
        bound_ms: float | None,
        rng: np.random.Generator,
        seed: int = 0,
    ) -> LoadFigures:
        """Figures from service times, which are all off by the error of the estimate behind them.

        Args:
            composed: The service times.
            scenario: The load pattern.
            bound_ms: Bound on the scenario's percentile in milliseconds; ``None`` for no bound.
            rng: Source of the errors.
            seed: Seed of arrivals and of the order of latencies.
        """
        service, estimate = composed.service, composed.beside or composed.alone
        assert service is not None
        assert estimate is not None
        assert estimate.draws is not None
        assert estimate.value is not None
        shown = answer(scenario, service, bound_ms, seed)
        composing = 1 + estimate.composing_error * rng.standard_normal(RESAMPLES)
        factors = np.maximum(estimate.draws / estimate.value * composing, _LEAST)
        levels = np.quantile(factors, np.linspace(0, 1, _LEVELS))
        base, *others = (
            _short(scenario, _slower(service, factor), bound_ms) for factor in (1.0, *levels)
        )
        rates = np.interp(factors, levels, [each.throughput for each in others])
        tails_ms = np.interp(factors, levels, [each.tail_ms for each in others])
        tails_ms *= shown.tail_ms / base.tail_ms
        if PATTERNS[scenario].needs_bound:  # the rate is one that keeps it, if any does
            tails_ms = np.where(rates > 0, np.minimum(tails_ms, bound_ms or np.inf), tails_ms)
        rates *= shown.throughput / base.throughput if base.throughput else 1.0
        return cls(shown, rates * _scatter(shown.throughput_interval, rng), tails_ms)

    @property
    def told(self) -> ScenarioAnswer:
        """The figures, with intervals that hold all errors."""
        return replace(
            self.answer,
            throughput_interval=interval(self.rates, self.answer.throughput),
            tail_interval=interval(self.tails_ms, self.answer.tail_ms),
        )


def _short(scenario: Scenario, service: ServiceTimes, bound_ms: float | None) -> ScenarioAnswer:
    """Figures of a short simulation, the same draws of arrivals and orders each time."""
    run = simulate(scenario, service, bound_ms, 0, _QUERIES)
    return answer_of(scenario, service.instances, run, bound_ms)


def _slower(service: ServiceTimes, factor: float) -> ServiceTimes:
    """Service times that are all longer by a factor."""
    busy = service.busy_of
    return ServiceTimes(
        service.instances,
        service.latency_ms * factor,
        None if busy is None else {number: taken * factor for number, taken in busy.items()},
    )


def _scatter(ends: Interval | None, rng: np.random.Generator) -> FloatArray:
    """Factors that scatter as an interval says: shape (RESAMPLES,)."""
    normal = rng.standard_normal(RESAMPLES)
    if ends is None or not ends[0] > 0:
        return np.ones(RESAMPLES)
    return np.asarray(np.exp(log(ends[1] / ends[0]) / (2 * NORMAL_HALF_WIDTH) * normal))

"""Latency and throughput of instances in a scenario, computed from their service times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dlbricks_core.figures.figure import interval
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_serving.scenarios.queueing import (
    completions,
    contended_completions,
    poisson_arrivals,
)
from dlbricks_serving.scenarios.records import (
    PATTERNS,
    Interval,
    Scenario,
    ScenarioAnswer,
    ServiceTimes,
)
from dlbricks_serving.scenarios.stopping import early_stopping_estimate, percentile

QUERIES = 20_000
"""Queries of a simulated run. The 99th percentile rests on 200 of them."""

_REPLICATES, _REPLICATE_QUERIES = 20, 2_000
"""Number of shorter runs that intervals rest on, and queries in each."""

_TOLERANCE = 0.002
"""Relative width at which the search for a rate stops."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run of a scenario."""

    #: Latency of each query in milliseconds, or of each inference in the offline scenario: shape
    #: (k,).
    latency_ms: FloatArray
    throughput: float  #: Samples or queries per second, as the scenario counts them.


def answer(
    scenario: Scenario, service: ServiceTimes, bound_ms: float | None, seed: int = 0
) -> ScenarioAnswer:
    """Latency and throughput of instances in a scenario, computed from their service times.

    The intervals cover the scatter of the given latencies, but no error that all of them share.

    Args:
        scenario: The load pattern.
        service: Service times of an instance.
        bound_ms: Bound on the scenario's percentile in milliseconds; ``None`` for no bound.
        seed: Seed of arrivals and of the order of latencies.

    Raises:
        ValueError: If the scenario needs a bound and there is none.
    """
    found = answer_of(
        scenario, service.instances, simulate(scenario, service, bound_ms, seed, QUERIES), bound_ms
    )
    rng = np.random.default_rng(seed)

    def shorter(times: ServiceTimes) -> ScenarioAnswer:
        # Every replicate has the same seed, so that differences come from the latencies alone.
        run = simulate(scenario, times, bound_ms, seed, _REPLICATE_QUERIES)
        return answer_of(scenario, service.instances, run, bound_ms)

    base = shorter(service)
    others = [shorter(_resampled(service, rng)) for _ in range(_REPLICATES)]

    def around(value: float, figure: Callable[[ScenarioAnswer], float]) -> Interval:
        scale = value / figure(base) if figure(base) else 1.0
        return interval([figure(each) * scale for each in others])

    return replace(
        found,
        throughput_interval=around(found.throughput, lambda each: each.throughput),
        tail_interval=around(found.tail_ms, lambda each: each.tail_ms),
    )


def answer_of(
    scenario: Scenario, instances: int, run: Run, bound_ms: float | None
) -> ScenarioAnswer:
    """Latency and throughput of a run, measured or simulated.

    Args:
        scenario: The load pattern.
        instances: Number of instances.
        run: The run; in the server scenario the one with the highest rate under the bound.
        bound_ms: Bound on the scenario's percentile in milliseconds; ``None`` for no bound.
    """
    share = PATTERNS[scenario].percentile
    found = ScenarioAnswer(
        scenario=scenario,
        instances=instances,
        throughput=run.throughput,
        p50=percentile(run.latency_ms, 0.50),
        p90=percentile(run.latency_ms, 0.90),
        p99=percentile(run.latency_ms, 0.99),
        early_stopping_ms=None if share is None else early_stopping_estimate(run.latency_ms, share),
        holds=None,
        queries=len(run.latency_ms),
    )
    return found.within(bound_ms)


def simulate(
    scenario: Scenario, service: ServiceTimes, bound_ms: float | None, seed: int, queries: int
) -> Run:
    """A simulated run of a scenario, with service times drawn from those of the instances.

    Args:
        scenario: The load pattern.
        service: Service times of an instance.
        bound_ms: Bound on the latency in milliseconds, which only the server scenario needs.
        seed: Seed of arrivals and of the order of latencies.
        queries: Number of queries.

    Raises:
        ValueError: If the scenario needs a bound and there is none.
    """
    return _RUNS[scenario](service, bound_ms, np.random.default_rng(seed), queries)


def served_at(service: ServiceTimes, qps: float, seed: int = 0, queries: int = QUERIES) -> Run:
    """A simulated run in which queries of one sample arrive by a Poisson process of a given rate.

    Args:
        service: Service times of an instance.
        qps: Mean number of queries that arrive per second.
        seed: Seed of arrivals and of the order of latencies.
        queries: Number of queries.
    """
    return _Server.of(service, np.random.default_rng(seed), queries).at(qps)


def most_qps_under(
    bound_ms: float, share: float, service: ServiceTimes, seed: int = 0, queries: int = QUERIES
) -> float:
    """Highest rate of a Poisson process at which a percentile of the latency is within a bound.

    Args:
        bound_ms: The bound in milliseconds.
        share: The percentile as a share, such as 0.99.
        service: Service times of an instance.
        seed: Seed of arrivals and of the order of latencies.
        queries: Number of queries of each run.

    Returns:
        Queries per second; 0 if no rate keeps the bound.
    """
    server = _Server.of(service, np.random.default_rng(seed), queries)
    return server.most_under(bound_ms, share).throughput


@dataclass(frozen=True, eq=False)
class _Server:
    """A server scenario whose random draws are fixed, so that only the rate of arrivals varies."""

    arrivals: FloatArray  #: Arrival times in seconds at one query per second: shape (k,).
    service_ms: FloatArray  #: Service time of each sample with 1 to n busy instances: shape (n, k).
    alike: bool  #: Whether service times are the same for any number of busy instances.

    @classmethod
    def of(cls, service: ServiceTimes, rng: np.random.Generator, queries: int) -> _Server:
        # Arrivals are drawn first, so that a load generator with this seed draws the same arrivals.
        arrivals = poisson_arrivals(queries, rng)
        return cls(arrivals, _drawn(service, rng, queries), service.busy_of is None)

    def at(self, qps: float) -> Run:
        """The run at a rate in queries per second."""
        arrivals_ms = self.arrivals * (1e3 / qps)
        done_ms = (
            completions(arrivals_ms, self.service_ms[0], len(self.service_ms))
            if self.alike
            else contended_completions(arrivals_ms, self.service_ms)
        )
        return Run(done_ms - arrivals_ms, qps)

    def most_under(self, bound_ms: float, share: float) -> Run:
        """The run at the highest rate under the bound; an idle system's if no rate keeps it."""
        if percentile(self.service_ms[0], share) > bound_ms:
            return Run(self.service_ms[0], 0.0)
        # Beyond this rate the queue grows without end, even if a run of finitely many queries keeps
        # the bound.
        high = 1e3 * len(self.service_ms) / float(np.mean(self.service_ms[-1]))
        low, best = 0.0, Run(self.service_ms[0], 0.0)
        while high - low > _TOLERANCE * high:
            run = self.at((low + high) / 2)
            if percentile(run.latency_ms, share) <= bound_ms:
                low, best = run.throughput, run
            else:
                high = run.throughput
        return best


def _drawn(service: ServiceTimes, rng: np.random.Generator, samples: int) -> FloatArray:
    """Drawn service times in milliseconds with 1 to n busy instances: shape (n, samples).

    A sample that is slow compared with others when all instances are busy is also slow when fewer
    are.
    """
    ranks = rng.random(samples)
    return np.stack(
        [
            np.quantile(service.while_busy(busy), ranks, method="inverted_cdf")
            for busy in range(1, service.instances + 1)
        ]
    )


def _resampled(service: ServiceTimes, rng: np.random.Generator) -> ServiceTimes:
    """Service times that a repeated measurement might have given, by resampling."""

    def again(taken: FloatArray) -> FloatArray:
        return rng.choice(taken, len(taken))

    busy = service.busy_of
    return ServiceTimes(
        service.instances,
        again(service.latency_ms),
        None if busy is None else {k: again(taken) for k, taken in busy.items()},
    )


def _offline(
    service: ServiceTimes, _bound_ms: float | None, rng: np.random.Generator, queries: int
) -> Run:
    latency_ms = _drawn(service, rng, queries)[-1]
    return Run(latency_ms, 1e3 * service.instances / float(np.mean(latency_ms)))


def _server(
    service: ServiceTimes, bound_ms: float | None, rng: np.random.Generator, queries: int
) -> Run:
    if bound_ms is None:
        raise ValueError("the server scenario needs a bound on the latency")
    return _Server.of(service, rng, queries).most_under(bound_ms, 0.99)


def _single_stream(
    service: ServiceTimes, _bound_ms: float | None, rng: np.random.Generator, queries: int
) -> Run:
    latency_ms = _drawn(service, rng, queries)[0]
    return Run(latency_ms, 1e3 / float(np.mean(latency_ms)))


def _multi_stream(
    service: ServiceTimes, _bound_ms: float | None, rng: np.random.Generator, queries: int
) -> Run:
    samples = PATTERNS[Scenario.MULTI_STREAM].samples
    queries = max(1, queries // samples)  # as many samples as elsewhere
    drawn = _drawn(service, rng, queries * samples).reshape(service.instances, queries, samples)
    at_once = np.zeros(samples)
    latency_ms = np.array(
        [contended_completions(at_once, drawn[:, i]).max() for i in range(queries)]
    )
    return Run(latency_ms, 1e3 / float(np.mean(latency_ms)))


_RUNS: Mapping[Scenario, Callable[[ServiceTimes, float | None, np.random.Generator, int], Run]] = {
    Scenario.OFFLINE: _offline,
    Scenario.SERVER: _server,
    Scenario.SINGLE_STREAM: _single_stream,
    Scenario.MULTI_STREAM: _multi_stream,
}

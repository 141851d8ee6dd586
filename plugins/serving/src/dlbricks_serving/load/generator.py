"""The load generator: fills a line with samples, and derives latencies from their service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from time import perf_counter, perf_counter_ns, process_time

import numpy as np

from dlbricks_core.errors import BackendError
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.wording import argument
from dlbricks_serving.load.instance import ServingWorker
from dlbricks_serving.load.line import (
    Nanoseconds,
    Rules,
    ServedSamples,
    ServiceLine,
    opened_line,
)
from dlbricks_serving.scenarios import PATTERNS, Run, Scenario, poisson_arrivals

_KEY = "model"
_LEAD_NS = 250_000_000
"""Nanoseconds between announcing a line to instances and its start, so that each is ready."""


@dataclass(frozen=True, eq=False)
class LoadRun:
    """A run of a scenario, in real time."""

    run: Run  #: Latencies and throughput. Latency counts from the arrival of a query.
    service_ms: FloatArray  #: Duration of each inference in milliseconds: shape (k,).
    #: Dispatch time of each sample in milliseconds: shape (k,). It begins once the sample has
    #: arrived and its instance is free, and ends when the inference begins. It holds the overhead
    #: of the generator and the time in which a framework drops results.
    dispatch_ms: FloatArray
    generator_share: float  #: Mean number of cores that the generator's process kept busy.
    #: Whether all samples were served. Otherwise the run was aborted, because too many samples were
    #: late.
    complete: bool


class LoadGenerator:
    """Puts instances of a model under load.

    Args:
        workers: The instances. The caller closes them.
    """

    def __init__(self, workers: Sequence[ServingWorker]) -> None:
        self._workers = workers

    def load(self, model: CanonicalModel) -> float:
        """Loads the model in all instances and returns its warm latency in milliseconds.

        Raises:
            DLBricksError: If an instance cannot load it.
        """
        return max([worker.load(_KEY, model) for worker in self._workers])

    def offline(self, seconds: float) -> LoadRun:
        """Runs the offline scenario for some seconds: all samples are available at once.

        The throughput is the sum of the instances' rates. So it holds for many samples, where the
        wait for the last sample makes no difference.
        """
        served = self._served(Rules(seconds=seconds), self._workers)
        rates = [
            len(each.numbers) / (each.end_ns[-1] - each.ready_ns[0])
            for each in served.each
            if len(each.numbers)
        ]
        return served.run(served.end_ns - served.begin_ns, 1e9 * float(sum(rates)), served.ready_ns)

    def stream(self, scenario: Scenario, seconds: float) -> LoadRun:
        """Runs one query after another for some seconds, without a pause in between.

        Args:
            scenario: The single-stream or the multi-stream scenario.
            seconds: Seconds after which no query begins.

        Raises:
            BackendError: If no query was completed in that time.
        """
        samples = PATTERNS[scenario].samples
        # A query has too few samples for more instances.
        workers = self._workers[:samples]
        served = self._served(Rules(seconds=seconds, samples=samples), workers)
        whole = len(served.numbers) // samples * samples  # the last query may be incomplete
        if not whole:
            raise _nothing_completed()
        ends = served.end_ns[:whole].reshape(-1, samples).max(axis=1)
        arrivals = np.concatenate([served.ready_ns[:1], ends])
        per_s = 1e9 * len(ends) / float(ends[-1] - arrivals[0])
        of_sample = np.repeat(arrivals, samples)[: len(served.numbers)]
        return served.run(np.diff(arrivals), per_s, of_sample)

    def server(
        self, qps: float, queries: int, bound_ms: float, rng: np.random.Generator
    ) -> LoadRun:
        """Runs the server scenario: queries of one sample arrive by a Poisson process.

        The run is aborted once too many queries are late for the 99th percentile to stay within the
        bound.

        Args:
            qps: Mean number of queries that arrive per second.
            queries: Number of queries.
            bound_ms: Bound on the latency in milliseconds.
            rng: Generator that draws the arrivals.
        """
        share = PATTERNS[Scenario.SERVER].percentile
        assert share is not None
        arrivals_ns = (poisson_arrivals(queries, rng) / qps * 1e9).astype(np.int64)
        rules = Rules(
            arrivals_ns=arrivals_ns,
            bound_ns=int(bound_ms * 1e6),
            most_late=queries - 1 - int(queries * share),
        )
        served = self._served(rules, self._workers, queries)
        arrived_ns = arrivals_ns[served.numbers] + served.line.begin_ns
        found = served.run(served.end_ns - arrived_ns, qps, arrived_ns)
        return replace(found, complete=len(served.numbers) == queries)

    def _served(
        self, rules: Rules, workers: Sequence[ServingWorker], samples: int | None = None
    ) -> _Served:
        """Serves a line with all instances at the same time."""
        with opened_line(len(workers), samples) as (folder, held):
            if samples is not None and held < samples:
                raise BackendError(f"a line holds {held} queries, but {samples} are needed")
            line = ServiceLine(folder, perf_counter_ns() + _LEAD_NS, rules)
            last_s = 0.0 if rules.arrivals_ns is None else rules.arrivals_ns[-1] / 1e9
            seconds = _LEAD_NS / 1e9 + (last_s if rules.seconds is None else rules.seconds)
            begin_s, cpu_s = perf_counter(), process_time()
            with ThreadPoolExecutor(len(workers)) as pool:
                each = _together(
                    [pool.submit(w.serve, _KEY, line, seconds) for w in workers], workers
                )
            share = (process_time() - cpu_s) / (perf_counter() - begin_s)
        return _Served(line, each, share)


def _nothing_completed() -> BackendError:
    return BackendError(
        "no query was completed in the time of the load",
        hint=f"Choose a longer {argument('duration_s')}, or fewer {argument('instances')}.",
    )


def _together(
    serving: Sequence[Future[ServedSamples]], workers: Sequence[ServingWorker]
) -> list[ServedSamples]:
    """Samples that each instance served. If one instance fails, all do."""
    try:
        wait(serving, return_when=FIRST_EXCEPTION)
        for each in serving:
            if each.done():
                each.result()
        return [each.result() for each in serving]
    except BaseException:
        for worker in workers:  # the others would wait for the samples of the failed instance
            worker.stop()
        raise


class _Served:
    """Times of all served samples, in their order.

    Args:
        line: The line.
        each: Samples that each instance served.
        generator_share: Mean number of cores that this process kept busy.

    Raises:
        BackendError: If no instance has served anything.
    """

    def __init__(
        self, line: ServiceLine, each: Sequence[ServedSamples], generator_share: float
    ) -> None:
        self.line, self.each, self._generator_share = line, each, generator_share
        self.numbers = np.concatenate([one.numbers for one in each])
        if not self.numbers.size:
            raise _nothing_completed()
        order = np.argsort(self.numbers)

        def joined(times: Callable[[ServedSamples], Nanoseconds]) -> Nanoseconds:
            return np.concatenate([times(one) for one in each])[order]

        self.numbers = self.numbers[order]
        self.ready_ns = joined(lambda one: one.ready_ns)
        self.begin_ns = joined(lambda one: one.begin_ns)
        self.end_ns = joined(lambda one: one.end_ns)

    def run(self, latency_ns: Nanoseconds, throughput: float, arrived_ns: Nanoseconds) -> LoadRun:
        """The run, given the latencies of its queries.

        Args:
            latency_ns: Latency of each query in nanoseconds.
            throughput: Samples or queries per second.
            arrived_ns: Arrival time of each sample in nanoseconds.
        """
        return LoadRun(
            Run(latency_ns / 1e6, throughput),
            (self.end_ns - self.begin_ns) / 1e6,
            (self.begin_ns - np.maximum(self.ready_ns, arrived_ns)) / 1e6,
            self._generator_share,
            complete=True,
        )

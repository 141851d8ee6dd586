"""Latency and throughput of instances of whole models in a scenario, measured in real time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from uuid import uuid4

import numpy as np

from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.errors import BackendError, DLBricksError, StoreError
from dlbricks_core.facts import (
    SCENARIO_LATENCY,
    SCENARIO_THROUGHPUT,
    Measurement,
    Note,
    Observation,
    Quantity,
    Question,
    Subject,
)
from dlbricks_core.facts import Session as SessionRecord
from dlbricks_core.figures.statistics import QUIET, Disturbance, FloatArray, disturbance_notes
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import LoadSampler, LoadWatch, MachineLoad
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.measuring import settle
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.session import reason_of
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.worker import memory_to_use
from dlbricks_serving.core_sets import core_sets
from dlbricks_serving.load import LoadGenerator, LoadRun, ServingWorker
from dlbricks_serving.scenarios import (
    PATTERNS,
    Interval,
    Run,
    Scenario,
    ScenarioAnswer,
    ServiceTimes,
    answer_of,
    most_qps_under,
    percentile,
    percentile_interval,
)

_WARM_SHARE, _MOST_WARM_S = 0.2, 2.0
"""Duration of the warm-up before each measured load: a share of the run, and maximum seconds.
"""

_FEWEST_QUERIES = 300
"""Minimum number of queries in a run of the server scenario. At the 99th percentile, two of them
may be late.
"""

_MOST_QUERIES = 100_000
"""Maximum number of queries in a run of the server scenario, which a line can hold."""

_STEP, _RESOLUTION, _MOST_TRIALS = 0.10, 0.025, 7
"""Search for the highest rate: initial relative step, relative width at which it ends, and maximum
number of runs.
"""

_LOAD = r"{}:instances=(\d+),([0-9.e+-]+)s(?:,bound=([0-9.e+-]+)ms)?"
"""Pattern of what a load adds to a protocol: instances, seconds and bound of a scenario."""

_BLOCKS = 10
"""Number of consecutive parts of a run whose means show the uncertainty of the throughput."""


@dataclass(frozen=True)
class Trial:
    """One run of the server scenario at a rate."""

    qps: float  #: Queries that arrived per second, on average.
    holds: bool  #: Whether the 99th percentile was within the bound.
    queries: int  #: Number of served queries; fewer than planned if the run was aborted.


@dataclass(frozen=True)
class Overhead:
    """Overhead of the load generator in latencies, and load of its process."""

    #: Median dispatch time in microseconds: from when a sample has arrived and an instance is free
    #: until the inference begins.
    median_us: float
    p99_us: float  #: 99th percentile of the dispatch time in microseconds.
    cores: float  #: Mean number of cores that the generator's process kept busy.


@dataclass(frozen=True, eq=False)
class Loaded:
    """Measured latency and throughput of one whole model in a scenario."""

    model: CanonicalModel  #: The model in canonical form.
    answer: ScenarioAnswer | None = None  #: The figures; ``None`` if an instance failed.
    #: Latency of each query behind the answer, in milliseconds: shape (k,).
    latency_ms: FloatArray = field(default_factory=lambda: np.empty(0))
    stored: bool = False  #: Whether the answer comes from the store.
    overhead: Overhead | None = None  #: Overhead of the generator; ``None`` for a stored answer.
    #: Runs of the search for a rate, in order; empty for other scenarios.
    trials: Sequence[Trial] = ()
    warnings: tuple[Note, ...] = ()  #: Disturbances of the machine during the run.
    reason: str = ""  #: Why there is no answer; empty if there is one.

    def within(self, bound_ms: float | None) -> Loaded:
        """A copy whose percentile is compared with a bound."""
        return self if self.answer is None else replace(self, answer=self.answer.within(bound_ms))


@dataclass(frozen=True)
class Load:
    """A load to put on instances."""

    scenario: Scenario  #: The load pattern.
    #: Bound on the scenario's percentile in milliseconds; ``None`` for no bound.
    bound_ms: float | None
    seconds: float  #: Minimum seconds of a run.


def measured(
    models: Sequence[CanonicalModel],
    request: Request,
    load: Load,
    instances: int,
    store: ResultStore,
    observer: Observer,
) -> list[Loaded]:
    """Measures instances of each whole model in a scenario, in real time.

    Stored measurements of the same load are not repeated, unless the request forces it.

    Args:
        models: Models in canonical form.
        request: How networks run; each instance has its number of threads.
        load: The load.
        instances: Number of instances.
        store: Store of the latencies.
        observer: Receives the progress.

    Returns:
        Figures for each model. A model that fails does not stop the others.

    Raises:
        DLBricksError: If there are too few cores.
    """
    core_sets(instances, request.settings.threads)  # refuses too many
    return [_Loading(model, request, load, instances, store, observer).found() for model in models]


def stored_loads(
    model: CanonicalModel,
    request: Request,
    scenario: Scenario,
    bound_ms: float | None,
    store: ResultStore,
) -> dict[int, Loaded]:
    """Stored figures of a whole model in a scenario, by number of instances. Runs nothing.

    Of several runs with one number of instances, the longest counts.

    Args:
        model: The model in canonical form.
        request: How the model ran, and on which system; each instance had its threads.
        scenario: The load pattern.
        bound_ms: Bound on the scenario's percentile in milliseconds. The rate of a server depends
            on it; in other scenarios, runs under any bound count.
        store: Store of the measurements.
    """
    found = {}
    asked = None if bound_ms is None else float(f"{bound_ms:g}")  # as protocols have it
    for seconds, instances, bound in sorted(_stored(request, scenario, store), key=itemgetter(0)):
        if scenario is Scenario.SERVER and bound != asked:
            continue
        load = Load(scenario, bound, seconds)
        loading = _Loading(model, request, load, instances, store, Observer())
        if (known := loading.known()) is not None:
            found[instances] = known.within(bound_ms)
    return found


def _stored(
    request: Request, scenario: Scenario, store: ResultStore
) -> Iterator[tuple[float, int, float | None]]:
    """Seconds, number of instances and bound of each load in the store."""
    told = re.compile(rf"{re.escape(request.setup.protocol)};{_LOAD.format(scenario)}")
    for setup, system in store.setups(request.setup.backend):
        alike = replace(setup, protocol=request.setup.protocol) == request.setup
        match = told.fullmatch(setup.protocol)
        if match and alike and system == request.fingerprint:
            instances, seconds, bound = match.groups()
            yield float(seconds), int(instances), float(bound) if bound else None


@dataclass(frozen=True)
class _Loading:
    """Puts one model under load."""

    model: CanonicalModel  #: The model in canonical form.
    request: Request  #: How the model runs.
    load: Load  #: The load.
    instances: int  #: Number of instances.
    store: ResultStore  #: Store of the latencies.
    observer: Observer  #: Receives the progress.

    def found(self) -> Loaded:
        """Figures of the model's instances, measured now or from the store."""
        try:
            known = None if self.request.force else self.known()
            return known or self._measured()
        except StoreError:  # the model is not to blame
            raise
        except DLBricksError as error:
            return Loaded(self.model, reason=reason_of(error))

    @cached_property
    def _whole(self) -> Brick:
        """The model without the values in its file.

        Instances compute with drawn values, as bricks do. The time of some operators depends on
        them: PyTorch pools equal numbers three times as fast as unequal ones.
        """
        (cut,) = BrickSet.of([self.model]).models
        return cut.whole

    def _key(self, quantity: Quantity) -> Question:
        load = self.load
        bound = "" if load.bound_ms is None else f",bound={load.bound_ms:g}ms"
        setup = self.request.setup
        own = f"{load.scenario}:instances={self.instances},{load.seconds:g}s{bound}"
        return Question(
            Subject(self._whole.signature, "model"),
            quantity,
            replace(setup, protocol=f"{setup.protocol};{own}"),
            self.request.fingerprint,
        )

    def known(self) -> Loaded | None:
        """Figures of the model's instances from the store; ``None`` if it holds none."""
        keys = [self._key(quantity) for quantity in (SCENARIO_LATENCY, SCENARIO_THROUGHPUT)]
        found = self.store.get(keys)
        if not all(key in found and found[key].values for key in keys):
            return None
        latencies, throughput = (np.array(found[key].values) for key in keys)
        disturbance = Disturbance.of(found[keys[0]])
        run = Run(latencies, float(throughput[0]))
        return self._told(run, stored=True, disturbance=disturbance)

    def _measured(self) -> Loaded:
        name = f"{self.model.name}, {self.instances} x {self.request.settings.threads}"
        self.observer.stage(f"Loading {name}")
        with self._generator() as generator:
            generator.load(self._whole.model)
            self.observer.stage(f"Running {self.load.scenario} of {name}")
            generator.offline(min(_WARM_SHARE * self.load.seconds, _MOST_WARM_S))
            sampler, watch = LoadSampler(), LoadWatch()
            settle(watch, self.request, self.observer)
            record = SessionRecord(
                uuid4().hex, current_host(), self.request.fingerprint, __version__
            )
            trials: list[Trial] = []
            if self.load.scenario is Scenario.OFFLINE:
                found = generator.offline(self.load.seconds)
            elif self.load.scenario is Scenario.SERVER:
                found, trials = self._search(generator)
            else:
                found = generator.stream(self.load.scenario, self.load.seconds)
            lately = watch.lately()
        kept = self._keep(found, lately, replace(record, load=sampler.load().share))
        told = self._told(found.run, trials, disturbance=Disturbance.of(kept))
        return replace(told, overhead=_overhead(found), warnings=(*lately.warnings, *told.warnings))

    @contextmanager
    def _generator(self) -> Iterator[LoadGenerator]:
        request = self.request
        memory = memory_to_use() // self.instances
        settings = WorkerSettings(request.settings, request.seed, request.timeout_s, memory)
        with ExitStack() as opened:
            yield LoadGenerator(
                [
                    opened.enter_context(
                        ServingWorker(request.plugin.target, request.backend, settings, cpus)
                    )
                    for cpus in core_sets(self.instances, request.settings.threads)
                ]
            )

    def _search(self, generator: LoadGenerator) -> tuple[LoadRun, list[Trial]]:
        """The run at the highest rate that keeps the bound, and all runs of the search.

        The search begins at the rate that a queueing model gives for service times under full load.
        The rate rises while runs keep the bound, or falls while they exceed it, and bisection
        follows. The rate never exceeds the throughput under full load: a run may end before an
        overloaded line exceeds the bound.
        """
        bound_ms = self.load.bound_ms
        if bound_ms is None:
            raise BackendError("the server scenario needs a bound on the latency")
        rng = np.random.default_rng(self.request.seed)
        full = generator.offline(self.load.seconds / 2)
        alone = generator.stream(Scenario.SINGLE_STREAM, self.load.seconds / 4)
        if percentile(alone.run.latency_ms, 0.50) > bound_ms:  # no rate keeps the bound
            return replace(alone, run=Run(alone.run.latency_ms, 0.0)), []
        count = self.instances
        # The generator's overhead keeps instances busy, too.
        full_ms, alone_ms = (each.service_ms + each.dispatch_ms for each in (full, alone))
        service = ServiceTimes(count, full_ms, {1: alone_ms} if count > 1 else None)
        low, high = 0.0, full.run.throughput
        qps = most_qps_under(bound_ms, 0.99, service, self.request.seed, queries=5_000)
        qps = min(qps or 0.1 * high, high)
        best: LoadRun | None = None
        trials: list[Trial] = []
        while len(trials) < _MOST_TRIALS and low < (1 - _RESOLUTION) * high:
            queries = int(np.clip(qps * self.load.seconds, _FEWEST_QUERIES, _MOST_QUERIES))
            tried = generator.server(qps, queries, bound_ms, rng)
            holds = tried.complete and percentile(tried.run.latency_ms, 0.99) <= bound_ms
            trials.append(Trial(qps, holds, len(tried.run.latency_ms)))
            if holds:
                low, best = qps, tried
            else:
                high = qps
            middle = (low + high) / 2
            if not low:
                qps *= 1 - _STEP * len(trials)
            elif all(each.holds for each in trials):
                qps = min(qps * (1 + _STEP), middle)
            else:
                qps = middle
        if best is None:
            return replace(alone, run=Run(alone.run.latency_ms, 0.0)), trials
        return best, trials

    def _told(
        self,
        run: Run,
        trials: Sequence[Trial] = (),
        *,
        stored: bool = False,
        disturbance: Disturbance = QUIET,
    ) -> Loaded:
        """Figures of a run, with intervals that allow for what disturbed it."""
        load = self.load
        answer = answer_of(load.scenario, self.instances, run, load.bound_ms)
        share = PATTERNS[load.scenario].percentile or 0.99
        answer = replace(
            answer,
            throughput_interval=_allowing(
                _throughput_interval(run, trials, load.scenario),
                answer.throughput,
                highest=disturbance.slowdown,
            ),
            tail_interval=_allowing(
                percentile_interval(run.latency_ms, share),
                answer.tail_ms,
                lowest=1 / disturbance.slowdown,
            ),
        )
        notes = disturbance_notes(disturbance, stored=stored)
        return Loaded(self.model, answer, run.latency_ms, stored, trials=trials, warnings=notes)

    def _keep(self, found: LoadRun, beside: MachineLoad, session: SessionRecord) -> Measurement:
        """Stores all latencies and the throughput, in place of earlier measurements of the load.

        Returns:
            The latencies.
        """
        self.store.remember_system(session.system, self.request.system.to_dict())
        self.store.keep_session(session)
        operators = [layer.qualified_op for layer in self.model.layers]
        latency, throughput = self._key(SCENARIO_LATENCY), self._key(SCENARIO_THROUGHPUT)
        taken, rate = (
            Observation(session.id, 0, values, flags=beside.flags, load=beside.share)
            for values in (tuple(map(float, found.run.latency_ms)), (found.run.throughput,))
        )
        self.store.add_all(
            [(latency, taken, operators), (throughput, rate, operators)],
            instead_of=[latency, throughput],
        )
        return Measurement(latency, tuple(operators), (taken,))


def _overhead(found: LoadRun) -> Overhead:
    median, p99 = np.percentile(found.dispatch_ms * 1e3, (50, 99))
    return Overhead(float(median), float(p99), found.generator_share)


def _allowing(
    ends: Interval | None, value: float, lowest: float = 1.0, highest: float = 1.0
) -> Interval | None:
    """An interval that reaches further, for a figure of a machine that was disturbed."""
    if lowest == highest:
        return ends
    low, high = ends or (value, value)
    return low * lowest, high * highest


def _throughput_interval(run: Run, trials: Sequence[Trial], scenario: Scenario) -> Interval | None:
    """90% interval of a throughput; in the server scenario, the rates that the search lies between.

    In other scenarios it rests on the means of parts of the run, so that slow and fast phases of
    the machine count.
    """
    if scenario is Scenario.SERVER:
        failed = [each.qps for each in trials if not each.holds and each.qps > run.throughput]
        return (run.throughput, min(failed)) if failed else None
    if len(run.latency_ms) < 2 * _BLOCKS:
        return None
    means = np.array([each.mean() for each in np.array_split(run.latency_ms, _BLOCKS)])
    spread = 1.83 * means.std(ddof=1) / np.sqrt(_BLOCKS) / means.mean()  # Student's t
    return run.throughput / (1 + spread), run.throughput * (1 + spread)

"""Throughput and tail latency of instances of models, known or measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dlbricks_core.commands.options.jobs import (
    MeasuredJob,
    TimedJob,
    for_backend,
    opened,
    requests_of_each,
)
from dlbricks_core.commands.options.systems import at_system
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.without_runs import predictor_named
from dlbricks_core.measure.known_setups import known_setups
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_serving.serving.comparing import ComparedLoads, compare_under_load
from dlbricks_serving.serving.estimated import estimate_scenario
from dlbricks_serving.serving.run import LoadRequest, UnderLoad, run_scenario

_ONLY_MEASURED = ("end_to_end", "force", "duration_s")
"""Settings that have no effect where nothing runs."""


@dataclass(frozen=True, kw_only=True)
class _LoadJob(MeasuredJob):
    """Models under a load. The time to measure bricks is fixed."""

    scenario: str  #: Name of the scenario.
    instances: Sequence[int] | None = None  #: Numbers of instances; ``None`` for those that fit.
    #: Numbers of threads of each instance; ``None`` as for the instances.
    threads: Sequence[int] | None = None
    #: Bound on the scenario's percentile of the latency in milliseconds.
    max_latency_ms: float | None = None
    #: Minimum seconds of a load of whole models; ``None`` for the default.
    duration_s: float | None = None
    end_to_end: bool = False  #: Whether to put whole models under load, too.

    def load(self, cores: int | None = None) -> LoadRequest:
        """The load, on so many cores; ``None`` for those of this system."""
        return LoadRequest.of(
            self.scenario,
            instances=self.instances,
            threads=self.threads,
            bound_ms=self.max_latency_ms,
            seconds=self.duration_s,
            end_to_end=self.end_to_end,
            cores=cores,
        )


@dataclass(frozen=True, kw_only=True)
class ServeJob(_LoadJob, TimedJob):
    """Models under a load. Nothing runs unless ``measure`` is given."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> UnderLoad:
        """Figures of the models under load."""
        job = for_backend(self)
        models, cut_options = job.models.or_default(), job.cut_options
        if self.measure:
            self.refuse_known("system", "predictor")
            load = self.load()
            request = job.request(threads=load.placements[-1].threads)
            with opened(store) as there:
                loaded = models.load(observer)
                result = run_scenario(loaded.models, load, request, there, observer, cut_options)
            return replace(result, unread=loaded.failures)
        self.refuse_measuring(*_ONLY_MEASURED)
        with opened(store, writes=False) as every:
            target, there = at_system(every, self.system)
            setups = partial(known_setups, there, self.backend)
            request = job.request(threads=None, system=target, known=setups)
            load = self.load(request.target.available_cores)
            predictor = predictor_named(self.predictor, request)
            loaded = models.load(observer)
            result = estimate_scenario(loaded.models, load, request, there, predictor, cut_options)
        return replace(result, unread=loaded.failures)


@dataclass(frozen=True, kw_only=True)
class ServeCompareJob(_LoadJob):
    """Models under the same load on several backends."""

    backends: Sequence[str]  #: Names of the backends.
    #: Values of options that backends declare, by backend and name.
    backend_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def run(self, store: str | ResultStore | None, observer: Observer) -> ComparedLoads:
        """Compares the backends."""
        models = self.models.or_default()
        load = self.load()
        threads = load.placements[-1].threads
        requests = requests_of_each(self, threads=threads)
        cut_options = CutOptions.chosen(self.granularity, self.split, None)
        with opened(store) as there:
            loaded = models.load(observer)
            result = compare_under_load(loaded.models, load, requests, there, observer, cut_options)
        return replace(result, unread=loaded.failures)

"""Runs a scenario for models with n instances x m threads, and finds the best n x m."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dlbricks_core.backends import BackendSettings
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure, Note
from dlbricks_core.facts.observation import Stage
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, settings
from dlbricks_serving.scenarios import (
    LOAD_S,
    PATTERNS,
    Scenario,
    ScenarioAnswer,
    ServiceTimes,
    answer_of,
    served_at,
)
from dlbricks_serving.serving.composed import Composed, service_times
from dlbricks_serving.serving.figures import LoadFigures
from dlbricks_serving.serving.measured import Load, Loaded, measured

_FEW = 4
"""Number of cores up to which every number of instances and threads is tried."""


@dataclass(frozen=True, order=True)
class Placement:
    """Placement of instances on cores; each thread has a core of its own."""

    instances: int  #: Number of instances.
    threads: int  #: Number of threads of each instance.

    def __str__(self) -> str:
        return f"{self.instances} x {self.threads}"


@dataclass(frozen=True)
class LoadRequest:
    """A request for models under load."""

    scenario: Scenario  #: The load pattern.
    placements: Sequence[Placement]  #: All combinations of n x m.
    #: Bound on the scenario's percentile in milliseconds; ``None`` for no bound.
    bound_ms: float | None = None
    seconds: float = LOAD_S  #: Minimum seconds of a run.
    end_to_end: bool = False  #: Whether whole models are put under load as well, for comparison.

    @classmethod
    def of(
        cls,
        scenario: str,
        *,
        instances: Sequence[int] | None = None,
        threads: Sequence[int] | None = None,
        bound_ms: float | None = None,
        seconds: float | None = None,
        end_to_end: bool = False,
        cores: int | None = None,
    ) -> LoadRequest:
        """A user's request, with defaults for all values that were left open.

        Args:
            scenario: Name of the scenario.
            instances: Numbers of instances. ``None`` stands for all numbers that have enough cores;
                with more than four cores, for powers of two and the number of cores. A scenario
                that serves one query at a time keeps at most as many instances busy as a query has
                samples, so ``None`` is limited to these.
            threads: Numbers of threads of each instance; ``None`` as for the instances.
            bound_ms: Bound on the scenario's percentile in milliseconds.
            seconds: Minimum seconds of a run of whole models; ``None`` for the default.
            end_to_end: Whether whole models are put under load as well.
            cores: Number of cores of the system; ``None`` for this one.

        Raises:
            DLBricksError: If there are too few cores for one of the numbers, the scenario needs
                a bound, or seconds are given for runs that are not requested.
        """
        if seconds is not None and not end_to_end:
            raise DLBricksError(
                f"{argument('duration_s')} needs {argument('end_to_end')}",
                hint="It is for loads of whole models; the time for bricks is not limited.",
            )
        chosen = Scenario(scenario)
        pattern = PATTERNS[chosen]
        if pattern.needs_bound and bound_ms is None:
            raise DLBricksError(
                f"the {chosen} scenario needs a bound on the latency",
                hint=f"Give one in milliseconds, such as {settings(max_latency_ms=50)}.",
            )
        cores = cores or physical_cores_available()
        most = cores if pattern.at_once else min(cores, pattern.samples)
        numbers = numbers_to(most) if instances is None else instances
        sizes = numbers_to(cores) if threads is None else threads
        for given, least in ((instances, min(sizes)), (threads, min(numbers))):
            if given is not None and max(given) * least > cores:
                raise DLBricksError(
                    f"{max(given)} x {least} cores are more than the {cores} that are usable",
                    hint=f"Choose smaller {argument('instances')} or {argument('threads')}.",
                )
        placements = [Placement(n, m) for n in numbers for m in sizes if n * m <= cores]
        return cls(chosen, sorted(set(placements)), bound_ms, seconds or LOAD_S, end_to_end)


@dataclass(frozen=True)
class Row:
    """Figures of a model for one n x m."""

    placement: Placement  #: Instances and threads.
    #: Figures composed from bricks, or predicted; ``None`` if there are none.
    composed: ScenarioAnswer | None = None
    #: Figures of the whole model; ``None`` if it was not put under load.
    measured: Loaded | None = None
    #: Figures composed for the measured load: in the server scenario, at the measured rate;
    #: otherwise the same as ``composed``.
    composed_at: ScenarioAnswer | None = None
    #: Reasons of failures by their source, ``"bricks"`` or ``"end to end"``.
    failures: Mapping[str, str] = field(default_factory=dict)
    disturbances: Sequence[Note] = ()  #: Disturbances of the machine while bricks were timed.
    #: Whether the composed figures are predicted, because no bricks ran side by side.
    predicted: bool = False

    @property
    def warnings(self) -> Sequence[Note]:
        """Disturbances of the machine, while bricks were timed and under the load."""
        return (*self.disturbances, *(self.measured.warnings if self.measured else ()))

    @property
    def answer(self) -> ScenarioAnswer | None:
        """The measured figures, or else the composed ones."""
        loaded = self.measured and self.measured.answer
        return loaded or self.composed

    @property
    def throughput_error(self) -> float | None:
        """Relative error of the composed throughput; ``None`` where a figure is missing."""
        return _error(self.composed, self.measured, lambda each: each.throughput)

    @property
    def tail_error(self) -> float | None:
        """Relative error of the composed percentile, at the measured load."""
        return _error(self.composed_at, self.measured, lambda each: each.tail_ms)


@dataclass(frozen=True)
class ModelUnderLoad:
    """Figures of a model for every n x m."""

    model: CanonicalModel  #: The model in canonical form.
    rows: Sequence[Row]  #: Figures for each n x m, in ascending order.

    @property
    def best(self) -> Row | None:
        """The n x m with the best figure among those that keep the bound; ``None`` if none does.

        Among equally good ones, the fewest cores win.
        """
        able = [
            each for each in self.rows if each.answer is not None and each.answer.holds is not False
        ]
        return min(able, key=rank, default=None)

    @property
    def breaks_bound(self) -> bool:
        """Whether figures are known, and none of them keeps the bound."""
        return self.best is None and any(each.answer is not None for each in self.rows)


@dataclass(frozen=True)
class UnderLoad:
    """Figures of models in a scenario."""

    request: Request  #: How networks run, except for the number of threads.
    asked: LoadRequest  #: The request for the load.
    models: Sequence[ModelUnderLoad]  #: Figures of each model.
    cut_options: CutOptions = field(default_factory=CutOptions)  #: How models are cut and composed.
    predictor: str | None = None  #: Predictor of figures that the store lacks; ``None`` for none.
    unread: Sequence[Failure] = ()  #: Models that could not be loaded.
    notes: Sequence[Note] = ()  #: Basis of the predictions, and reasons to doubt them.
    stage: Stage = "measure"  #: Stage at which a model fails.

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed, each model keeps the bound, and no figure is doubtful."""
        broken = any(each.breaks_bound for each in self.models)
        return not (self.failures or self.is_doubtful or broken)

    @property
    def is_doubtful(self) -> bool:
        """Whether other programs disturbed figures, and the user did not accept that."""
        rows = (row for each in self.models for row in each.rows)
        doubtful = any(each.severity == "doubtful" for row in rows for each in row.warnings)
        return doubtful and not self.request.accepts_busy

    @property
    def failures(self) -> list[Failure]:
        """All failures."""
        name = self.request.backend.name
        failed = [
            Failure(each.model.name, reason, self.stage, f"{row.placement}, {part}", name)
            for each in self.models
            for row in each.rows
            for part, reason in row.failures.items()
        ]
        return [*self.unread, *failed]


def run_scenario(
    models: Sequence[CanonicalModel],
    asked: LoadRequest,
    request: Request,
    store: ResultStore,
    observer: Observer,
    cut_options: CutOptions | None = None,
) -> UnderLoad:
    """Figures of models in a scenario, composed from bricks and measured.

    Args:
        models: Models in canonical form.
        asked: The request for the load.
        request: How networks run. Its number of threads is ignored.
        store: Store of the measurements.
        observer: Receives the progress.
        cut_options: How to cut and compose; ``None`` for the most accurate way.
    """
    load = Load(asked.scenario, asked.bound_ms, asked.seconds)
    cut_options = cut_options or CutOptions.chosen(None, None, None)
    rows: list[list[Row]] = [[] for _ in models]
    for placement in asked.placements:
        own = with_threads(request, placement.threads)
        composed = service_times(
            models, own, placement.instances, placement.threads, store, observer, cut_options
        )
        taken: Sequence[Loaded | None] = [None] * len(models)
        if asked.end_to_end:
            taken = measured(models, own, load, placement.instances, store, observer)
        for found, each, loaded in zip(rows, composed, taken, strict=True):
            found.append(row(placement, asked, each, loaded, request.seed))
    every = [ModelUnderLoad(*each) for each in zip(models, rows, strict=True)]
    return UnderLoad(request, asked, every, cut_options)


def with_threads(request: Request, threads: int) -> Request:
    """A copy of the request for another number of threads."""
    return replace(
        request,
        settings=BackendSettings(threads, request.settings.options),
        setup=replace(request.setup, threads=threads),
    )


def row(
    placement: Placement, asked: LoadRequest, composed: Composed, loaded: Loaded | None, seed: int
) -> Row:
    """Figures of a model for one n x m.

    Args:
        placement: Instances and threads.
        asked: The request for the load.
        composed: Service times, composed or predicted.
        loaded: Figures of the whole model, if it was put under load.
        seed: Seed of arrivals and of the order of latencies.
    """
    failures = {}
    if loaded is not None and loaded.reason:
        failures["end to end"] = loaded.reason
    if composed.service is None:
        failures["bricks"] = composed.reason
        return Row(placement, measured=loaded, failures=failures)
    rng = np.random.default_rng(seed)
    found = LoadFigures.composed(composed, asked.scenario, asked.bound_ms, rng, seed).told
    at = _at(composed.service, found, loaded, seed)
    return Row(placement, found, loaded, at, failures, composed.warnings, composed.predicted)


def _at(
    service: ServiceTimes, found: ScenarioAnswer, loaded: Loaded | None, seed: int
) -> ScenarioAnswer | None:
    """Figures composed for the measured load; ``None`` where none was measured."""
    shown = loaded and loaded.answer
    if found.scenario is not Scenario.SERVER or not shown:
        return found
    if not shown.throughput:
        return None
    run = served_at(service, shown.throughput, seed)
    return answer_of(found.scenario, found.instances, run, None)


def numbers_to(most: int) -> list[int]:
    """Numbers of cores to try: all up to a few, otherwise powers of two and the maximum."""
    if most <= _FEW:
        return [*range(1, most + 1)]
    return sorted({*(2**i for i in range(most.bit_length())), most})


def rank(row: Row) -> tuple[float, int]:
    """Sort key of a row that has figures: the best figure has the smallest."""
    found = row.answer
    assert found is not None
    figure = found.tail_ms if found.pattern.by_latency else -found.throughput
    return figure, row.placement.instances * row.placement.threads


def _error(
    composed: ScenarioAnswer | None,
    loaded: Loaded | None,
    figure: Callable[[ScenarioAnswer], float],
) -> float | None:
    shown = loaded and loaded.answer
    if composed is None or not shown or not figure(shown):
        return None
    return figure(composed) / figure(shown) - 1

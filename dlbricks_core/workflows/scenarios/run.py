"""What n instances x m threads of models show in a scenario, and which n x m is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.scenarios import (
    PATTERNS,
    Scenario,
    ScenarioAnswer,
    ServiceTimes,
    answer,
    answer_of,
    served_at,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, settings
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.scenarios.composed import Composed, service_times
from dlbricks_core.workflows.scenarios.measured import Load, Loaded, measured

SECONDS = 10.0
"""Seconds that a run of a scenario takes at least, unless the user says otherwise."""


_FEW = 4
"""Number of cores up to which every number of instances and threads is tried."""


@dataclass(frozen=True, order=True)
class Placement:
    """Instances, and threads of each, with a core of its own for each thread.

    Attributes:
        instances: Number of instances.
        threads: Number of threads of each.
    """

    instances: int
    threads: int

    def __str__(self) -> str:
        return f"{self.instances} x {self.threads}"


@dataclass(frozen=True)
class Asked:
    """What is asked of models under load.

    Attributes:
        scenario: The load pattern.
        placements: Every n x m.
        bound_ms: Bound on the scenario's percentile in milliseconds; ``None`` for none.
        seconds: Seconds that a run takes at least.
        end_to_end: Whether whole models are put under load as well, to compare.
    """

    scenario: Scenario
    placements: Sequence[Placement]
    bound_ms: float | None = None
    seconds: float = SECONDS
    end_to_end: bool = False

    @classmethod
    def of(
        cls,
        scenario: str,
        *,
        instances: Sequence[int] | None = None,
        threads: Sequence[int] | None = None,
        bound_ms: float | None = None,
        seconds: float = SECONDS,
        end_to_end: bool = False,
    ) -> Asked:
        """What a user means, with everything that was left open filled in.

        Args:
            scenario: Name of the scenario.
            instances: Numbers of instances; ``None`` for all for which there are cores, on more
                than four cores for powers of two and all cores. A scenario in which one query is
                served at a time keeps no more instances busy than a query has samples: then
                ``None`` is no more than these.
            threads: Numbers of threads of each; ``None`` as for the instances.
            bound_ms: Bound on the scenario's percentile in milliseconds.
            seconds: Seconds that a run takes at least.
            end_to_end: Whether whole models are put under load as well.

        Raises:
            DLBricksError: If there are too few cores for one of the numbers, or the scenario needs
                a bound.
        """
        chosen = Scenario(scenario)
        pattern = PATTERNS[chosen]
        if pattern.needs_bound and bound_ms is None:
            raise DLBricksError(
                f"the {chosen} scenario needs a bound on the latency",
                hint=f"Give one in milliseconds, such as {settings(latency_bound_ms=50)}.",
            )
        cores = physical_cores_available()
        most = cores if pattern.at_once else min(cores, pattern.samples)
        numbers = _numbers_to(most) if instances is None else instances
        sizes = _numbers_to(cores) if threads is None else threads
        for given, least in ((instances, min(sizes)), (threads, min(numbers))):
            if given is not None and max(given) * least > cores:
                raise DLBricksError(
                    f"{max(given)} x {least} cores are more than the {cores} that are usable",
                    hint=f"Choose smaller {argument('instances')} or {argument('threads')}.",
                )
        placements = [Placement(n, m) for n in numbers for m in sizes if n * m <= cores]
        return cls(chosen, sorted(set(placements)), bound_ms, seconds, end_to_end)


@dataclass(frozen=True)
class Row:
    """What one n x m shows of a model.

    Attributes:
        placement: Instances and threads.
        composed: What its bricks tell; ``None`` if they do not.
        measured: What the whole model showed; ``None`` if it was not put under load.
        composed_at: What its bricks tell of the load that was measured: in the server scenario, at
            the measured rate; otherwise the same as ``composed``.
        failures: What failed, by what was tried: ``"bricks"`` or ``"end to end"``.
    """

    placement: Placement
    composed: ScenarioAnswer | None = None
    measured: Loaded | None = None
    composed_at: ScenarioAnswer | None = None
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> ScenarioAnswer | None:
        """What was measured, or else what was composed."""
        loaded = self.measured and self.measured.answer
        return loaded or self.composed

    @property
    def throughput_error(self) -> float | None:
        """Relative error of the composed throughput; ``None`` where one of both is missing."""
        return _error(self.composed, self.measured, lambda each: each.throughput)

    @property
    def tail_error(self) -> float | None:
        """Relative error of the composed percentile, at the load that was measured."""
        return _error(self.composed_at, self.measured, lambda each: each.tail_ms)


@dataclass(frozen=True)
class ModelUnderLoad:
    """What every n x m shows of a model.

    Attributes:
        model: The model in canonical form.
        rows: One for each n x m, in ascending order.
    """

    model: CanonicalModel
    rows: Sequence[Row]

    @property
    def best(self) -> Row | None:
        """The n x m with the best figure of those that keep the bound; ``None`` if none does.

        Of equally good ones it is the one with the fewest cores.
        """
        able = [
            each for each in self.rows if each.answer is not None and each.answer.holds is not False
        ]
        return min(able, key=_cost, default=None)


@dataclass(frozen=True)
class UnderLoad:
    """What models show in a scenario.

    Attributes:
        request: How networks run, but for the number of threads.
        asked: What was asked.
        models: One for each model.
        unread: Models that could not be loaded.
    """

    request: Request
    asked: Asked
    models: Sequence[ModelUnderLoad]
    unread: Sequence[Failure] = ()

    @property
    def failures(self) -> list[Failure]:
        """Everything that has no result."""
        name = self.request.backend.name
        failed = [
            Failure(each.model.name, reason, "measure", f"{row.placement}, {part}", name)
            for each in self.models
            for row in each.rows
            for part, reason in row.failures.items()
        ]
        return [*self.unread, *failed]


def run_scenario(
    models: Sequence[CanonicalModel],
    asked: Asked,
    request: Request,
    store: ResultStore,
    observer: Observer,
    cut_options: CutOptions | None = None,
) -> UnderLoad:
    """What instances of models show in a scenario, composed from bricks and measured.

    Args:
        models: Models in canonical form.
        asked: What is asked of them.
        request: How networks run, with whatever number of threads.
        store: Where measurements are kept.
        observer: Hears of progress.
        cut_options: How to cut and compose; ``None`` for what estimates best.
    """
    load = Load(asked.scenario, asked.bound_ms, asked.seconds)
    rows: list[list[Row]] = [[] for _ in models]
    for placement in asked.placements:
        own = _with_threads(request, placement.threads)
        composed = service_times(
            models, own, placement.instances, placement.threads, store, observer, cut_options
        )
        taken: Sequence[Loaded | None] = [None] * len(models)
        if asked.end_to_end:
            taken = measured(models, own, load, placement.instances, store, observer)
        for found, each, loaded in zip(rows, composed, taken, strict=True):
            found.append(_row(placement, asked, each, loaded, request.seed))
    return UnderLoad(
        request, asked, [ModelUnderLoad(*each) for each in zip(models, rows, strict=True)]
    )


def _with_threads(request: Request, threads: int) -> Request:
    return replace(
        request,
        settings=BackendSettings(threads, request.settings.options),
        setup=replace(request.setup, threads=threads),
    )


def _row(
    placement: Placement, asked: Asked, composed: Composed, loaded: Loaded | None, seed: int
) -> Row:
    failures = {}
    if loaded is not None and loaded.reason:
        failures["end to end"] = loaded.reason
    if composed.service is None:
        failures["bricks"] = composed.reason
        return Row(placement, measured=loaded, failures=failures)
    found = answer(asked.scenario, composed.service, asked.bound_ms, seed)
    return Row(placement, found, loaded, _at(composed.service, found, loaded, seed), failures)


def _at(
    service: ServiceTimes, found: ScenarioAnswer, loaded: Loaded | None, seed: int
) -> ScenarioAnswer | None:
    """What bricks tell of the load that was measured; ``None`` where there was none."""
    shown = loaded and loaded.answer
    if found.scenario is not Scenario.SERVER or not shown:
        return found
    if not shown.throughput:
        return None
    run = served_at(service, shown.throughput, seed)
    return answer_of(found.scenario, found.instances, run, None)


def _numbers_to(most: int) -> list[int]:
    """Numbers of cores that are worth a try: all of a few, or powers of two and the most."""
    if most <= _FEW:
        return [*range(1, most + 1)]
    return sorted({*(2**i for i in range(most.bit_length())), most})


def _cost(row: Row) -> tuple[float, int]:
    """What is to be as small as possible."""
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

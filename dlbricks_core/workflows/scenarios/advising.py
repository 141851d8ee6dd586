"""Alternatives under load: models in a place with numbers of instances, from stored figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log
from zlib import crc32

import numpy as np

from dlbricks_core.facts import Failure
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.scenarios import (
    PATTERNS,
    Interval,
    Scenario,
    ScenarioAnswer,
    ServiceTimes,
    answer,
    answer_of,
    simulate,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import settings
from dlbricks_core.workflows.advice import Alternative, Wanted
from dlbricks_core.workflows.jobs import Basis, Job
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.places import Place
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.requirements import THROUGHPUT, Known, Requirement
from dlbricks_core.workflows.scenarios.composed import Composed, stored_service_times
from dlbricks_core.workflows.scenarios.measured import stored_loads

_LEVELS, _QUERIES = 7, 5_000
"""Number of latencies from short to long for which a scenario is simulated, and queries of each
simulation. Figures of all draws are interpolated between them.
"""

_LEAST = 1e-3
"""Least factor by which service times may be off."""


@dataclass(frozen=True, eq=False)
class _Figures:
    """Figures of a scenario, each with equally likely values.

    Attributes:
        answer: The figures.
        rates: Equally likely throughputs: shape (RESAMPLES,).
        tails_ms: Equally likely percentiles of the latency in milliseconds: shape (RESAMPLES,).
    """

    answer: ScenarioAnswer
    rates: FloatArray
    tails_ms: FloatArray


@dataclass(frozen=True)
class Loads:
    """Models under load in some places.

    Attributes:
        alternatives: Every combination of model, place and number of instances with figures.
        failures: Models without figures in a place.
        notes: What makes figures doubtful.
    """

    alternatives: list[Alternative] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def under_load(
    jobs: Sequence[Job],
    places: Sequence[Place],
    wanted: Wanted,
    store: ResultStore,
    observer: Observer,
) -> Loads:
    """All models in all places, for each number of instances. Runs nothing.

    A whole model that was put under load counts before its bricks.

    Args:
        jobs: The models.
        places: Systems and setups; each instance has the setup's threads.
        wanted: The user's requirements. They name the scenario.
        store: Store of the measurements.
        observer: Receives a notice of each place.
    """
    found = Loads()
    for place in places:
        observer.advance(f"{place.setup.backend} on {place.name}")
        _add(found, jobs, place, wanted, place.seen_in(store))
    return found


def _add(
    found: Loads, jobs: Sequence[Job], place: Place, wanted: Wanted, store: ResultStore
) -> None:
    """Adds all models in a place."""
    scenario = wanted.scenario
    assert scenario is not None
    request = Request.for_stored(place.setup, place.system)
    models = [model for job in jobs for model in job.models]
    most = max(1, place.system.available_cores // place.setup.threads)
    bricks = stored_service_times(models, request, range(1, most + 1), store)
    for position, (job, model) in enumerate(zip(jobs, models, strict=True)):
        wholes = stored_loads(model, request, scenario, wanted.longest_ms, store)
        composed = {number: each[position] for number, each in bricks.items()}
        known = len(found.alternatives)
        for number in sorted(composed.keys() | wholes.keys()):
            own = replace(place, instances=number)
            rng = np.random.default_rng(crc32(f"{model.name} {own.setup} {own}".encode()))
            whole = wholes[number].answer if number in wholes else None
            if whole is not None:
                figures = _measured(whole, rng)
            elif composed[number].service is not None:
                figures = _composed(composed[number], scenario, wanted.longest_ms, rng)
                found.notes.extend(f"{own}: {each}" for each in composed[number].warnings)
            else:
                continue
            it = _alternative(job, own, wanted, figures, measured=whole is not None)
            found.alternatives.append(it)
        if len(found.alternatives) == known:
            found.failures.append(_failure(model, scenario, place, composed[1].reason))


def _failure(model: CanonicalModel, scenario: Scenario, place: Place, reason: str) -> Failure:
    why = (
        f"it was not put under load there ({reason}): use 'dlbricks run' with "
        f"{settings(scenario=scenario)}"
    )
    return Failure(model.name, why, "compose", str(place), place.setup.backend)


def _alternative(
    job: Job, place: Place, wanted: Wanted, figures: _Figures, *, measured: bool
) -> Alternative:
    accuracies, prices, shown = wanted.accuracies, wanted.prices, figures.answer
    basis: Basis = "measured" if measured else "composed"
    rate = Known(Requirement(THROUGHPUT), shown.throughput, figures.rates, basis)
    return Alternative(
        job=job,
        place=place,
        ms=shown.tail_ms,
        draws=figures.tails_ms,
        basis=basis,
        origin={"stored": 1.0},
        per_hour=prices.of(place) if prices else None,
        accuracy=accuracies.of(job.names) if accuracies else None,
        rate=rate,
    )


def _measured(shown: ScenarioAnswer, rng: np.random.Generator) -> _Figures:
    """Figures of a load that was measured, which scatter by their intervals."""
    rates = shown.throughput * _scatter(shown.throughput_interval, rng)
    return _Figures(shown, rates, shown.tail_ms * _scatter(shown.tail_interval, rng))


def _composed(
    composed: Composed, scenario: Scenario, bound_ms: float | None, rng: np.random.Generator
) -> _Figures:
    """Figures from service times, which are all off by the error of the estimate behind them."""
    service, estimate = composed.service, composed.beside or composed.alone
    assert service is not None
    assert estimate is not None
    assert estimate.draws is not None
    assert estimate.value is not None
    shown = answer(scenario, service, bound_ms)
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
    return _Figures(shown, rates * _scatter(shown.throughput_interval, rng), tails_ms)


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

"""Alternatives under load: models in a place with numbers of instances, from stored figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np
from dlbricks_sizes.workloads import Basis

from dlbricks_core.facts import Failure, Note
from dlbricks_core.figures.statistics import load_of
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, settings
from dlbricks_serving.advice.advice import AdviceRequest, Alternative
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.requirements import THROUGHPUT, RequiredFigure, Requirement
from dlbricks_serving.advice.stored import request_for_stored
from dlbricks_serving.advice.tasks import AdviceTask
from dlbricks_serving.scenarios import PATTERNS, Scenario
from dlbricks_serving.serving.composed import Composed
from dlbricks_serving.serving.figures import LoadFigures
from dlbricks_serving.serving.known import known_loads
from dlbricks_serving.serving.predicted import UNDISTURBED
from dlbricks_serving.serving.run import numbers_to


@dataclass(frozen=True)
class Loads:
    """Models under load in some places."""

    #: Every combination of model, place and number of instances with figures.
    alternatives: list[Alternative] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)  #: Models without figures in a place.
    #: Reasons to doubt figures, without duplicates.
    notes: dict[Note, None] = field(default_factory=dict)
    #: Notes on places, which matter if they are the first of a model.
    of: dict[Place, list[Note]] = field(default_factory=dict)


def under_load(
    jobs: Sequence[AdviceTask],
    places: Sequence[Place],
    wanted: AdviceRequest,
    store: ResultStore,
    observer: Observer,
    predictor: str | None = None,
) -> Loads:
    """All models in all places, for each number of instances. Runs nothing.

    A whole model that was put under load counts before its bricks, and these before predictions.

    Args:
        jobs: The models.
        places: Systems and setups; each instance has the setup's threads.
        wanted: The user's requirements. They name the scenario.
        store: Store of the measurements.
        observer: Receives a notice of each place.
        predictor: Predictor of figures that the store lacks; ``None`` for none.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    found = Loads()
    # The predictor caches the layers of one backend from one system to the next.
    for place in sorted(places, key=lambda each: each.setup.backend):
        observer.advance(f"{place.setup.backend} on {place.name}")
        _add(found, jobs, place, wanted, place.seen_in(store), predictor)
    return found


def _add(
    found: Loads,
    jobs: Sequence[AdviceTask],
    place: Place,
    wanted: AdviceRequest,
    store: ResultStore,
    predictor: str | None,
) -> None:
    """Adds all models in a place."""
    scenario, bound_ms = wanted.scenario, wanted.longest_ms
    assert scenario is not None
    request = request_for_stored(place.setup, place.system)
    models = [model for job in jobs for model in job.on(place.setup.backend).models]
    numbers = range(1, _most(place) + 1)
    known = known_loads(models, request, numbers, scenario, bound_ms, store, predictor)
    predicted = _worth_predicting(place, scenario)
    found.of[place] = [each.about(str(place)) for each in known.notes]
    for job, model, loads in zip(jobs, models, known.models, strict=True):
        before = len(found.alternatives)
        for number in sorted(loads.composed.keys() | loads.measured.keys()):
            own = replace(place, instances=number)
            rng = np.random.default_rng(crc32(f"{model.name} {own.setup} {own}".encode()))
            measured = loads.measured.get(number)
            composed = loads.composed.get(number)
            disturbances: Sequence[Note] = ()
            if measured is not None and measured.answer is not None:
                basis: Basis = "measured"
                figures = LoadFigures.measured(measured.answer, rng)
                disturbances = measured.warnings
            elif composed is None or composed.service is None:
                continue
            elif not composed.predicted or number in predicted:
                basis = "predicted" if composed.predicted else "composed"
                figures = LoadFigures.composed(composed, scenario, bound_ms, rng)
                found.notes.update(dict.fromkeys(_warnings(own, composed)))
                disturbances = composed.warnings
            else:
                continue
            load = load_of(disturbances)
            found.alternatives.append(_alternative(job, own, wanted, figures, basis, load))
        if len(found.alternatives) == before:
            reason = next(each.reason for each in loads.composed.values())
            found.failures.append(_failure(model, scenario, place, reason))


def _warnings(place: Place, composed: Composed) -> list[Note]:
    """Why to doubt figures of a place."""
    if composed.predicted:
        return [UNDISTURBED]
    return [each.about(str(place)) for each in composed.warnings]


def _worth_predicting(place: Place, scenario: Scenario) -> list[int]:
    """Numbers of instances that fit on the cores of a place, and that a scenario keeps busy."""
    pattern, most = PATTERNS[scenario], _most(place)
    return numbers_to(most if pattern.at_once else min(most, pattern.samples))


def _most(place: Place) -> int:
    """Number of instances that fit on the cores of a place."""
    return max(1, place.system.available_cores // place.setup.threads)


def _failure(model: CanonicalModel, scenario: Scenario, place: Place, reason: str) -> Failure:
    why = (
        f"it was not put under load there ({reason}): use 'dlbricks serve' with "
        f"{argument('measure')} and {settings(scenario=scenario)}"
    )
    return Failure(model.name, why, "compose", str(place), place.setup.backend)


def _alternative(
    job: AdviceTask,
    place: Place,
    wanted: AdviceRequest,
    figures: LoadFigures,
    basis: Basis,
    load: float,
) -> Alternative:
    accuracies, prices, shown = wanted.accuracies, wanted.prices, figures.answer
    rate = RequiredFigure(Requirement(THROUGHPUT), shown.throughput, figures.rates, basis)
    return Alternative(
        job=job,
        place=place,
        ms=shown.tail_ms,
        draws=figures.tails_ms,
        basis=basis,
        origin={"predicted" if basis == "predicted" else "stored": 1.0},
        per_hour=prices.of(place) if prices else None,
        accuracy=accuracies.of(job.names) if accuracies else None,
        rate=rate,
        load=load,
    )

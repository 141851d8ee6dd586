"""Advises on the place to run models in, and on the choice among several models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from zlib import crc32

import numpy as np
from dlbricks_sizes.answers import FIRST_TOKEN, OUTPUT_TOKEN, SHORT
from dlbricks_sizes.generation import of_answers
from dlbricks_sizes.workloads import Time, Times

from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import LATENCY, Failure, Note, Quantity
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_serving.advice.advice import (
    Advice,
    AdviceRequest,
    Alternative,
    Ranked,
    TaskRanking,
)
from dlbricks_serving.advice.choice import Mask, coupled, coupled_orders, first_shares, on_front
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.requirements import Answers, RequiredFigure, Requirement
from dlbricks_serving.advice.stored import request_for_stored
from dlbricks_serving.advice.tasks import AdviceTask
from dlbricks_serving.advice.under_load import under_load
from dlbricks_serving.notes import note

OF_BACKEND = 0.5
"""Correlation between the errors of a predictor for one backend on two systems: 0.7 on average over
six cloud systems (benchmarks/systems/advise.py).
"""

_OF_SYSTEM = 0.2
"""Increase of that correlation between two numbers of threads on the same system: 0.7 to 0.97 in
total on one system (benchmarks/systems/in_common.py). Errors of two backends were uncorrelated.
"""

_LEAST = 1e-9
"""Minimum value of a draw, in the unit of its quantity, because no value is 0 or less."""


def advise(
    jobs: Sequence[AdviceTask],
    places: Sequence[Place],
    wanted: AdviceRequest,
    store: ResultStore,
    observer: Observer,
    predictor: str | None = None,
) -> Advice:
    """Ranks places, and models if they are alternatives. Runs nothing.

    Args:
        jobs: Runs of models, or answers of language models if ``wanted`` has a workload.
        places: Candidate places.
        wanted: The user's requirements.
        store: Store of the measurements.
        observer: Receives a notice of each place.
        predictor: Name of the predictor for figures that were not measured; ``None`` for none.

    Raises:
        DLBricksError: If no model has a required accuracy, or no system has a required price.
        PluginError: If there is no such predictor, or it fails.
    """
    collected = _Collected()
    jobs = _with_accuracies(jobs, wanted, collected)
    places = _with_prices(places, wanted, collected)
    observer.stage("Estimating", len(places))
    if wanted.scenario is not None:
        loads = under_load(jobs, places, wanted, store, observer, predictor)
        alternatives = _loads_in_common(loads.alternatives)
        collected.failures.extend(loads.failures)
        collected.notes.extend(loads.notes)
        collected.of |= loads.of
    else:
        alternatives = _estimated(jobs, places, wanted, store, observer, predictor, collected)
    if wanted.accuracies is None:
        groups = [(job.name, [each for each in alternatives if each.job is job]) for job in jobs]
    else:
        groups = [("1 model" if len(jobs) == 1 else f"{len(jobs)} models", alternatives)]
    rankings = [rank(name, each, wanted) for name, each in groups if each]
    best = (ranking.first.alternative.place for ranking in rankings if ranking.first)
    firsts = {replace(place, instances=None) for place in best}
    notes = [each for place in places if place in firsts for each in collected.of.get(place, ())]
    notes += [each for ranking in rankings for each in thread_pairs(ranking)]
    return Advice(wanted, rankings, places, [*collected.notes, *notes], collected.failures)


def _estimated(
    jobs: Sequence[AdviceTask],
    places: Sequence[Place],
    wanted: AdviceRequest,
    store: ResultStore,
    observer: Observer,
    predictor: str | None,
    collected: _Collected,
) -> list[Alternative]:
    """Every combination of job and place whose figures are known or predicted."""
    found: dict[Place, RunResult] = {}
    # The predictor caches the layers of one backend from one system to the next.
    for place in sorted(places, key=lambda each: each.setup.backend):
        observer.advance(f"{place.setup.backend} on {place.name}")
        request = request_for_stored(place.setup, place.system)
        seen = place.seen_in(store)
        own = [job.on(place.setup.backend) for job in jobs]
        models = [model for job in own for model in job.models]
        result = estimate(models, None, request, seen, predictor=predictor)
        answering = [job.answering for job in own if job.answering is not None]
        found[place] = of_answers(answering, result) if answering else result
        collected.of[place] = [each.about(str(place)) for each in found[place].ledger.notes]
    results = [found[place] for place in places]
    alternatives = _alternatives(jobs, places, results, wanted, collected)
    predicts = predictor is not None
    return _with_required(alternatives, jobs, wanted, store, collected, predicts)


def rank(name: str, alternatives: Sequence[Alternative], wanted: AdviceRequest) -> TaskRanking:
    """Ranks alternatives by a quantity, with the probability that each is the best.

    Args:
        name: Name of the ranking.
        alternatives: At least one. All of them have a figure of the quantity to order by.
        wanted: The quantity to order by, and the bounds.
    """
    limit = np.inf if wanted.longest_ms is None else wanted.longest_ms
    by = [each.known(wanted.order) for each in alternatives]
    costs = np.array([each.costs for each in by])
    keeps = np.array([each.draws for each in alternatives]) <= limit
    for row, each in zip(keeps, alternatives, strict=True):
        row &= each.serves
        for known in each.required:
            row &= known.keeps
    firsts = first_shares(costs, keeps)
    allowed = np.array(
        [
            [
                each.ms <= limit
                and each.per_second > 0
                and all(known.is_kept for known in each.required)
            ]
            for each in alternatives
        ]
    )
    ranked = [
        Ranked(each, known, float(first), float(kept.mean()), bool(is_allowed))
        for each, known, first, kept, (is_allowed,) in zip(
            alternatives, by, firsts, keeps, allowed, strict=True
        )
    ]
    if wanted.accuracies is not None:
        ranked = _with_fronts(ranked, costs, keeps, allowed)
    return TaskRanking(name, sorted(ranked, key=lambda e: (not e.is_allowed, e.by.cost)))


def thread_pairs(ranking: TaskRanking) -> Iterator[Note]:
    """Notes on the best threads of an answer's two phases, where these differ.

    Only phases count that were measured there, each with any number of threads.
    """
    best: dict[tuple[str, str, str], dict[Quantity, tuple[float, int]]] = {}
    for each in (ranked.alternative for ranked in ranking.ranked):
        setup = each.place.setup
        found = best.setdefault((each.job.name, setup.backend, each.place.name), {})
        for figure in each.required:
            if figure.requirement.quantity in SHORT and figure.basis != "predicted":
                known = found.get(figure.requirement.quantity, (np.inf, 0))
                found[figure.requirement.quantity] = min(known, (figure.value, setup.threads))
    for (model, backend, system), found in best.items():
        if len(found) == len(SHORT) and found[FIRST_TOKEN][1] != found[OUTPUT_TOKEN][1]:
            (prompt_ms, prompt), (token_ms, token) = found[FIRST_TOKEN], found[OUTPUT_TOKEN]
            yield note(
                "threads-of-phases", f"{model}, {backend} on {system}",
                prompt=prompt, token=token, prompt_ms=prompt_ms, token_ms=token_ms,
            )  # fmt: skip


def _with_fronts(
    ranked: Sequence[Ranked], costs: FloatArray, keeps: Mask, allowed: Mask
) -> list[Ranked]:
    merits = np.array([each.alternative.accuracy for each in ranked], dtype=np.float64)
    probable = on_front(costs, merits, keeps).mean(axis=1)
    values = np.array([[each.by.cost] for each in ranked])
    expected = on_front(values, merits, allowed)[:, 0]
    return [
        replace(each, front=float(share), is_on_front=bool(is_on))
        for each, share, is_on in zip(ranked, probable, expected, strict=True)
    ]


def _with_required(
    alternatives: Sequence[Alternative],
    jobs: Sequence[AdviceTask],
    wanted: AdviceRequest,
    store: ResultStore,
    collected: _Collected,
    predicts: bool,
) -> list[Alternative]:
    """Alternatives with figures of the quantities that have a metric.

    An alternative without a figure is reported and left out: it may exceed the bound, and has no
    place in the order.
    """
    if not wanted.with_metric:
        return list(alternatives)
    positions = {id(job): position for position, job in enumerate(jobs)}
    answers: dict[tuple[Place, int], Answers] = {}
    found = []
    for each in alternatives:
        known = []
        for number, requirement in enumerate(wanted.with_metric):
            key = each.place, number
            if key not in answers:
                # One model each: none of the tasks is an answer.
                models = [it for job in jobs for it in job.on(each.place.setup.backend).models]
                answers[key] = Answers.of(requirement, models, each.place, store, predicts=predicts)
            position = positions[id(each.job)]
            told = answers[key].known(position)
            other = answers[key].note
            if told and other is not None and other not in collected.notes:
                collected.notes.append(other)
            if told is None:
                why = answers[key].why_not(answers[key].result.models[position])
                collected.failures.append(_failure(each.job.name, why, each.place))
                break
            known.append(told)
        else:
            found.append(replace(each, required=known))
    for number, _ in enumerate(wanted.with_metric):
        found = _required_in_common(found, number)
    return found


def _required_in_common(alternatives: Sequence[Alternative], number: int) -> list[Alternative]:
    """Alternatives whose prediction errors for one quantity are correlated across places.

    The correlation is assumed to equal that of prediction errors for latencies.

    Args:
        alternatives: All alternatives.
        number: Index of the quantity in :attr:`AdviceRequest.with_metric`.
    """
    told = [each.required[number] for each in alternatives]
    inferred: dict[Place, list[int]] = {}
    for i, each in enumerate(told):
        if each.basis == "predicted":
            inferred.setdefault(alternatives[i].place, []).append(i)
    drawn = _in_common([each.draws for each in told], inferred)
    return [
        replace(
            each,
            required=[
                replace(known, draws=draws) if place == number else known
                for place, known in enumerate(each.required)
            ],
        )
        for each, draws in zip(alternatives, drawn, strict=True)
    ]


@dataclass
class _Collected:
    """Notes and failures that accompany the figures."""

    notes: list[Note] = field(default_factory=list)  #: Notes on the whole.
    failures: list[Failure] = field(default_factory=list)  #: Models without a figure somewhere.
    #: Notes on places, which matter if they are the first of a model.
    of: dict[Place, list[Note]] = field(default_factory=dict)


def _with_accuracies(
    jobs: Sequence[AdviceTask], wanted: AdviceRequest, collected: _Collected
) -> list[AdviceTask]:
    """Jobs of models that are accurate enough. Models without an accuracy become failures."""
    accuracies = wanted.accuracies
    if accuracies is None:
        return list(jobs)
    found = {id(job): accuracies.of(job.names) for job in jobs}
    for job in jobs:
        if found[id(job)] is None:
            reason = f"{accuracies.path} holds no accuracy of it"
            collected.failures.append(Failure(job.name, reason, "read"))
    known = [job for job in jobs if found[id(job)] is not None]
    least = -np.inf if wanted.min_accuracy is None else wanted.min_accuracy
    enough = [job for job in known if (found[id(job)] or 0.0) >= least]
    if not enough:
        what = "has an accuracy" if not known else f"has an accuracy of {wanted.min_accuracy:g}"
        raise DLBricksError(
            f"none of the models {what}, according to {accuracies.path}",
            hint=f"Models: {', '.join(job.name for job in jobs)}.",
        )
    if len(enough) < len(known):
        left = [job.name for job in known if job not in enough]
        collected.notes.append(note("not-accurate-enough", least=wanted.min_accuracy, models=left))
    return enough


def _with_prices(
    places: Sequence[Place], wanted: AdviceRequest, collected: _Collected
) -> list[Place]:
    """Places that have a price. The others are reported."""
    prices = wanted.prices
    if prices is None:
        return list(places)
    found = [place for place in places if prices.of(place) is not None]
    unpriced = {place.name: place.system.cpu for place in places if place not in found}
    named = [f"{name} ({cpu})" for name, cpu in unpriced.items()]
    if not found:
        raise DLBricksError(
            f"{prices.path} holds no price of any of the systems",
            hint=f"Systems: {', '.join(named)}.",
        )
    if named:
        collected.notes.append(note("without-price", systems=named))
    return found


@dataclass(frozen=True)
class _Draft:
    """A job in a place, with its latency and the other figures that follow from latencies."""

    job: AdviceTask
    place: Place
    times: Times
    figures: Sequence[RequiredFigure]


def _alternatives(
    jobs: Sequence[AdviceTask],
    places: Sequence[Place],
    results: Sequence[RunResult],
    wanted: AdviceRequest,
    collected: _Collected,
) -> list[Alternative]:
    """Every combination of job and place that has a latency."""
    told = [each for each in wanted.others if each.metric is None]
    drafts = []
    for place, result in zip(places, results, strict=True):
        each_of = iter(result.models)
        for job in jobs:
            own = job.on(place.setup.backend)
            times = own.times(list(islice(each_of, len(own.models))))
            if times[LATENCY].is_known:
                figures = _figures([Requirement(LATENCY), *told], times, place)
                drafts.append(_Draft(job, place, times, figures))
            else:
                collected.failures.append(_failure(job.name, times[LATENCY].missing, place))
    figures = [figure for draft in drafts for figure in draft.figures]
    owners = [draft for draft in drafts for _ in draft.figures]
    inferred: dict[Place, list[int]] = {}
    for i, (figure, draft) in enumerate(zip(figures, owners, strict=True)):
        if draft.times[figure.requirement.quantity].is_inferred:
            inferred.setdefault(draft.place, []).append(i)
    drawn = iter(_in_common([figure.draws for figure in figures], inferred))
    return [
        _alternative(
            replace(draft, figures=[replace(each, draws=next(drawn)) for each in draft.figures]),
            wanted,
        )
        for draft in drafts
    ]


def _failure(name: str, reason: str, place: Place) -> Failure:
    return Failure(name, reason, "compose", str(place), place.setup.backend)


def _figures(asked: Sequence[Requirement], times: Times, place: Place) -> list[RequiredFigure]:
    """Figures of quantities that follow from latencies. The error of composing is common to all."""
    whole = times[LATENCY].parts[0][1].cut.whole.signature
    text = f"{whole} {place.setup} {place.system.fingerprint}"
    # Only equal machines have errors of composing in common.
    errors = np.random.default_rng(crc32(text.encode())).standard_normal(RESAMPLES)
    return [_figure(each, times[each.quantity], errors) for each in asked]


def _figure(asked: Requirement, time: Time, errors: FloatArray) -> RequiredFigure:
    """Figure of a quantity that follows from latencies.

    Args:
        asked: The requirement.
        time: The time.
        errors: Standard normal draws of the error of composing.
    """
    measured, composed = time.compared.measured, time.compared.estimate
    if measured is not None:
        value, draws = measured.value, measured.plausible
    else:
        assert composed.value is not None
        assert composed.draws is not None
        value, draws = composed.value, composed.draws * (1 + composed.composing_error * errors)
    return RequiredFigure(asked, value, np.maximum(draws, _LEAST), time.basis)


def _alternative(draft: _Draft, wanted: AdviceRequest) -> Alternative:
    accuracies, prices = wanted.accuracies, wanted.prices
    latency, *others = draft.figures
    return Alternative(
        job=draft.job,
        place=draft.place,
        ms=latency.value,
        draws=latency.draws,
        basis=latency.basis,
        origin=draft.times[LATENCY].origin,
        per_run=wanted.per_run,
        per_hour=prices.of(draft.place) if prices else None,
        accuracy=accuracies.of(draft.job.names) if accuracies else None,
        required=others,
        load=draft.times[LATENCY].load,
    )


def _in_common(
    draws: Sequence[FloatArray], inferred: Mapping[Place, Sequence[int]]
) -> list[FloatArray]:
    """Draws of all alternatives, with prediction errors correlated across places.

    Predictions for several models in one place are joint already. Samples of two systems are
    independent, and samples of the same rounds vary together: both remain unchanged.

    Args:
        draws: Equally likely values for each alternative: shape (RESAMPLES,) each.
        inferred: Indexes of the predicted alternatives of each place.
    """
    drawn = [np.maximum(np.array([draws[i] for i in rows]), _LEAST) for rows in inferred.values()]
    found = list(draws)
    ordered = coupled(drawn, _correlation(list(inferred)))
    for rows, each in zip(inferred.values(), ordered, strict=True):
        for i, row in zip(rows, each, strict=True):
            found[i] = row
    return found


def _loads_in_common(alternatives: Sequence[Alternative]) -> list[Alternative]:
    """Alternatives under load, with prediction errors correlated across places.

    Predictions for several numbers of instances in one place are joint already.
    """
    inferred: dict[Place, list[int]] = {}
    for i, each in enumerate(alternatives):
        if each.basis == "predicted":
            inferred.setdefault(replace(each.place, instances=None), []).append(i)
    levels = [
        np.log([np.maximum(alternatives[i].draws, _LEAST) for i in rows]).mean(axis=0)
        for rows in inferred.values()
    ]
    orders = coupled_orders(levels, _correlation(list(inferred)))
    found = list(alternatives)
    for rows, order in zip(inferred.values(), orders, strict=True):
        for i in rows:
            each = found[i]
            rate = each.rate and replace(each.rate, draws=each.rate.draws[order])
            found[i] = replace(each, draws=each.draws[order], rate=rate)
    return found


def _correlation(places: Sequence[Place]) -> FloatArray:
    """Correlation matrix of a predictor's errors over places."""
    found = np.eye(len(places))
    for i, one in enumerate(places):
        for j, other in enumerate(places[:i]):
            if one.setup.backend == other.setup.backend:
                same = one.system.fingerprint == other.system.fingerprint
                found[i, j] = found[j, i] = OF_BACKEND + _OF_SYSTEM * same
    return found

"""Advises on where to run models, and which of several models to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from zlib import crc32

import numpy as np

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.figures.choice import Mask, coupled, first_shares, on_front
from dlbricks_core.figures.figure import RESAMPLES, Origin, interval
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.composing import LEARNED_COMPOSER
from dlbricks_core.workflows.estimate import estimate
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.places import Place
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.requirements import Answers, Basis, Known, Requirement
from dlbricks_core.workflows.results import ModelResult, RunResult
from dlbricks_core.workflows.tariff import Accuracies, Prices

MILLION = 1_000_000
"""Inferences that a price is told for."""

_MS_PER_HOUR = 3_600_000.0

OF_BACKEND = 0.5
"""Correlation of the errors that a predictor makes with one backend on two systems: on six cloud
systems 0.7 on average (benchmarks/systems/advise.py)."""

_OF_SYSTEM = 0.2
"""What is added where the system is the same and the number of threads is not: 0.7 to 0.97 in all
on one system (benchmarks/systems/in_common.py). Errors with two backends had nothing in common."""

_LEAST_MS = 1e-9


@dataclass(frozen=True)
class Wanted:
    """What the user wants to know.

    Attributes:
        max_latency_ms: Longest latency that is allowed, in milliseconds; ``None`` for any.
        min_accuracy: Least accuracy that is allowed; ``None`` for any.
        prices: Prices of systems; with them the cheapest is first, without them the fastest.
        accuracies: Accuracies of models; with them the models are alternatives for one task.
        batch: Inferences that one run of a model makes.
        requirements: Bounds of quantities, latency among them if one is of it.
    """

    max_latency_ms: float | None = None
    min_accuracy: float | None = None
    prices: Prices | None = None
    accuracies: Accuracies | None = None
    batch: int = 1
    requirements: Sequence[Requirement] = ()

    @property
    def longest_ms(self) -> float | None:
        """Longest latency that is allowed by all that bounds it; ``None`` for any."""
        own = [each.most for each in self.requirements if each.probe is None]
        return min(
            [*own, *([] if self.max_latency_ms is None else [self.max_latency_ms])], default=None
        )

    @property
    def others(self) -> list[Requirement]:
        """Requirements of quantities other than latency."""
        return [each for each in self.requirements if each.probe is not None]

    @property
    def is_bounded(self) -> bool:
        """Whether anything is bounded that an alternative may keep or not."""
        return self.longest_ms is not None or bool(self.others)

    def __post_init__(self) -> None:
        if self.max_latency_ms is not None and not self.max_latency_ms > 0:
            raise DLBricksError(
                f"{argument('max_latency_ms')} {self.max_latency_ms:g} is too short",
                hint="Write a time, such as 50ms.",
            )
        if self.min_accuracy is not None and self.accuracies is None:
            raise DLBricksError(
                f"{argument('min_accuracy')} needs the models' accuracies",
                hint=f"Name a file with them: {argument('accuracies')}.",
            )


@dataclass(frozen=True, eq=False)
class Alternative:
    """One model in one place.

    Attributes:
        model: The model.
        place: Where and how it runs.
        ms: Latency of one run, in milliseconds.
        draws: Latencies that are equally likely to be right: shape (RESAMPLES,). The i-th draws of
            all alternatives belong together.
        basis: What the latency rests on.
        origin: Shares of the sum over the bricks by where their figures come from; all of it
            stored if the whole model was measured.
        batch: Inferences of one run.
        per_hour: Price of an hour of the system; ``None`` if it is not known.
        accuracy: Accuracy of the model; ``None`` if it is not known.
        required: What is known of the quantities that are required, one for each.
    """

    model: CanonicalModel
    place: Place
    ms: float
    draws: FloatArray
    basis: Basis
    origin: Mapping[Origin, float]
    batch: int = 1
    per_hour: float | None = None
    accuracy: float | None = None
    required: Sequence[Known] = ()

    @property
    def interval_ms(self) -> tuple[float, float]:
        """90% interval of the latency."""
        return interval(self.draws)

    @property
    def per_second(self) -> float:
        """Inferences in a second of one process that runs the model again and again."""
        return 1e3 * self.batch / self.ms

    @property
    def per_second_interval(self) -> tuple[float, float]:
        """90% interval of these."""
        return interval(1e3 * self.batch / self.draws)

    @property
    def price(self) -> float | None:
        """Price of a million inferences of one process that has the system for itself."""
        return None if self.per_hour is None else self.ms * self._per_ms(self.per_hour)

    @property
    def price_interval(self) -> tuple[float, float] | None:
        """90% interval of the price."""
        return None if self.per_hour is None else interval(self.draws * self._per_ms(self.per_hour))

    @property
    def cost(self) -> float:
        """What is to be small: the price where it is known, or else the latency of an inference."""
        return self.ms * self._weight

    @property
    def cost_draws(self) -> FloatArray:
        """Draws of the cost."""
        return self.draws * self._weight

    @property
    def _weight(self) -> float:
        return 1.0 if self.per_hour is None else self._per_ms(self.per_hour)

    def _per_ms(self, per_hour: float) -> float:
        return per_hour / _MS_PER_HOUR * MILLION / self.batch


@dataclass(frozen=True)
class Ranked:
    """An alternative among others.

    Attributes:
        alternative: The alternative.
        first: Probability that it is the first: of least cost among those that keep the bounds.
        keeps: Probability that it keeps all bounds; 1 if there is none.
        is_allowed: Whether it is expected to keep them.
        front: Probability that it is on the Pareto front; ``None`` without accuracies.
        is_on_front: Whether it is expected to be.
    """

    alternative: Alternative
    first: float
    keeps: float
    is_allowed: bool
    front: float | None = None
    is_on_front: bool = False


@dataclass(frozen=True)
class Ranking:
    """Alternatives for one task, the first first; those that do not keep the bound come last.

    Attributes:
        name: Name of the model, or how many there are.
        ranked: The alternatives.
    """

    name: str
    ranked: Sequence[Ranked]

    @property
    def first(self) -> Ranked | None:
        """The advice; ``None`` if no alternative is expected to keep the bounds."""
        return next((each for each in self.ranked if each.is_allowed), None)

    @property
    def front(self) -> list[Ranked]:
        """Alternatives on the Pareto front, the most accurate first."""
        found = [each for each in self.ranked if each.is_on_front]
        return sorted(found, key=lambda each: -(each.alternative.accuracy or 0.0))


@dataclass(frozen=True)
class Advice:
    """Where to run models, and which of them.

    Attributes:
        wanted: What was asked.
        rankings: One for each model, or one for all if they are alternatives.
        places: Where the models might run.
        notes: Remarks on the figures.
        failures: Models without a latency, or without an accuracy.
        unread: Models that were named and could not be loaded.
    """

    wanted: Wanted
    rankings: Sequence[Ranking]
    places: Sequence[Place]
    notes: Sequence[str] = ()
    failures: Sequence[Failure] = ()
    unread: Sequence[Failure] = ()

    @cached_property
    def alternatives(self) -> list[Alternative]:
        """All alternatives."""
        return [each.alternative for ranking in self.rankings for each in ranking.ranked]


def advise(
    models: Sequence[CanonicalModel],
    places: Sequence[Place],
    wanted: Wanted,
    store: ResultStore,
    observer: Observer,
    predictor: str | None = None,
) -> Advice:
    """Ranks places, and models if they are alternatives; runs nothing.

    Args:
        models: Models in canonical form.
        places: Where they might run.
        wanted: What the user wants to know.
        store: Where measurements are kept.
        observer: Hears of each place.
        predictor: Name of the predictor for what nobody measured; ``None`` for none.

    Raises:
        DLBricksError: If no model has an accuracy, or no system a price, where they are asked for.
        PluginError: If there is no such predictor, or it fails.
    """
    collected = _Collected()
    models = _with_accuracies(models, wanted, collected)
    places = _with_prices(places, wanted, collected)
    observer.stage("Estimating", len(places))
    results = []
    for place in places:
        observer.advance(f"{place.setup.backend} on {place.system.fingerprint[:8]}")
        request = Request.for_stored(place.setup, place.system)
        results.append(estimate(models, None, request, store, predictor=predictor))
    alternatives = _alternatives(places, results, wanted, collected)
    predicts = predictor is not None
    alternatives = _with_required(alternatives, models, wanted, store, collected, predicts)
    if wanted.accuracies is None:
        groups = {
            model.name: [each for each in alternatives if each.model is model] for model in models
        }
    else:
        groups = {f"{len(models)} models": alternatives}
    rankings = [rank(name, each, wanted) for name, each in groups.items() if each]
    firsts = {ranking.first.alternative.place for ranking in rankings if ranking.first}
    for place, result in zip(places, results, strict=True):
        if place in firsts:
            for note in result.outcome.notes:
                collected.notes.append(f"{place}: {note}")
    return Advice(wanted, rankings, places, collected.notes, collected.failures)


def rank(name: str, alternatives: Sequence[Alternative], wanted: Wanted) -> Ranking:
    """Ranks alternatives by cost, and tells how probable it is that each is the first.

    Args:
        name: Name of what they are alternatives for.
        alternatives: At least one; all of them with a price, or none.
        wanted: Which bounds they are to keep.
    """
    limit = np.inf if wanted.longest_ms is None else wanted.longest_ms
    costs = np.array([each.cost_draws for each in alternatives])
    keeps = np.array([each.draws for each in alternatives]) <= limit
    for row, each in zip(keeps, alternatives, strict=True):
        for known in each.required:
            row &= known.keeps
    firsts = first_shares(costs, keeps)
    allowed = np.array(
        [
            [each.ms <= limit and all(known.is_kept for known in each.required)]
            for each in alternatives
        ]
    )
    ranked = [
        Ranked(each, float(first), float(kept.mean()), bool(is_allowed))
        for each, first, kept, (is_allowed,) in zip(
            alternatives, firsts, keeps, allowed, strict=True
        )
    ]
    if wanted.accuracies is not None:
        ranked = _with_fronts(ranked, costs, keeps, allowed)
    return Ranking(name, sorted(ranked, key=lambda e: (not e.is_allowed, e.alternative.cost)))


def _with_fronts(
    ranked: Sequence[Ranked], costs: FloatArray, keeps: Mask, allowed: Mask
) -> list[Ranked]:
    merits = np.array([each.alternative.accuracy for each in ranked], dtype=np.float64)
    probable = on_front(costs, merits, keeps).mean(axis=1)
    values = np.array([[each.alternative.cost] for each in ranked])
    expected = on_front(values, merits, allowed)[:, 0]
    return [
        replace(each, front=float(share), is_on_front=bool(is_on))
        for each, share, is_on in zip(ranked, probable, expected, strict=True)
    ]


def _with_required(
    alternatives: Sequence[Alternative],
    models: Sequence[CanonicalModel],
    wanted: Wanted,
    store: ResultStore,
    collected: _Collected,
    predicts: bool,
) -> list[Alternative]:
    """Alternatives with what is known of the required quantities.

    One of which too little is known is left out by name: nobody can tell whether it keeps the
    bound.
    """
    positions = {id(model): position for position, model in enumerate(models)}
    answers: dict[tuple[Place, int], Answers] = {}
    found = []
    for each in alternatives:
        known = []
        for number, requirement in enumerate(wanted.others):
            key = each.place, number
            if key not in answers:
                answers[key] = Answers.of(
                    requirement, list(models), each.place, store, predicts=predicts
                )
            position = positions[id(each.model)]
            told = answers[key].known(position)
            if told is None:
                why = answers[key].why_not(answers[key].result.models[position])
                collected.failures.append(_failure(each.model.name, why, each.place))
                break
            known.append(told)
        else:
            found.append(replace(each, required=known))
    return found


@dataclass
class _Collected:
    """What is told beside the figures."""

    notes: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def _with_accuracies(
    models: Sequence[CanonicalModel], wanted: Wanted, collected: _Collected
) -> list[CanonicalModel]:
    """Models that are accurate enough; those without an accuracy are named."""
    accuracies = wanted.accuracies
    if accuracies is None:
        return list(models)
    found = {id(model): accuracies.of(_names(model)) for model in models}
    for model in models:
        if found[id(model)] is None:
            reason = f"{accuracies.path} has no accuracy of it"
            collected.failures.append(Failure(model.name, reason, "read"))
    known = [model for model in models if found[id(model)] is not None]
    least = -np.inf if wanted.min_accuracy is None else wanted.min_accuracy
    enough = [model for model in known if (found[id(model)] or 0.0) >= least]
    if not enough:
        what = "has an accuracy" if not known else f"has an accuracy of {wanted.min_accuracy:g}"
        raise DLBricksError(
            f"none of the models {what}, according to {accuracies.path}",
            hint=f"Models: {', '.join(model.name for model in models)}.",
        )
    if len(enough) < len(known):
        left = ", ".join(model.name for model in known if model not in enough)
        collected.notes.append(f"less accurate than {wanted.min_accuracy:g}, and left out: {left}")
    return enough


def _with_prices(places: Sequence[Place], wanted: Wanted, collected: _Collected) -> list[Place]:
    """Places that have a price; others are named."""
    prices = wanted.prices
    if prices is None:
        return list(places)
    found = [place for place in places if prices.of(place.system) is not None]
    unpriced = {p.system.fingerprint: p.system for p in places if p not in found}
    named = ", ".join(f"{each[:8]} ({system.cpu})" for each, system in unpriced.items())
    if not found:
        raise DLBricksError(
            f"{prices.path} has a price of none of the systems", hint=f"Systems: {named}."
        )
    if unpriced:
        collected.notes.append(f"without a price, and left out: {named}")
    return found


def _names(model: CanonicalModel) -> Iterable[str]:
    return model.name, model.source


def _alternatives(
    places: Sequence[Place],
    results: Sequence[RunResult],
    wanted: Wanted,
    collected: _Collected,
) -> list[Alternative]:
    """Every model in every place, where it has a latency."""
    known = [
        (place, model)
        for place, result in zip(places, results, strict=True)
        for model in result.models
        if _has_latency(model)
    ]
    for place, result in zip(places, results, strict=True):
        collected.failures += _without_latency(place, result)
    found = [_alternative(place, model, wanted) for place, model in known]
    inferred: dict[Place, list[int]] = {}
    for i, (place, model) in enumerate(known):
        if _is_inferred(model):
            inferred.setdefault(place, []).append(i)
    return _with_common_errors(found, inferred)


def _is_inferred(model: ModelResult) -> bool:
    """Whether a predictor tells how far a latency may be off."""
    by_predictor = model.composer == LEARNED_COMPOSER or "predicted" in model.origin
    return model.measured is None and by_predictor


def _has_latency(model: ModelResult) -> bool:
    whole = model.estimate.value is not None and not model.estimate.partial
    return model.measured is not None or whole


def _without_latency(place: Place, result: RunResult) -> list[Failure]:
    """A failure for each model that cannot be estimated in a place."""
    return [
        _failure(
            model.cut.model.name,
            next(iter(model.missing.values()), model.failure or "nothing is known of it"),
            place,
        )
        for model in result.models
        if not _has_latency(model)
    ]


def _failure(name: str, reason: str, place: Place) -> Failure:
    where = f"{place.setup.threads} threads on {place.system.fingerprint[:8]}"
    backend = place.setup.backend
    return Failure(name, reason, "compose", f"{backend}, {where}", backend)


def _alternative(place: Place, result: ModelResult, wanted: Wanted) -> Alternative:
    model, measured, composed = result.cut.model, result.measured, result.estimate
    accuracies, prices = wanted.accuracies, wanted.prices
    basis: Basis
    if measured is not None:
        ms, draws, basis = measured.value, measured.plausible, "measured"
        origin: Mapping[Origin, float] = {"stored": 1.0}
    else:
        assert composed.value is not None
        assert composed.draws is not None
        ms, origin = composed.value, result.origin
        draws = composed.draws * _composing_errors(result, place)
        basis = "predicted" if origin.get("predicted") else "composed"
    return Alternative(
        model=model,
        place=place,
        ms=ms,
        draws=np.maximum(draws, _LEAST_MS),
        basis=basis,
        origin=origin,
        batch=wanted.batch,
        per_hour=prices.of(place.system) if prices else None,
        accuracy=accuracies.of(_names(model)) if accuracies else None,
    )


def _composing_errors(result: ModelResult, place: Place) -> FloatArray:
    """Factors of an estimate's draws: nothing is known of what these errors have in common."""
    setup, whole = place.setup, result.cut.whole.signature
    text = f"{whole} {setup} {place.system.fingerprint}"
    drawn = np.random.default_rng(crc32(text.encode())).standard_normal(RESAMPLES)
    return np.asarray(1 + result.estimate.composing_error * drawn)


def _with_common_errors(
    alternatives: Sequence[Alternative], inferred: Mapping[Place, Sequence[int]]
) -> list[Alternative]:
    """Alternatives whose predictions err together as far as that is known.

    What a predictor tells of several models in one place already belongs together. Samples of two
    systems are independent, and samples of the same rounds vary together: both stay as they are.

    Args:
        alternatives: All alternatives.
        inferred: For each place, those that a predictor tells of.
    """
    drawn = [np.array([alternatives[i].draws for i in rows]) for rows in inferred.values()]
    found = list(alternatives)
    ordered = coupled(drawn, _correlation(list(inferred)))
    for rows, draws in zip(inferred.values(), ordered, strict=True):
        for i, row in zip(rows, draws, strict=True):
            found[i] = replace(found[i], draws=row)
    return found


def _correlation(places: Sequence[Place]) -> FloatArray:
    """Correlation of a predictor's errors in several places."""
    found = np.eye(len(places))
    for i, one in enumerate(places):
        for j, other in enumerate(places[:i]):
            if one.setup.backend == other.setup.backend:
                same = one.system.fingerprint == other.system.fingerprint
                found[i, j] = found[j, i] = OF_BACKEND + _OF_SYSTEM * same
    return found

"""Advice as plain data."""

from __future__ import annotations

from typing import Literal, TypedDict, cast

from dlbricks_core.commands.estimate.data import OriginSharesData
from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.facts import LATENCY
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import notes_data
from dlbricks_serving.advice.advice import (
    Advice,
    AdviceRequest,
    Alternative,
    Ranked,
    TaskRanking,
)
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.report.words import notes
from dlbricks_serving.advice.requirements import RequiredFigure


class AdviseData(common.ListedFailuresData):
    """Output of ``dlbricks advise``."""

    settings: AdviseSettingsData  #: The request.
    systems: list[AdvisedSystemData]  #: Systems that models might run on.
    #: One ranking for each model, or one ranking of all models if they are alternatives for one
    #: task.
    rankings: list[AdvisedRankingData]
    notes: list[common.NoteData]  #: Remarks on the figures.


class AdviseSettingsData(common.ReadingData):
    """Settings of advice, and how models were read: a run makes as many inferences as its batch."""

    #: Longest latency that is allowed; of an answer, longest total time; under load, longest
    #: percentile.
    max_latency_ms: float | None
    min_accuracy: float | None  #: Least accuracy that is allowed.
    currency: str | None  #: Currency of the prices; null if none were given.
    predictor: str | None  #: Predictor of bricks that the store did not hold; null for none.
    #: Workload of language models; null if models are compared by single runs.
    workload: Workload | None
    #: Outputs of runs that prices and rates refer to: ``inferences``, ``output tokens``,
    #: ``samples`` or ``queries``.
    counted: str
    required: list[RequirementData]  #: Bounds of quantities other than latency.
    by: common.QuantityData  #: The quantity whose best value comes first, with its unit.
    #: Load of the systems; null if models are compared by single runs or answers.
    scenario: Literal["offline", "server", "single-stream", "multi-stream"] | None


class AdvisedSystemData(TypedDict):
    """A system that models might run on."""

    fingerprint: str  #: Identifies systems that give the same latencies.
    machine: str | None  #: Name of the machine, if it has one or equal machines are listed apart.
    cpu: str  #: Name of the processor.
    description: str  #: The system in a line, for people.
    only_in_reference_data: bool  #: Whether only the reference data have it, not the store.


class AdvisedRankingData(TypedDict):
    """Alternatives for one task."""

    name: str  #: Name of the model, or how many there are.
    #: The first first. Alternatives that are not expected to keep the bound come last.
    alternatives: list[AdvisedAlternativeData]


class AlternativeData(TypedDict):
    """A model in a place."""

    model: str  #: Name of the model.
    quantity: common.QuantityData  #: Quantity of the estimate, and its unit: latency.
    source: str  #: File or collection, as the user named it.
    system: str  #: Fingerprint of the system.
    machine: str | None  #: Name of the machine, if it has one or equal machines are listed apart.
    backend: str  #: Name of the framework.
    backend_version: str  #: Version of the framework.
    backend_options: str  #: Options of the framework, as JSON.
    threads: int  #: Threads for one operator.
    #: Processes that run the model at the same time, each with these threads; null for one process
    #: that has the system for itself.
    instances: int | None
    #: Basis of the latency: samples of the whole model there, of its bricks there, or a predictor
    #: for some of them at least.
    basis: Literal["measured", "composed", "predicted"]
    #: Shares of the sum over the model's known bricks, by where their latencies come from. They add
    #: up to 1; empty if no brick is known.
    origin: OriginSharesData
    #: Latency of a run, total time of an answer, or under load the scenario's percentile of the
    #: latency.
    estimate: float
    interval: common.Interval  #: Its 90% interval.
    #: Inferences, or output tokens of answers, a second of one process; under load, samples or
    #: queries of all instances. 0 if no rate keeps the bound.
    per_second: float
    per_second_interval: common.Interval  #: Their 90% interval.
    #: Share of the CPUs that other programs used during the measurements behind the latency, from 0
    #: to 1: on a quiet machine it would be lower.
    load: float
    per_hour: float | None  #: Price of an hour of the system.
    #: Price of a million of them if the system does nothing else; null without prices, and if there
    #: are none of them.
    price_per_million: float | None
    price_interval: common.Interval | None  #: Its 90% interval.
    accuracy: float | None  #: Accuracy of the model, in the unit of the user's file.
    #: Figures of the quantities other than latency that are bounded, by which alternatives are
    #: ordered, or that every answer has: ``time-to-first-token`` and ``time-per-output-token``.
    required: list[RequiredFigureData]


class AdvisedAlternativeData(AlternativeData):
    """One model in one place."""

    allowed: bool  #: Whether it is expected to keep the bound of latency.
    keeps_probability: float  #: Probability of keeping that bound; 1 if there is none.
    #: Probability of being the first of those that keep it. They sum to less than 1 where perhaps
    #: none does.
    first_probability: float
    #: Whether it is expected to be on the Pareto front; null without accuracies.
    on_front: bool | None
    front_probability: float | None  #: Probability of being on the front.
    by: OrderedByData  #: Figure of the quantity by which alternatives are ordered.


class RequirementData(TypedDict):
    """The most that a quantity may be."""

    quantity: common.QuantityData  #: Bounded quantity.
    maximum: float  #: Largest value that is allowed, in the unit of the quantity.


class RequiredFigureData(TypedDict):
    """Figure of a quantity other than latency that is bounded or that orders alternatives."""

    quantity: common.QuantityData  #: Bounded quantity.
    value: float  #: Its value, in the unit of the quantity.
    interval: common.Interval  #: 90% interval of it.
    maximum: float | None  #: Maximum permitted value, in the quantity's unit; null for no bound.
    allowed: bool  #: Whether the value is expected to keep that.
    keeps_probability: float  #: Probability that it does.
    basis: Literal["measured", "composed", "predicted"]  #: Basis of the value.


class OrderedByData(TypedDict):
    """Figure of the quantity by which alternatives are ordered, in its unit."""

    value: float | None  #: The value; null for the price of something that is not served at all.
    interval: common.Interval | None  #: 90% interval; null if it has no end.
    basis: Literal["measured", "composed", "predicted"]  #: Basis of the value.


def advice_data(advice: Advice) -> AdviseData:
    """Rankings with all of their figures, and the systems.

    Probabilities and shares are fractions.
    """
    places = {(place.system.fingerprint, place.name): place for place in advice.places}
    return {
        "schema_version": common.SCHEMA_VERSION,
        "settings": _settings(advice.wanted),
        "systems": [_system(each) for each in places.values()],
        "rankings": [_ranking(each) for each in advice.rankings],
        "notes": notes_data(notes(advice)),
        "failures": common.failures_data((*advice.unread, *advice.failures)),
    }


def _system(place: Place) -> AdvisedSystemData:
    return {
        "fingerprint": place.system.fingerprint,
        "machine": _machine(place),
        "cpu": place.system.cpu,
        "description": place.system.describe(),
        "only_in_reference_data": place.only_shipped,
    }


def _machine(place: Place) -> str | None:
    """Name of a place's machine, if its owner named it or equal machines are separated."""
    return (place.machine.told_apart if place.machine else "") or None


def _settings(wanted: AdviceRequest) -> AdviseSettingsData:
    return {
        "by": common.quantity_data(wanted.order.quantity),
        "max_latency_ms": wanted.longest_ms,
        "required": [
            {"quantity": common.quantity_data(each.quantity), "maximum": each.most}
            for each in wanted.bounds
        ],
        "min_accuracy": wanted.min_accuracy,
        "currency": wanted.prices.currency if wanted.prices else None,
        **common.reading_data(wanted.reading),
        "predictor": wanted.predictor,
        "workload": common.plain(wanted.workload) if wanted.workload else None,
        "counted": wanted.counted,
        "scenario": wanted.scenario.value if wanted.scenario else None,
    }


def _ranking(ranking: TaskRanking) -> AdvisedRankingData:
    return {"name": ranking.name, "alternatives": [_ranked(each) for each in ranking.ranked]}


def _ranked(ranked: Ranked) -> AdvisedAlternativeData:
    return {
        **_alternative(ranked.alternative),
        "by": _by(ranked.by),
        "allowed": ranked.is_allowed,
        "keeps_probability": ranked.keeps,
        "first_probability": ranked.first,
        "on_front": ranked.is_on_front if ranked.front is not None else None,
        "front_probability": ranked.front,
    }


def _by(known: RequiredFigure) -> OrderedByData:
    value, ends = (known.value, known.interval) if known.is_finite else (None, None)
    return {"value": value, "interval": ends, "basis": known.basis}


def _alternative(found: Alternative) -> AlternativeData:
    setup = found.place.setup
    return {
        "model": found.job.name,
        "source": found.job.source,
        "system": found.place.system.fingerprint,
        "machine": _machine(found.place),
        "backend": setup.backend,
        "backend_version": setup.version,
        "backend_options": setup.options,
        "threads": setup.threads,
        "instances": found.place.instances,
        "basis": found.basis,
        "origin": cast("OriginSharesData", dict(found.origin)),
        "quantity": common.quantity_data(LATENCY),
        "estimate": found.ms,
        "interval": found.interval_ms,
        "per_second": found.per_second,
        "per_second_interval": found.per_second_interval,
        "load": found.load,
        "per_hour": found.per_hour,
        "price_per_million": found.price,
        "price_interval": found.price_interval,
        "accuracy": found.accuracy,
        "required": [_required(each) for each in found.required],
    }


def _required(known: RequiredFigure) -> RequiredFigureData:
    return {
        "quantity": common.quantity_data(known.requirement.quantity),
        "value": known.value,
        "interval": known.interval,
        "maximum": known.requirement.most if known.requirement.is_bound else None,
        "allowed": known.is_kept,
        "keeps_probability": float(known.keeps.mean()),
        "basis": known.basis,
    }

"""Advice as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dlbricks_core.estimation.systems import told_apart
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

if TYPE_CHECKING:
    from dlbricks_core.report.run.data import OriginSharesData
    from dlbricks_serving.advice.json_objects import (
        AdvisedAlternativeData,
        AdviseData,
        AdvisedRankingData,
        AdvisedSystemData,
        AdviseSettingsData,
        AlternativeData,
        OrderedByData,
        RequiredFigureData,
    )


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
    return (told_apart(place.machine) if place.machine else "") or None


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

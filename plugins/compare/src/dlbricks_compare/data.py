"""Comparisons of backends as plain data."""

from __future__ import annotations

import math
from typing import TypedDict

from dlbricks_compare import comparison
from dlbricks_compare.ranking import Ranking, Ratio
from dlbricks_compare.report import disturbances
from dlbricks_core.commands.options.invocation import (
    Invocation,
    InvocationData,
    ModelFactsData,
    facts_data,
    invocation_data,
)
from dlbricks_core.facts import Quantity
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import notes_data


class CompareLatenciesData(common.WrittenData):
    """Models and their parts on several backends."""

    #: Settings of the command. Null for commands without a record.
    invocation: InvocationData | None
    system: common.SystemData  #: The system that the figures are of.
    backends: list[CompareBackendData]  #: The frameworks.
    settings: common.SettingsData  #: How it was done.
    totals: common.TotalsData  #: Counts over all models.
    models: list[ComparedModelData]  #: In the order in which they were named.
    #: Parts of all models between places where all backends cut them; largest differences first.
    parts: list[ComparedPartData]
    bricks: list[ComparedBrickData]  #: Different bricks of all models on all backends.
    operators: list[ComparedOperatorData]  #: Parts with the same operators together.
    warnings: list[common.NoteData]  #: Disturbances of the measurement.
    notes: list[common.NoteData]  #: Notes for people.
    failures: list[CompareFailureData]  #: Failures, with reasons.


class CompareBackendData(common.BackendData):
    """A framework that was compared."""

    timer: common.TimerData  #: Cost of a call.
    reused_networks: int  #: Networks whose samples the store held.
    measured_networks: int  #: Networks that were timed now.


class RankingData(TypedDict):
    """The fastest backend, and how clearly."""

    fastest: str | None  #: Backend with the lowest latency.
    #: The same, if it is fastest beyond doubt: beyond the intervals, and beyond the disturbances of
    #: the machine.
    winner: str | None
    clear: bool  #: Whether there is a winner.
    margin: RatioData | None  #: Second fastest over fastest.
    #: Factor by which disturbances of the machine may have slowed one backend alone; 1: there were
    #: none, null: any factor. A winner's whole margin is above it.
    slowdown: float | None


class ComparedModelData(common.ModelHeadData, RankingData):
    """A model on several backends."""

    #: Facts about the model from its file or collection. Null for commands without a record.
    facts: ModelFactsData | None
    ideal_partial: bool  #: Whether a part has no latency on any backend.
    ideal_picks: dict[str, int]  #: Parts that each backend is fastest for.
    #: Whether the sums of the parts name another backend as faster than the winner: the parts then
    #: do not explain the difference.
    contradicted: bool
    #: Parts between places where all backends cut the model; largest differences first.
    parts: list[ComparedPartData]
    backends: dict[str, ComparedModelBackendData]  #: By name.
    ideal: float | None  #: Sum of every part's lowest value: a bound.
    ideal_interval: common.Interval | None  #: 90% interval of it.
    quantity: common.QuantityData  #: Compared quantity.


class RatioData(TypedDict):
    """Latency divided by the latency of the fastest backend."""

    #: Ratio of the latencies; null: unbounded, because the fastest latency is lost in the call's
    #: cost.
    value: float | None
    interval: tuple[float | None, float | None] | None  #: 90% interval of it.


class ComparedModelBackendData(common.ModelFiguresData):
    """Figures of a model on one backend."""

    bricks: int  #: Bricks into which the backend's graph is cut, each as often as it occurs.
    unique_bricks: int  #: Different bricks among them.
    #: Sum of the parts over that on the backend that is fastest end to end; null for that backend
    #: itself.
    composed_ratio: RatioData | None
    ratio: RatioData | None  #: Over the fastest; null for the fastest itself.
    composed: float | None  #: Sum of the parts without the call's cost; null: a part has no value.
    composed_interval: common.Interval | None  #: 90% interval of that.


class ComparedPartData(common.BrickHeadData, RankingData):
    """Parts of equal structure on several backends, between two places where all cut a model."""

    backends: dict[str, ComparedPartBackendData]  #: By name.
    #: Total on the slowest backend less that on the fastest; null without two of them.
    difference: float | None


class NetData(TypedDict):
    """Value on one backend without the call's cost."""

    net: float | None  #: Value without the call's cost.
    net_interval: common.Interval | None  #: 90% interval of that.
    ratio: RatioData | None  #: Over the fastest; null for the fastest itself.


class ComparedPartBackendData(NetData):
    """Figures of parts of equal structure on one backend."""

    bricks: dict[str, int]  #: How often each brick runs for all of them, by signature.


class ComparedBrickData(common.BrickHeadData, RankingData):
    """A brick on several backends."""

    #: By name; only backends whose graphs have the brick.
    backends: dict[str, ComparedBrickBackendData]


class ComparedBrickBackendData(common.BrickFiguresData, NetData):
    """Figures of a brick on one backend."""

    occurrences: int  #: How often it occurs in all models, as this backend's graphs are cut.


class ComparedOperatorData(TypedDict):
    """All parts with the same operators."""

    layers: list[str]  #: The operators.
    occurrences: int  #: How often they occur.
    fastest: str | None  #: Backend with the lowest sum.
    missing: dict[str, int]  #: Occurrences without a latency, by backend.
    totals: dict[str, float | None]  #: Sum of latencies by backend.


class CompareFailureData(common.FailureData):
    """Something that could not be done, on one backend or on all."""

    backend: str | None  #: Null: on all of them.


def comparison_data(
    result: comparison.Comparison,
    load: LoadOptions | None = None,
    invocation: Invocation | None = None,
) -> CompareLatenciesData:
    """A comparison as the JSON object that scripts read; names are those of a run."""
    run = result.any_run
    return {
        "schema_version": common.SCHEMA_VERSION,
        "invocation": invocation_data(invocation, run.request.quantity),
        "system": common.system_data(run.request),
        "backends": [
            {
                **common.backend_data(each.request),
                "timer": {"call_ms": each.call_ms},
                "reused_networks": each.ledger.reused,
                "measured_networks": each.ledger.measured,
            }
            for each in result.runs.values()
        ],
        "settings": common.settings_data(run, load),
        "totals": _totals(result),
        "models": [_model_data(model, result.quantity, invocation) for model in result.models],
        "parts": [_part_data(part) for part in result.parts],
        "bricks": [_brick_data(brick) for brick in result.bricks],
        "operators": [
            {
                "layers": list(each.operators),
                "occurrences": each.occurrences,
                "fastest": each.fastest,
                "totals": dict(each.totals_ms),
                "missing": dict(each.missing),
            }
            for each in result.operators
        ],
        "warnings": notes_data(disturbances(result)),
        "notes": notes_data(result.notes),
        "failures": [
            {"backend": each.backend or None, **data}
            for each, data in zip(
                result.failures, common.failures_data(result.failures), strict=True
            )
        ],
    }


def _totals(result: comparison.Comparison) -> common.TotalsData:
    cuttings = [run.cutting for run in result.runs.values()]
    return {
        **common.totals(
            cuttings[0].brickset, len({s for each in cuttings for s in each.plan.timed})
        ),
        "unique_bricks": len({s for each in cuttings for s in each.brickset.bricks}),
    }


def _model_data(
    model: comparison.ModelComparison, quantity: Quantity, invocation: Invocation | None
) -> ComparedModelData:
    return {
        **common.model_head(model.cut),
        "quantity": common.quantity_data(quantity),
        "facts": facts_data(invocation, model.cut.model.name),
        **_ranking(model.ranking),
        "ideal": model.ideal.value,
        "ideal_interval": model.ideal.interval,
        "ideal_partial": model.ideal.partial,
        "ideal_picks": dict(model.picks),
        "contradicted": model.is_contradicted,
        "parts": [_part_data(part) for part in model.parts],
        "backends": {name: _model_backend(model, name) for name in model.results},
    }


def _model_backend(model: comparison.ModelComparison, name: str) -> ComparedModelBackendData:
    result, total, cost = model.results[name], model.sums.get(name), model.ranking.costs.get(name)
    return {
        **common.model_figures(result),
        # As the ranking counts it.
        "measured_interval": cost.interval_ms if cost else None,
        "ratio": _ratio(model.ranking.ratios.get(name)),
        "bricks": len(result.cut.occurrences),
        "unique_bricks": len(result.cut.counts),
        "composed": total.ms if total else None,
        "composed_interval": total.interval_ms if total else None,
        "composed_ratio": _ratio(model.sum_ratios.get(name)),
    }


def _part_data(part: comparison.PartComparison) -> ComparedPartData:
    return {
        **common.brick_head(part.brick, part.occurrences),
        **_ranking(part.ranking),
        "difference": part.difference_ms,
        "backends": {
            name: {**_net(part.ranking, name), "bricks": dict(bricks)}
            for name, bricks in part.bricks.items()
        },
    }


def _brick_data(brick: comparison.BrickComparison) -> ComparedBrickData:
    return {
        **common.brick_head(brick.brick, brick.occurrences),
        **_ranking(brick.ranking),
        "backends": {
            name: {
                **common.brick_figures(result),
                **_net(brick.ranking, name),
                "occurrences": result.occurrences,
            }
            for name, result in brick.results.items()
        },
    }


def _net(ranking: Ranking, backend: str) -> NetData:
    """Value on a backend without the call's cost, and its ratio to the fastest."""
    cost = ranking.costs.get(backend)
    return {
        "net": cost.ms if cost else None,
        "net_interval": cost.interval_ms if cost else None,
        "ratio": _ratio(ranking.ratios.get(backend)),
    }


def _ranking(ranking: Ranking) -> RankingData:
    return {
        "fastest": ranking.fastest,
        "winner": ranking.winner,
        "clear": ranking.winner is not None,
        "margin": _ratio(ranking.margin),
        "slowdown": ranking.slowdown if math.isfinite(ranking.slowdown) else None,
    }


def _ratio(ratio: Ratio | None) -> RatioData | None:
    if ratio is None:
        return None
    return {"value": ratio.value, "interval": (ratio.low, ratio.high)}

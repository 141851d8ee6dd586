"""A comparison of backends as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dlbricks_core.facts import Quantity
from dlbricks_core.figures.ranking import Ranking, Ratio
from dlbricks_core.report.comparison.words import disturbances
from dlbricks_core.report.data import (
    SCHEMA_VERSION,
    backend_data,
    brick_head,
    brick_result,
    facts_data,
    in_unit,
    invocation_data,
    model_head,
    model_result,
    quantity_data,
    settings_data,
    system_data,
    totals,
)
from dlbricks_core.workflows import (
    BrickComparison,
    Comparison,
    Invocation,
    LoadOptions,
    ModelComparison,
    PartComparison,
)


def comparison_data(
    result: Comparison, load: LoadOptions | None = None, invocation: Invocation | None = None
) -> dict[str, Any]:
    """A comparison as the JSON object that scripts read; names are those of a run.

    Args:
        result: The comparison.
        load: How models were read; ``None`` if unknown.
        invocation: The user's request; ``None`` if unknown.
    """
    run = result.any_run
    return {
        "schema_version": SCHEMA_VERSION,
        "invocation": invocation_data(invocation, run.request.quantity),
        "system": system_data(run.request),
        "backends": [
            {
                **backend_data(each.request),
                "timer": {"call_ms": each.call_ms},
                "reused_networks": each.outcome.reused,
                "measured_networks": each.outcome.measured,
            }
            for each in result.runs.values()
        ],
        "settings": settings_data(run, load),
        "totals": _totals(result),
        "models": [_model_data(model, result.quantity, invocation) for model in result.models],
        "parts": [_part_data(part, result.quantity) for part in result.parts],
        "bricks": [_brick_data(brick, result.quantity) for brick in result.bricks],
        "operators": [
            in_unit(
                {
                    "layers": list(each.operators),
                    "occurrences": each.occurrences,
                    "fastest": each.fastest,
                    "totals_ms": dict(each.totals_ms),
                    "missing": dict(each.missing),
                },
                result.quantity,
            )
            for each in result.operators
        ],
        "warnings": disturbances(result),
        "notes": list(result.notes),
        "failures": [
            {"backend": f.backend or None, "where": f.where, "reason": f.reason}
            for f in result.failures
        ],
    }


def _totals(result: Comparison) -> dict[str, int]:
    """Counts over all models and backends."""
    cuttings = [run.cutting for run in result.runs.values()]
    return {
        **totals(cuttings[0].brickset, len({s for each in cuttings for s in each.plan.timed})),
        "unique_bricks": len({s for each in cuttings for s in each.brickset.bricks}),
    }


def _model_data(
    model: ModelComparison, quantity: Quantity, invocation: Invocation | None
) -> dict[str, Any]:
    backends = {name: model_result(each) for name, each in model.results.items()}
    for name, entry in backends.items():
        cut, total = model.results[name].cut, model.sums.get(name)
        entry["bricks"] = len(cut.occurrences)
        entry["unique_bricks"] = len(cut.counts)
        entry["parts_ms"] = total.ms if total else None
        entry["parts_interval_ms"] = total.interval_ms if total else None
        entry["parts_ratio"] = _ratio(model.sum_ratios.get(name))
    found = {
        **model_head(model.cut),
        "quantity": quantity_data(quantity),
        "facts": facts_data(invocation, model.cut.model.name),
        **_ranking(model.ranking),
        "ideal_ms": model.ideal.value,
        "ideal_interval_ms": model.ideal.interval,
        "ideal_partial": model.ideal.partial,
        "ideal_picks": dict(model.picks),
        "contradicted": model.is_contradicted,
        "parts": [_part_data(part, quantity) for part in model.parts],
        "backends": _by_backend(backends, model.ranking, "measured_interval_ms", quantity),
    }
    return in_unit(found, quantity)


def _part_data(part: PartComparison, quantity: Quantity) -> dict[str, Any]:
    costs = part.ranking.costs
    backends: dict[str, dict[str, Any]] = {
        name: {"net_ms": costs[name].ms if name in costs else None, "bricks": dict(bricks)}
        for name, bricks in part.bricks.items()
    }
    found = {
        **brick_head(part.brick, part.occurrences),
        **_ranking(part.ranking),
        "difference_ms": part.difference_ms,
        "backends": _by_backend(backends, part.ranking, "net_interval_ms", quantity),
    }
    return in_unit(found, quantity)


def _brick_data(each: BrickComparison, quantity: Quantity) -> dict[str, Any]:
    backends = {name: brick_result(result) for name, result in each.results.items()}
    costs = each.ranking.costs
    for name, entry in backends.items():
        entry["net_ms"] = costs[name].ms if name in costs else None
        entry["occurrences"] = each.results[name].occurrences
    return {
        **brick_head(each.brick, each.occurrences),
        **_ranking(each.ranking),
        "backends": _by_backend(backends, each.ranking, "net_interval_ms", quantity),
    }


def _by_backend(
    backends: Mapping[str, dict[str, Any]],
    ranking: Ranking,
    interval_name: str,
    quantity: Quantity,
) -> dict[str, Any]:
    """Adds to each backend's figures the comparison with the fastest backend."""
    for name, entry in backends.items():
        cost, ratio = ranking.costs.get(name), ranking.ratios.get(name)
        entry[interval_name] = cost.interval_ms if cost else None
        entry["ratio"] = _ratio(ratio)
    return {name: in_unit(entry, quantity) for name, entry in backends.items()}


def _ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "fastest": ranking.fastest,
        "winner": ranking.winner,
        "clear": ranking.winner is not None,
        "margin": _ratio(ranking.margin),
        "slowdown": ranking.slowdown if math.isfinite(ranking.slowdown) else None,
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    if ratio is None:
        return None
    return {"value": ratio.value, "interval": [ratio.low, ratio.high]}

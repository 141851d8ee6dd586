"""An explanation as plain data."""

from __future__ import annotations

from typing import Any

from dlbricks_core.report.run.data import run_data
from dlbricks_core.workflows import LoadOptions
from dlbricks_core.workflows.explain import Explanation, Group


def explanation_data(explanation: Explanation, load: LoadOptions | None = None) -> dict[str, Any]:
    """The run as written by :func:`run_data`, with the groups of the explanation.

    Args:
        explanation: The explanation.
        load: How models were read; ``None`` if unknown.
    """
    profile, estimate = explanation.profile, explanation.model.estimate
    return {
        **run_data(explanation.result, load),
        "explanation": {
            "model": explanation.model.cut.model.name,
            "composed_ms": explanation.composed_ms,
            "interval_ms": estimate.interval,
            "partial": estimate.partial,
            "measured_ms": explanation.measured_ms,
            "deviation_ms": explanation.deviation_ms,
            "call_ms": explanation.call_ms,
            "groups_deviation_ms": explanation.groups_ms,
            "rest_deviation_ms": explanation.rest_ms,
            "profile": {
                "sum_ms": profile.sum_ms if profile else None,
                "run_ms": profile.run_ms if profile else None,
                "scale": explanation.scale,
                "missing": explanation.profiling.reason or None,
                "outside_groups": [
                    {"name": each.name, "layer": each.operator, "ms": each.ms}
                    for each in explanation.outside
                ],
            },
            "groups": [_group_data(group) for group in explanation.groups],
        },
    }


def _group_data(group: Group) -> dict[str, Any]:
    return {
        "positions": list(group.positions),
        "signatures": list(group.signatures),
        "layers": list(group.operators),
        "inputs": [str(spec) for spec in group.inputs],
        "outputs": [str(spec) for spec in group.outputs],
        "occurrences": group.occurrences,
        "composed_ms": group.cost.ms if group.cost else None,
        "interval_ms": group.cost.interval_ms if group.cost else None,
        "profiled_ms": group.profiled_ms,
        "scaled_ms": group.scaled_ms,
        "deviation_ms": group.deviation_ms,
        "remarks": list(group.remarks),
    }

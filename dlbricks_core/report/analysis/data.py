"""An analysis of models as plain data."""

from __future__ import annotations

from typing import Any

from dlbricks_core.analysis import Analysis, ModelAnalysis, Repetition
from dlbricks_core.report.analysis.words import notes
from dlbricks_core.report.data import SCHEMA_VERSION


def analysis_data(analysis: Analysis) -> dict[str, Any]:
    """An analysis as the JSON object that scripts read.

    ``similarity.matrix`` has a row and a column for each of ``similarity.names``, in their
    order.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "models": [_model_data(each) for each in analysis.models],
        "totals": {
            **_repetition_data(analysis.repetition),
            "flops": analysis.operations.flops,
            "unique_flops": analysis.operations.unique,
        },
        "similarity": {
            "measure": "jaccard",
            "names": list(analysis.similarity.names),
            "matrix": [list(row) for row in analysis.similarity.matrix],
        },
        "notes": notes(analysis),
    }


def _model_data(each: ModelAnalysis) -> dict[str, Any]:
    return {
        "name": each.name,
        "source": each.cut.model.source,
        **_repetition_data(each.repetition),
        "flops": each.work.flops,
        "without_flops": dict(each.work.without_flops),
        "moved_bytes": each.work.moved_bytes,
        "without_bytes": dict(each.work.without_bytes),
        "weight_bytes": each.work.weight_bytes,
        "signatures": list(each.cut.layer_signatures),
    }


def _repetition_data(repetition: Repetition) -> dict[str, Any]:
    return {
        "layers": repetition.total.layers,
        "unique_layers": repetition.total.unique,
        "unique_share": repetition.total.unique_share,
        "repeated_layers": repetition.total.repeated,
        "operators": {
            name: {
                "layers": count.layers,
                "unique": count.unique,
                "repeated": count.repeated,
                "share_of_repeated": repetition.repeated_shares.get(name, 0.0),
            }
            for name, count in repetition.types.items()
        },
    }

"""Tables of a study, one for each figure of the paper; each becomes a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dlbricks_core.harmless import harmless
from dlbricks_core.report.study.record import StudyRecord, WayRecord

Row = Mapping[str, str | int | float | bool | None]
"""Values by column; ``None`` for an unknown value."""


def latencies(study: StudyRecord) -> Iterator[Row]:
    """Figure 9: measured end-to-end latency of each model, with its 90% interval."""
    for model in study.models:
        if model.measured_ms is None or model.interval_ms is None:
            continue
        low, high = model.interval_ms
        yield {
            "model": model.name,
            "source": model.source,
            "measured_ms": model.measured_ms,
            "low_ms": low,
            "high_ms": high,
            "runs": model.runs,
        }


def totals(study: StudyRecord) -> Iterator[Row]:
    """Figure 3: sequential and parallel total latency, over the measured one."""
    way = study.finest
    for each in way.models:
        yield {
            "model": each["name"],
            "granularity": way.granularity,
            "measured_ms": each["measured_ms"],
            "sequential_ms": each["estimate_ms"],
            "parallel_ms": each["parallel_estimate_ms"],
            "sequential_normalized": each["normalized"],
            "parallel_normalized": each["parallel_estimate_ms"] / each["measured_ms"],
        }


def layers(study: StudyRecord) -> Iterator[Row]:
    """Figure 5: all layers and unique layers of each model."""
    for each in study.models:
        count = each.repetition.total
        yield {
            "model": each.name,
            "source": each.source,
            "layers": count.layers,
            "unique_layers": count.unique,
            "unique_share": count.unique_share,
        }


def repeated_types(study: StudyRecord) -> Iterator[Row]:
    """Figure 6: operator types of each model's repeated layers."""
    for each in study.models:
        for operator, count in each.repetition.types.items():
            yield {
                "model": each.name,
                "operator": operator,
                "layers": count.layers,
                "unique_layers": count.unique,
                "repeated_layers": count.repeated,
                "share_of_repeated": each.repetition.repeated_shares.get(operator, 0.0),
            }


def similarities(study: StudyRecord) -> Iterator[Row]:
    """Figure 7: Jaccard similarity of every two models' sets of unique layers."""
    similarity = study.similarity
    for first, row in zip(similarity.names, similarity.matrix, strict=True):
        for second, value in zip(similarity.names, row, strict=True):
            yield {"first": first, "second": second, "jaccard": value}


def normalized(study: StudyRecord) -> Iterator[Row]:
    """Figure 10: estimate over measured latency of each model in each way."""
    for way in study.ways:
        for each in way.models:
            low, high = each["interval_ms"] or (None, None)
            yield {
                "model": each["name"],
                **_way(way),
                "estimate_ms": each["estimate_ms"],
                "low_ms": low,
                "high_ms": high,
                **{name: each[name] for name in _OF_MODEL},
            }


def granularities(study: StudyRecord) -> Iterator[Row]:
    """Figure 11: geometric mean of the normalized latencies, and the errors that it hides."""
    for way in study.ways:
        worst = way.data["worst"] or {}
        yield {
            **_way(way),
            "models": len(way.models),
            **{name: way.data[name] for name in _OF_WAY},
            "worst_model": worst.get("name"),
            "worst_error": worst.get("error"),
            "coverage": way.data["coverage"],
        }


def speedups(study: StudyRecord) -> Iterator[Row]:
    """Figure 12: benchmarking speedup by each definition."""
    for way in study.ways:
        for definition, found in way.speedups.items():
            if found:
                yield {**_way(way), "definition": definition, **found}


def bricks(study: StudyRecord) -> Iterator[Row]:
    """Latency of the unique bricks of each way; estimates and speedups rest on these."""
    return study.bricks


def _way(way: WayRecord) -> Row:
    return {"composer": way.composer, "granularity": way.granularity}


_OF_MODEL = ("parallel_estimate_ms", "measured_ms", "normalized", "error", "covered")

_OF_WAY = (
    "layers",
    "bricks",
    "unique_bricks",
    "timed_bricks",
    "geometric_mean",
    "mape",
    "within_5_percent",
    "within_10_percent",
)

TABLES: dict[str, Callable[[StudyRecord], Iterator[Row]]] = {
    "totals": totals,
    "layers": layers,
    "repeated_types": repeated_types,
    "jaccard": similarities,
    "latency": latencies,
    "normalized": normalized,
    "granularities": granularities,
    "speedups": speedups,
    "bricks": bricks,
}
"""Tables by the name of their file, in the order of the paper's figures."""


def as_csv(rows: Iterator[Row]) -> str:
    """A table as comma-separated values with a line of column names.

    Truth values are written as 1 and 0. The cell of an unknown value is empty.
    """
    lines = [dict(row) for row in rows]
    text = io.StringIO()
    if lines:
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _plain(v) for k, v in line.items()} for line in lines)
    return text.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return harmless(value) if isinstance(value, str) else value

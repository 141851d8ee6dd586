"""A study as tidy tables, one for each figure of the paper; each becomes a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dlbricks_core.figures.figure import interval
from dlbricks_core.harmless import harmless
from dlbricks_core.report.evaluation import TOLERANCES
from dlbricks_core.report.study_ways import finest, ways
from dlbricks_core.workflows import Benchmarking, Evaluation, Study

Row = Mapping[str, str | int | float | bool | None]
"""A value for each column; ``None`` where there is nothing to say."""


def latencies(study: Study) -> Iterator[Row]:
    """Figure 9: measured end-to-end latency of each model, with its 90% interval."""
    for model in study.default.result.models:
        if model.measured is None:
            continue
        low, high = interval(model.measured.replicates)
        yield {
            "model": model.cut.model.name,
            "source": model.cut.model.source,
            "measured_ms": model.measured.value,
            "low_ms": low,
            "high_ms": high,
            "runs": len(model.measured.samples),
        }


def totals(study: Study) -> Iterator[Row]:
    """Figure 3: sequential and parallel total latency, over the measured one."""
    way = finest(study)
    for each in way.models:
        parallel_ms = each.model.parallel.value
        assert parallel_ms is not None
        yield {
            "model": each.name,
            "granularity": way.result.cut_options.granularity,
            "measured_ms": each.measured_ms,
            "sequential_ms": each.estimate_ms,
            "parallel_ms": parallel_ms,
            "sequential_normalized": each.normalized,
            "parallel_normalized": parallel_ms / each.measured_ms,
        }


def layers(study: Study) -> Iterator[Row]:
    """Figure 5: all layers and unique layers of each model."""
    for each in study.analysis.models:
        count = each.repetition.total
        yield {
            "model": each.name,
            "source": each.cut.model.source,
            "layers": count.layers,
            "unique_layers": count.unique,
            "unique_share": count.unique_share,
        }


def repeated_types(study: Study) -> Iterator[Row]:
    """Figure 6: operator types of each model's repeated layers."""
    for each in study.analysis.models:
        for operator, count in each.repetition.types.items():
            yield {
                "model": each.name,
                "operator": operator,
                "layers": count.layers,
                "unique_layers": count.unique,
                "repeated_layers": count.repeated,
                "share_of_repeated": each.repetition.repeated_shares.get(operator, 0.0),
            }


def similarities(study: Study) -> Iterator[Row]:
    """Figure 7: Jaccard similarity of every two models' sets of unique layers."""
    similarity = study.analysis.similarity
    for first, row in zip(similarity.names, similarity.matrix, strict=True):
        for second, value in zip(similarity.names, row, strict=True):
            yield {"first": first, "second": second, "jaccard": value}


def normalized(study: Study) -> Iterator[Row]:
    """Figure 10: estimates over measured latencies, model by model and way by way."""
    for way in ways(study):
        for each in way.models:
            low, high = each.model.estimate.interval or (None, None)
            yield {
                "model": each.name,
                **_way(way),
                "estimate_ms": each.estimate_ms,
                "low_ms": low,
                "high_ms": high,
                "parallel_estimate_ms": each.model.parallel.value,
                "measured_ms": each.measured_ms,
                "normalized": each.normalized,
                "error": each.error,
                "covered": each.covered,
            }


def granularities(study: Study) -> Iterator[Row]:
    """Figure 11: geometric mean of the normalized latencies, and what it hides."""
    for way in ways(study):
        worst, bricks = way.worst, way.result.brickset
        yield {
            **_way(way),
            "models": len(way.models),
            "layers": bricks.layers,
            "bricks": sum(len(cut.occurrences) for cut in bricks.models),
            "unique_bricks": len(bricks.bricks),
            "timed_bricks": bricks.timed,
            "geometric_mean": way.geometric_mean,
            "mape": way.mape,
            "within_5_percent": way.within(TOLERANCES[0]),
            "within_10_percent": way.within(TOLERANCES[1]),
            "worst_model": worst.name if worst else None,
            "worst_error": worst.error if worst else None,
            "coverage": way.coverage,
        }


def speedups(study: Study) -> Iterator[Row]:
    """Figure 12: what benchmarking by bricks saves, in each definition."""
    for way in ways(study):
        for definition, found in definitions(way).items():
            if found:
                yield {
                    **_way(way),
                    "definition": definition,
                    "models_s": found.models_s,
                    "bricks_s": found.bricks_s,
                    "speedup": found.speedup,
                }


def bricks(study: Study) -> Iterator[Row]:
    """The latencies that the estimates and speedups rest on: unique bricks of each way."""
    for way in ways(study):
        compared = {s for each in way.models for s in way.result.timed_for(each.model.cut)}
        for brick in way.result.bricks:
            if brick.brick.signature in compared and brick.latency:
                yield {
                    **_way(way),
                    "signature": brick.brick.signature,
                    "operators": " ".join(brick.brick.operators),
                    "occurrences": brick.occurrences,
                    "latency_ms": brick.latency.value,
                    "call_ms": brick.latency.overhead,
                }


def definitions(way: Evaluation) -> dict[str, Benchmarking | None]:
    """The benchmarking speedups of a way; ``None`` where one is not known."""
    found = {"paper": way.speedups.paper, "wall_clock": way.speedups.wall_clock}
    return {name: each if each and each.bricks_s else None for name, each in found.items()}


def _way(way: Evaluation) -> Row:
    options = way.result.cut_options
    return {"composer": options.composer, "granularity": options.granularity}


TABLES: dict[str, Callable[[Study], Iterator[Row]]] = {
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
"""By the name of the file, in the order of the paper's figures."""


def as_csv(rows: Iterator[Row]) -> str:
    """A table as comma-separated values with a line of column names.

    Truth is written as 1 and 0; where there is nothing to say a cell is empty.
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

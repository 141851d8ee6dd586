"""A study as plain data: everything that its page and tables show. Raw samples are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlbricks_core.figures.figure import interval
from dlbricks_core.report.analysis.data import analysis_data
from dlbricks_core.report.data import backend_data, settings_data, system_data, totals
from dlbricks_core.report.evaluation.data import figures_data, speedup_data
from dlbricks_core.report.study.published import published_data
from dlbricks_core.report.study.ways import (
    Span,
    absent,
    definitions,
    failures,
    remarks,
    ways,
)
from dlbricks_core.workflows import Evaluation, LoadOptions, ModelEvaluation, ModelResult, Study


def study_data(study: Study, load: LoadOptions | None = None) -> dict[str, Any]:
    """A study as the JSON object that scripts read.

    ``models``, ``totals`` and ``similarity`` are what ``dlbricks analyze`` writes, with each
    model's measured latency added. ``evaluations`` holds the paper's way by granularity,
    then DLBricks' own composers, and ``bricks`` the unique bricks of each way. Errors and
    shares are fractions: 0.03 is 3%.

    Args:
        study: The study.
        load: How models were read; ``None`` if unknown.
    """
    result = study.default.result
    request = result.request
    analysis = analysis_data(study.analysis)
    span = Span.of(study)
    settings = settings_data(result, load)
    for name in ("granularity", "split", "composer", "predictor"):
        del settings[name]
    data = {
        "schema_version": analysis["schema_version"],
        "system": {
            **system_data(request),
            "description": request.target.describe(),
        },
        "backend": backend_data(request),
        "settings": {**settings, "granularities": list(study.by_granularity)},
        "measured": {
            "begin": span.begin.isoformat(timespec="seconds") if span else None,
            "end": span.end.isoformat(timespec="seconds") if span else None,
            "sessions": span.sessions if span else 0,
        },
        "timer": {"call_ms": result.call_ms},
        "models": [
            {**layers, **_measured(model)}
            for layers, model in zip(analysis["models"], result.models, strict=True)
        ],
        "totals": analysis["totals"],
        "similarity": analysis["similarity"],
        "evaluations": [_evaluation(way) for way in ways(study)],
        "bricks": list(_bricks(study)),
        "left_out": [
            {"name": each.name, "ways": list(each.ways), "reason": each.reason}
            for each in absent(study)
        ],
        "notes": [*remarks(study), *analysis["notes"]],
        "failures": [{"where": f.where, "reason": f.reason} for f in failures(study)],
    }
    return {**data, "published": published_data(data)}


def _measured(model: ModelResult) -> dict[str, Any]:
    latency = model.measured
    return {
        "measured_ms": latency.value if latency else None,
        "measured_interval_ms": interval(latency.replicates) if latency else None,
        "measured_samples_ms": list(latency.samples) if latency else [],
    }


def _evaluation(way: Evaluation) -> dict[str, Any]:
    options = way.result.cut_options
    return {
        "granularity": options.granularity,
        "split": options.strategy,
        "composer": options.composer,
        **totals(way.result.brickset, len(way.result.cutting.plan.timed)),
        "bricks": sum(len(cut.occurrences) for cut in way.result.brickset.models),
        **figures_data(way),
        "speedup": {name: speedup_data(each) for name, each in definitions(way).items()},
        "models": [_model(each) for each in way.models],
    }


def _model(each: ModelEvaluation) -> dict[str, Any]:
    model = each.model
    return {
        "name": each.name,
        "source": model.cut.model.source,
        "bricks": len(model.cut.occurrences),
        "unique_bricks": len(model.cut.counts),
        "estimate_ms": each.estimate_ms,
        "interval_ms": model.estimate.interval,
        "parallel_estimate_ms": model.parallel.value,
        "measured_ms": each.measured_ms,
        "normalized": each.normalized,
        "error": each.error,
        "covered": each.covered,
        "same_rounds": each.same_rounds,
    }


def _bricks(study: Study) -> Iterator[dict[str, Any]]:
    """Unique bricks of each way, with the latencies that estimates and speedups rest on."""
    for way in ways(study):
        options = way.result.cut_options
        compared = {s for each in way.models for s in way.result.timed_for(each.model.cut)}
        for brick in way.result.bricks:
            if brick.brick.signature in compared and brick.latency:
                yield {
                    "composer": options.composer,
                    "granularity": options.granularity,
                    "signature": brick.brick.signature,
                    "operators": " ".join(brick.brick.operators),
                    "occurrences": brick.occurrences,
                    "latency_ms": brick.latency.value,
                    "call_ms": brick.latency.overhead,
                }

"""An evaluation as plain data."""

from __future__ import annotations

from typing import Any

from dlbricks_core.report.evaluation.words import TOLERANCES
from dlbricks_core.report.run.data import run_data
from dlbricks_core.workflows import (
    Benchmarking,
    Evaluation,
    Invocation,
    LoadOptions,
    ModelEvaluation,
)


def evaluation_data(
    evaluation: Evaluation, load: LoadOptions | None = None, invocation: Invocation | None = None
) -> dict[str, Any]:
    """The run as written by :func:`run_data`, with the figures of the evaluation.

    Errors, shares and half-widths are fractions: 0.03 is 3%.

    Args:
        evaluation: The evaluation.
        load: How models were read; ``None`` if unknown.
        invocation: The user's request; ``None`` if unknown.
    """
    speedups = evaluation.speedups
    return {
        **run_data(evaluation.result, load, invocation),
        "evaluation": {
            "models": [_model(model) for model in evaluation.models],
            **figures_data(evaluation),
            "speedup": {
                "paper": speedup_data(speedups.paper),
                "wall_clock": speedup_data(speedups.wall_clock),
                "equal_precision": speedup_data(speedups.equal_precision),
                "precision": speedups.precision,
            },
        },
    }


def figures_data(evaluation: Evaluation) -> dict[str, Any]:
    """Figures over all models, and the models that they leave out."""
    worst = evaluation.worst
    return {
        "left_out": [{"name": e.subject, "reason": e.reason} for e in evaluation.left_out],
        "mape": evaluation.mape,
        "within_5_percent": evaluation.within(TOLERANCES[0]),
        "within_10_percent": evaluation.within(TOLERANCES[1]),
        "worst": {"name": worst.name, "error": worst.error} if worst else None,
        "geometric_mean": evaluation.geometric_mean,
        "coverage": evaluation.coverage,
        "median_half_width": evaluation.median_half_width,
    }


def speedup_data(benchmarking: Benchmarking | None) -> dict[str, float] | None:
    """Seconds of both sides and their ratio; ``None`` if unknown."""
    if benchmarking is None:
        return None
    return {
        "models_s": benchmarking.models_s,
        "bricks_s": benchmarking.bricks_s,
        "speedup": benchmarking.speedup,
    }


def _model(model: ModelEvaluation) -> dict[str, Any]:
    return {
        "name": model.name,
        "source": model.model.cut.model.source,
        "estimate_ms": model.estimate_ms,
        "interval_ms": model.model.estimate.interval,
        "measured_ms": model.measured_ms,
        "normalized": model.normalized,
        "error": model.error,
        "covered": model.covered,
        "half_width": model.half_width,
        "same_rounds": model.same_rounds,
    }

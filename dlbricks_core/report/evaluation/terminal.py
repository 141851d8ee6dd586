"""An evaluation of estimates as a table and as plain data."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import run_data
from dlbricks_core.report.run.terminal import print_head, print_remarks
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import Benchmarking, Evaluation, LoadOptions, ModelEvaluation, Speedups

TOLERANCES = (0.05, 0.10)
"""Errors that figures and plots draw a line at."""


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """A table and remarks for a terminal of 80 columns."""
    print_head(console, evaluation.result)
    console.print(_models(evaluation))
    console.print("In ms. Norm.: estimate/measured. Covered: the interval holds the measured.")
    _print_figures(console, evaluation)
    for line in speedup_lines(evaluation.speedups):
        console.print(line)
    apart = [model.name for model in evaluation.models if not model.same_rounds]
    if apart:
        text = " not all bricks were timed in the same rounds as the model: "
        console.print(styled(("Note:", "yellow"), f"{text}{', '.join(apart)}"))
    print_remarks(console, evaluation.result)


def _models(evaluation: Evaluation) -> Table:
    shown = table("Model", "Estimate", "Interval", "Measured", "Norm.", "Error", "Covered")
    for model in evaluation.models:
        ends = model.model.estimate.interval
        shown.add_row(
            model.name,
            ms(model.estimate_ms),
            "-" if ends is None else f"{ms(ends[0])}-{ms(ends[1])}",
            ms(model.measured_ms),
            f"{model.normalized:.3f}",
            percent(model.error),
            "yes" if model.covered else "no",
        )
    return shown


def _print_figures(console: Console, evaluation: Evaluation) -> None:
    if evaluation.left_out:
        names = ", ".join(each.subject for each in evaluation.left_out)
        console.print(styled(("Left out of the figures:", "red"), f" {names}"))
    worst = evaluation.worst
    if worst is None:
        console.print("No model has both a complete estimate and a measured latency.")
        return
    assert evaluation.mape is not None
    assert evaluation.coverage is not None
    assert evaluation.median_half_width is not None
    within = ", ".join(f"{evaluation.within(t):.0%} within ±{t:.0%}" for t in TOLERANCES)
    number = len(evaluation.models)
    console.print(
        styled(
            (f"{number} model{'' if number == 1 else 's'}:", "bold"),
            f" mean absolute error {evaluation.mape:.2%}; {within}; worst {worst.name} "
            f"({percent(worst.error)}); geometric mean {evaluation.geometric_mean:.3f}.",
        )
    )
    console.print(
        f"Intervals: {evaluation.coverage:.0%} contain the measured latency; "
        f"median half-width ±{evaluation.median_half_width:.2%}."
    )
    plan = evaluation.result.cutting.plan
    if plan.not_timed:
        every, besides = len(plan.recipes), len(plan.besides)
        console.print(
            f"{every - len(plan.not_timed):,} of {every:,} unique bricks timed"
            f"{f', and {besides:,} networks besides' if besides else ''}; the others follow."
        )


def speedup_lines(speedups: Speedups) -> list[str]:
    """What benchmarking by bricks saves, a sentence for each definition."""
    named = (
        ("one run each, as in the paper", speedups.paper),
        ("wall-clock, loading included", speedups.wall_clock),
        (f"wall-clock for intervals of ±{speedups.precision:.1%}", speedups.equal_precision),
    )
    return [
        f"Benchmarking speedup ({name}): {each.speedup:.2f}x = "
        f"{each.models_s:.3g} s of models / {each.bricks_s:.3g} s of bricks."
        for name, each in named
        if each is not None
    ]


def percent(error: float) -> str:
    """A signed relative error in percent."""
    return f"{error:+.1%}"


def evaluation_data(evaluation: Evaluation, load: LoadOptions | None = None) -> dict[str, Any]:
    """The run as :func:`run_data` writes it, and what the evaluation adds.

    Errors, shares and half-widths are fractions: 0.03 is 3%.

    Args:
        evaluation: What was found out.
        load: What was said about how models are read.
    """
    speedups = evaluation.speedups
    return {
        **run_data(evaluation.result, load),
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
    """What is said over all models, and which of them it does not speak of."""
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
    """Both sides' seconds and their quotient; ``None`` where it is not known."""
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

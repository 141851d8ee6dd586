"""Results of an evaluation in sentences."""

from __future__ import annotations

from dlbricks_core.report.heading import count, subject
from dlbricks_core.workflows import Evaluation, Speedups

TOLERANCES = (0.05, 0.10)
"""Relative errors that figures and plots mark."""


def answer(evaluation: Evaluation) -> list[str]:
    """Sentences on the errors of estimates, and on the coverage of their intervals."""
    worst = evaluation.worst
    if worst is None:
        lacking = "no model has both a complete estimate and a measured latency"
        return [f"{subject(evaluation.result)}: {lacking}."]
    assert evaluation.mape is not None
    assert evaluation.coverage is not None
    assert evaluation.median_half_width is not None
    within = ", ".join(f"{evaluation.within(t):.0%} within ±{t:.0%}" for t in TOLERANCES)
    held = sum(model.covered for model in evaluation.models)
    several = (
        f"mean absolute error {evaluation.mape:.2%}; {within}; worst {worst.name} "
        f"({percent(worst.error)}); geometric mean {evaluation.geometric_mean:.3f}"
    )
    one = f"error {percent(worst.error)}"
    holds = "holds" if held == 1 else "hold"
    return [
        f"{subject(evaluation.result)}: {several if len(evaluation.models) > 1 else one}.",
        f"{held} of {count(len(evaluation.models), 'interval')} {holds} the measured latency "
        f"({evaluation.coverage:.0%}; 90% is intended); median half-width "
        f"±{evaluation.median_half_width:.2%}.",
    ]


def basis(evaluation: Evaluation) -> str:
    """A sentence on the origin of the estimates; empty if all bricks were timed."""
    if evaluation.result.request.condition == "hot":
        return (
            "Each estimate rests on runs of the other models and on predictions, as if the model "
            "itself had not run."
        )
    plan = evaluation.result.cutting.plan
    if not plan.not_timed:
        return ""
    timed, every = len(plan.timed), len(plan.recipes)
    return f"{timed:,} of {every:,} unique bricks timed; the others follow."


def speedup_lines(speedups: Speedups) -> list[str]:
    """Speedup of benchmarking by bricks, one sentence for each definition."""
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


def apart(evaluation: Evaluation) -> str:
    """Models whose bricks were timed at other times than the whole; empty if there are none."""
    names = [model.name for model in evaluation.models if not model.same_rounds]
    if not names:
        return ""
    return f"not all bricks were timed in the same rounds as the model: {', '.join(names)}"


def percent(error: float) -> str:
    """A signed relative error in percent."""
    return f"{error:+.1%}"

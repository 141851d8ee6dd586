"""Evaluations: estimates beside measured latencies, in JSON, sentences, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rich.table import Table

from dlbricks_accuracy.evaluation import Evaluation, ModelEvaluation
from dlbricks_accuracy.speedup import Speedups
from dlbricks_core.commands.estimate.data import EstimateData, run_data
from dlbricks_core.commands.estimate.terminal import rests_on
from dlbricks_core.commands.options.invocation import Invocation
from dlbricks_core.estimation.results import Benchmarking
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report.columns import OwnColumn, own_columns
from dlbricks_core.report.data import Interval, QuantityData, quantity_data
from dlbricks_core.report.heading import print_result, subject
from dlbricks_core.report.remarks import (
    Effect,
    Remark,
    ranked,
    run_remarks,
)
from dlbricks_core.report.tables import Console, filled_table, interval_text, ms, styled
from dlbricks_core.wording import count


class CheckAccuracyData(EstimateData):
    """Output of ``dlbricks check``: as ``dlbricks estimate``, and an evaluation."""

    evaluation: EvaluationData  #: Errors over all models.


class EvaluationFiguresData(TypedDict):
    """Figures over all models, and the models that they leave out."""

    left_out: list[LeftOutData]  #: Models without an estimate or a latency.
    mape: float | None  #: Mean absolute error, relative.
    within_5_percent: float | None  #: Share of models that are off by at most 5%.
    within_10_percent: float | None  #: Share of models that are off by at most 10%.
    worst: WorstModelData | None  #: The largest error, either way.
    geometric_mean: float | None  #: Of estimate over measured latency.
    coverage: float | None  #: Share of intervals that hold the measured latency.
    median_half_width: float | None  #: Median relative half-width of the intervals.


class EvaluationData(EvaluationFiguresData):
    """Errors over all models. Shares and errors are fractions: 0.03 is 3%."""

    quantity: QuantityData  #: Quantity of the figures, and their unit.
    models: list[EvaluatedModelData]  #: Models with an estimate and a latency.
    speedup: SpeedupsData  #: Time that benchmarking by bricks saves.


class EvaluatedModelData(TypedDict):
    """A model's estimate beside its measured latency."""

    name: str  #: Name of the model.
    source: str  #: File or collection, as the user named it.
    estimate: float  #: Estimate in the quantity's unit.
    interval: Interval | None  #: 90% interval of it, in the hour of the measurements.
    measured: float  #: Measured value of the whole model.
    normalized: float  #: Estimate over measured latency.
    error: float  #: Relative error: the normalized estimate minus 1.
    covered: bool  #: Whether the interval of this hour holds the measured latency.
    half_width: float  #: Half of the interval over its middle.
    same_rounds: bool  #: Whether every brick was timed in rounds in which the model was.


class LeftOutData(TypedDict):
    """A model that no figure speaks of."""

    name: str  #: Name of the model.
    reason: str  #: Why.


class WorstModelData(TypedDict):
    """A model's error."""

    name: str  #: Name of the model.
    error: float  #: Relative to the measured latency; negative: the estimate is too low.


class SpeedupData(TypedDict):
    """Both sides' seconds."""

    models_s: float  #: Seconds for whole models.
    bricks_s: float  #: Seconds for bricks.
    speedup: float | None  #: Their ratio.


class SpeedupsData(TypedDict):
    """Speedups by definition."""

    paper: SpeedupData | None  #: One run of each model and each timed brick.
    wall_clock: SpeedupData | None  #: Seconds that this command spent.
    equal_precision: SpeedupData | None  #: Seconds that both sides need for intervals of one width.
    precision: float  #: Relative half-width of these intervals.


TOLERANCES = (0.05, 0.10)  #: Relative errors that figures and plots mark.


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
        f"({percent(worst.error)}); geometric mean of estimate / measured "
        f"{evaluation.geometric_mean:.3f}"
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
            "Each estimate rests on runs of the other models and on predictions, without the "
            "model's own run."
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


def evaluation_data(
    evaluation: Evaluation, load: LoadOptions | None = None, invocation: Invocation | None = None
) -> CheckAccuracyData:
    """The run as written by :func:`run_data`, with the figures of the evaluation.

    Errors, shares and half-widths are fractions: 0.03 is 3%.
    """
    speedups = evaluation.speedups
    return {
        **run_data(evaluation.result, load, invocation),
        "evaluation": {
            "quantity": quantity_data(evaluation.result.request.quantity),
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


def figures_data(evaluation: Evaluation) -> EvaluationFiguresData:
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


def speedup_data(benchmarking: Benchmarking | None) -> SpeedupData | None:
    """Seconds of both sides and their ratio; ``None`` if unknown."""
    if benchmarking is None:
        return None
    return {
        "models_s": benchmarking.models_s,
        "bricks_s": benchmarking.bricks_s,
        "speedup": benchmarking.speedup,
    }


def _model(model: ModelEvaluation) -> EvaluatedModelData:
    return {
        "name": model.name,
        "source": model.model.cut.model.source,
        "estimate": model.estimate_ms,
        "interval": model.model.estimate.interval_now,
        "measured": model.measured_ms,
        "normalized": model.normalized,
        "error": model.error,
        "covered": model.covered,
        "half_width": model.half_width,
        "same_rounds": model.same_rounds,
    }


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Prints the errors of estimates, doubts about them, and a table of the models."""
    names = ", ".join(each.subject for each in evaluation.left_out)
    shown = [
        styled(("Left out of the figures:", "red"), f" {names}") if names else "",
        *_table(evaluation),
        *speedup_lines(evaluation.speedups),
        basis(evaluation),
    ]
    remarks = evaluation_remarks(evaluation)
    print_result(console, evaluation.result, answer(evaluation), shown, remarks)


def _table(evaluation: Evaluation) -> list[Table | str]:
    """The table of the models and its legend; nothing without a model."""
    if not evaluation.models:
        return []
    legend = "In ms. Rests on: main basis. Covered: the interval holds the measured."
    return [filled_table(own_columns((*COMPARED, *BASIS), evaluation.models)), legend]


def evaluation_remarks(evaluation: Evaluation) -> list[Remark]:
    """Remarks on an evaluation, the worst first."""
    drift = apart(evaluation)
    found = run_remarks(evaluation.result)
    return ranked([*found, Remark(Effect.WARNING, drift)]) if drift else found


Columns = Sequence[OwnColumn[ModelEvaluation]]

COMPARED: Columns = (
    OwnColumn("Model", lambda each: each.name, "left"),
    OwnColumn("Error", lambda each: percent(each.error)),
    OwnColumn("Estimate", lambda each: ms(each.estimate_ms)),
    OwnColumn("90% interval", lambda each: interval_text(each.model.estimate.interval_now)),
    OwnColumn("Measured", lambda each: ms(each.measured_ms)),
)
BASIS: Columns = (
    OwnColumn("Rests on", lambda each: rests_on(each.model)),
    OwnColumn("Covered", lambda each: "yes" if each.covered else "no"),
)

"""An evaluation as a self-contained HTML page."""

from __future__ import annotations

from markupsafe import Markup

from dlbricks_core.report import heading
from dlbricks_core.report.evaluation.terminal import evaluation_remarks
from dlbricks_core.report.evaluation.words import (
    TOLERANCES,
    answer,
    basis,
    percent,
    speedup_lines,
)
from dlbricks_core.report.html.plots import cumulative
from dlbricks_core.report.html.tables import Table, table
from dlbricks_core.report.html.templating import between, or_dash, page, run_facts
from dlbricks_core.report.remarks import alike
from dlbricks_core.report.run.page import normalized_plot, without_subject
from dlbricks_core.report.run.words import rests_on
from dlbricks_core.workflows import Evaluation, LoadOptions


def evaluation_page(evaluation: Evaluation, load: LoadOptions | None = None) -> str:
    """An evaluation as an HTML page.

    Args:
        evaluation: The evaluation.
        load: How models were read; ``None`` if unknown.
    """
    result = evaluation.result
    first, *more = answer(evaluation)
    return page(
        "evaluation/page.html",
        title=heading.subject(result),
        answer=[without_subject(first, heading.subject(result)), *more],
        facts=run_facts({result.request.backend.name: result}, load),
        remarks=evaluation_remarks(evaluation),
        failures=alike(result.failures),
        left_out=[(each.subject, each.reason) for each in evaluation.left_out],
        costs=[*speedup_lines(evaluation.speedups), basis(evaluation)],
        normalized_plot=normalized_plot((each.model for each in evaluation.models), TOLERANCES),
        errors_plot=_errors_plot(evaluation),
        models=_models(evaluation) if evaluation.models else None,
    )


def _models(evaluation: Evaluation) -> Table:
    return table(
        ["Model", "Error", "Estimate", "90% interval", "Measured", "Estimate / measured",
         "Rests on", "Covered"],
        [
            [
                model.name,
                percent(model.error),
                or_dash(model.estimate_ms),
                between(model.model.estimate.interval),
                or_dash(model.measured_ms),
                f"{model.normalized:.3f}",
                rests_on(model.model),
                "yes" if model.covered else "no",
            ]
            for model in evaluation.models
        ],
        "Latencies in ms. Rests on: main basis of the estimate. Covered: the interval holds the "
        "measured latency.",
    )  # fmt: skip


def _errors_plot(evaluation: Evaluation) -> Markup | None:
    if not evaluation.models:
        return None
    return cumulative(
        "errors",
        [100 * abs(error) for error in evaluation.errors],
        "absolute error in % of the measured latency",
        "Cumulative distribution of the absolute error over the models",
        marks=[100 * tolerance for tolerance in TOLERANCES],
    )

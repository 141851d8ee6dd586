"""An evaluation as a self-contained HTML page."""

from __future__ import annotations

from dlbricks_pages.html.plots import cumulative
from dlbricks_pages.html.templating import filled_page_table, page, run_facts
from dlbricks_pages.run import normalized_plot, without_subject
from markupsafe import Markup

from dlbricks_accuracy.evaluation import Evaluation
from dlbricks_accuracy.report import (
    BASIS,
    COMPARED,
    TOLERANCES,
    Columns,
    answer,
    basis,
    evaluation_remarks,
    speedup_lines,
)
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import heading
from dlbricks_core.report.columns import OwnColumn, own_columns
from dlbricks_core.report.remarks import alike

_RATIO: Columns = (OwnColumn("Estimate / measured", lambda each: f"{each.normalized:.3f}"),)


def evaluation_page(evaluation: Evaluation, load: LoadOptions | None = None) -> str:
    """An evaluation as an HTML page."""
    result = evaluation.result
    first, *more = answer(evaluation)
    return page(
        "page.html",
        package="dlbricks_accuracy",
        title=heading.subject(result),
        answer=[without_subject(first, heading.subject(result)), *more],
        facts=run_facts({result.request.backend.name: result}, load),
        remarks=evaluation_remarks(evaluation),
        failures=alike(result.failures),
        left_out=[(each.subject, each.reason) for each in evaluation.left_out],
        costs=[*speedup_lines(evaluation.speedups), basis(evaluation)],
        normalized_plot=normalized_plot((each.model for each in evaluation.models), TOLERANCES),
        errors_plot=_errors_plot(evaluation),
        models=filled_page_table(
            own_columns((*COMPARED, *_RATIO, *BASIS), evaluation.models),
            "Latencies in ms. Rests on: main basis of the estimate. Covered: the interval holds "
            "the measured latency.",
        )
        if evaluation.models
        else None,
    )


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

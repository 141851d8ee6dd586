"""A calibration as a table and as plain data."""

from __future__ import annotations

from typing import Any

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import calibration_data
from dlbricks_core.report.evaluation.terminal import evaluation_data
from dlbricks_core.report.run.terminal import print_head, print_remarks
from dlbricks_core.report.tables import table
from dlbricks_core.workflows import Fitting, LoadOptions


def print_fitting(console: Console, fitting: Fitting) -> None:
    """A table and remarks for a terminal of 80 columns."""
    evaluation = fitting.evaluation
    print_head(console, evaluation.result)
    if evaluation.left_out:
        names = ", ".join(each.subject for each in evaluation.left_out)
        console.print(styled(("Left out:", "red"), f" {names}"))
    if fitting.calibration is None:
        console.print("Nothing was fitted: no model has both an estimate and a latency.")
    else:
        shown = table("Number", "Own", "Fitted", "What it is")
        shown.columns[-1].justify = "left"
        shown.columns[-1].no_wrap = False
        for each in fitting.parameters:
            fitted = "-" if each.value is None else f"{each.value:.3f}"
            shown.add_row(each.name, f"{each.default:.3f}", fitted, each.meaning)
        console.print(shown)
        errors = [abs(model.error) for model in fitting.calibration.models]
        console.print(
            f"Fitted on {len(errors)} networks, of which estimates are off by "
            f"{sum(errors) / len(errors):.2%}, and {fitting.calibration.bricks} bricks, all "
            f"timed. From now on estimates of {evaluation.result.cut_options.composer} use this, "
            "where backend, options, threads and system are the same; those of these networks "
            "keep the composer's own error. 'dlbricks calibrate --forget' removes it."
        )
    print_remarks(console, evaluation.result)


def fitting_data(fitting: Fitting, load: LoadOptions | None = None) -> dict[str, Any]:
    """The run as :func:`evaluation_data` writes it, with the calibration that it led to.

    Args:
        fitting: What was found out.
        load: What was said about how models are read.
    """
    return {
        **evaluation_data(fitting.evaluation, load),
        "calibration": calibration_data(fitting.calibration),
        "parameters": [
            {"name": p.name, "meaning": p.meaning, "default": p.default, "value": p.value}
            for p in fitting.parameters
        ],
    }

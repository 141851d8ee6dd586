"""A calibration as a table and as plain data."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import calibration_data
from dlbricks_core.report.evaluation.data import evaluation_data
from dlbricks_core.report.heading import count, print_setting, subject
from dlbricks_core.report.remarks import (
    print_failures,
    print_notes,
    print_warnings,
    run_remarks,
)
from dlbricks_core.report.tables import table
from dlbricks_core.wording import argument
from dlbricks_core.workflows import Fitting, LoadOptions


def print_fitting(console: Console, fitting: Fitting) -> None:
    """Prints the fitted parameters, the networks behind them, and doubts about them."""
    result, calibration = fitting.evaluation.result, fitting.calibration
    remarks = run_remarks(result)
    console.print(styled((f"{subject(result)}: {_answer(fitting)}", "bold")))
    print_warnings(console, remarks, len(result.failures))
    if fitting.evaluation.left_out:
        names = ", ".join(each.subject for each in fitting.evaluation.left_out)
        console.print(styled(("Left out:", "red"), f" {names}"))
    if calibration is not None:
        console.print(_parameters(fitting))
        console.print(
            f"From now on estimates of {result.cut_options.composer} use this, where backend, "
            "options, threads and system are the same; those of these networks keep the "
            f"composer's own error. 'dlbricks calibrate' with {argument('forget')} removes it."
        )
    print_notes(console, remarks)
    print_failures(console, result.failures)
    print_setting(console, result)


def _answer(fitting: Fitting) -> str:
    calibration = fitting.calibration
    if calibration is None:
        return "Nothing was fitted: no model has both an estimate and a latency."
    errors = [abs(model.error) for model in calibration.models]
    return (
        f"fitted on {count(len(errors), 'network')}, whose estimates are off by "
        f"{sum(errors) / len(errors):.2%}, and {count(calibration.bricks, 'brick')}, all timed."
    )


def _parameters(fitting: Fitting) -> Table:
    shown = table("Number", "Own", "Fitted", "What it is")
    shown.columns[-1].justify = "left"
    shown.columns[-1].no_wrap = False
    for each in fitting.parameters:
        fitted = "-" if each.value is None else f"{each.value:.3f}"
        shown.add_row(each.name, f"{each.default:.3f}", fitted, each.meaning)
    return shown


def fitting_data(fitting: Fitting, load: LoadOptions | None = None) -> dict[str, Any]:
    """The run as written by :func:`evaluation_data`, with the resulting calibration.

    Args:
        fitting: The calibration and the evaluation that it rests on.
        load: How models were read; ``None`` if unknown.
    """
    return {
        **evaluation_data(fitting.evaluation, load),
        "calibration": calibration_data(fitting.calibration),
        "parameters": [
            {"name": p.name, "meaning": p.meaning, "default": p.default, "value": p.value}
            for p in fitting.parameters
        ],
    }

"""An evaluation of estimates as a table for a terminal of 80 columns."""

from __future__ import annotations

from rich.table import Table

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.evaluation.words import answer, apart, basis, percent, speedup_lines
from dlbricks_core.report.heading import print_setting
from dlbricks_core.report.remarks import (
    Effect,
    Remark,
    print_failures,
    print_notes,
    print_warnings,
    ranked,
    run_remarks,
)
from dlbricks_core.report.run.words import rests_on
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import Evaluation


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Prints the errors of estimates, doubts about them, and a table of the models."""
    remarks = evaluation_remarks(evaluation)
    first, *others = answer(evaluation)
    console.print(styled((first, "bold")))
    for line in others:
        console.print(line)
    print_warnings(console, remarks, len(evaluation.result.failures))
    if evaluation.left_out:
        names = ", ".join(each.subject for each in evaluation.left_out)
        console.print(styled(("Left out of the figures:", "red"), f" {names}"))
    console.print(_models(evaluation))
    console.print("In ms. Rests on: main basis. Covered: the interval holds the measured.")
    for line in (*speedup_lines(evaluation.speedups), basis(evaluation)):
        if line:
            console.print(line)
    print_notes(console, remarks)
    print_failures(console, evaluation.result.failures)
    print_setting(console, evaluation.result)


def evaluation_remarks(evaluation: Evaluation) -> list[Remark]:
    """Remarks on an evaluation, the worst first."""
    drift = apart(evaluation)
    found = run_remarks(evaluation.result)
    return ranked([*found, Remark(Effect.WARNING, drift)]) if drift else found


def _models(evaluation: Evaluation) -> Table:
    shown = table("Model", "Error", "Estimate", "90% interval", "Measured", "Rests on", "Covered")
    for model in evaluation.models:
        ends = model.model.estimate.interval
        shown.add_row(
            model.name,
            percent(model.error),
            ms(model.estimate_ms),
            "-" if ends is None else f"{ms(ends[0])}-{ms(ends[1])}",
            ms(model.measured_ms),
            rests_on(model.model),
            "yes" if model.covered else "no",
        )
    return shown

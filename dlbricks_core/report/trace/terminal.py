"""A trace's levels, as a table for a terminal of 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.explanation.data import explanation_data
from dlbricks_core.report.explanation.words import group_names, largest, or_dash, total_lines
from dlbricks_core.report.heading import print_setting
from dlbricks_core.report.remarks import print_failures, print_notes, print_warnings, run_remarks
from dlbricks_core.report.tables import table
from dlbricks_core.report.trace.events import left_out, levels_data
from dlbricks_core.workflows import LoadOptions
from dlbricks_core.workflows.trace import Trace

_NAME = 38


def print_trace(console: Console, trace: Trace, path: Path) -> None:
    """Prints time and overhead of each level, the largest deviations, and the path of the file.

    Args:
        console: The console.
        trace: The trace.
        path: File of the trace.
    """
    about = trace.explanation
    remarks = run_remarks(about.result)
    console.print(styled((total_lines(about)[0], "bold")))
    if line := largest(about, group_names(about, _NAME)):
        console.print(line)
    print_warnings(console, remarks, len(about.result.failures))
    shown = table("Level", "Parts", "ms", "Run", "Profiler's cost")
    for each in levels_data(trace.levels, about.measured_ms):
        plain = each["name"] == "whole model" or each["cost"] is None
        shown.add_row(
            each["name"],
            str(each["parts"] or "-"),
            f"{'>' if each['partial'] else ''}{or_dash(each['ms'])}",
            or_dash(each["run_ms"]),
            "-" if plain else f"{each['cost']:+.1%}",
        )
    console.print(shown)
    console.print(
        "In ms: the parts of a level together; the run that it was seen in; by how much that is "
        "longer than a run without the profiler. >: bricks are missing."
    )
    for level in trace.levels:
        if level.reason:
            console.print(f"No {level.name}: {level.reason}.")
    if number := left_out(trace):
        console.print(f"The {number} shortest operators are not in the file.")
    console.print(
        f"{path} is not written: nothing was measured."
        if trace.empty
        else f"{path}: open it at https://ui.perfetto.dev, or in Chrome at chrome://tracing."
    )
    print_notes(console, remarks)
    print_failures(console, about.result.failures)
    print_setting(console, about.result)


def trace_data(trace: Trace, load: LoadOptions | None = None) -> dict[str, Any]:
    """The explanation as written by :func:`explanation_data`, with the levels.

    Args:
        trace: The trace.
        load: How models were read; ``None`` if unknown.
    """
    about = trace.explanation
    return {
        **explanation_data(about, load),
        "levels": levels_data(trace.levels, about.measured_ms),
    }

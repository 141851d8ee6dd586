"""Deviations of an estimate and their reasons, as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from dlbricks_core.report.console import Console, lines, styled
from dlbricks_core.report.explanation.words import (
    group_names,
    largest,
    or_dash,
    places,
    rest_line,
    signed,
    total_lines,
)
from dlbricks_core.report.heading import print_setting
from dlbricks_core.report.remarks import (
    print_failures,
    print_notes,
    print_warnings,
    run_remarks,
)
from dlbricks_core.report.tables import table
from dlbricks_core.workflows.explain import Explanation, Group

SHOWN = 15
"""Default number of groups that a terminal shows."""

_NAME = 38
"""Number of characters of a group's name that leave room for its figures."""


def print_explanation(console: Console, explanation: Explanation, top: int = SHOWN) -> None:
    """Prints the error of the estimate, and the groups that deviate most.

    Args:
        console: The console.
        explanation: The explanation.
        top: Maximum number of groups in the table.
    """
    result = explanation.result
    remarks = run_remarks(result)
    labels = group_names(explanation, _NAME)
    first, *others = total_lines(explanation)
    console.print(styled((first, "bold")))
    if line := largest(explanation, labels):
        console.print(line)
    print_warnings(console, remarks, len(result.failures))
    console.print(_groups(explanation.groups[:top], labels[:top]))
    console.print(
        "In ms. #: place in the model. Times: how often the brick occurs. Composed: the "
        "brick's cost. Scaled: the profile, scaled to the measured latency. Diff.: composed - "
        "scaled."
    )
    for line in (rest_line(explanation.groups[top:]), *others):
        if line:
            console.print(line)
    print_notes(console, remarks)
    print_failures(console, result.failures)
    print_setting(console, result)


def _groups(groups: Sequence[Group], labels: Sequence[str]) -> Table:
    shown = table("#", "Layers", "Times", "Composed", "Profile", "Scaled", "Diff.", left=2)
    shown.columns[0].min_width, shown.columns[0].max_width = None, 7
    for group, label in zip(groups, labels, strict=True):
        remarks = [styled((remark, "yellow")) for remark in group.remarks]
        shown.add_row(
            places(group),
            lines(label, *remarks),
            str(group.occurrences),
            or_dash(group.cost.ms if group.cost else None),
            or_dash(group.profiled_ms),
            or_dash(group.scaled_ms),
            signed(group.deviation_ms),
        )
    shown.columns[1].no_wrap = False
    return shown

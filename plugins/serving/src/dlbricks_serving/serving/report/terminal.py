"""Models under load, as tables for a terminal of 80 columns."""

from __future__ import annotations

from dlbricks_core.report.heading import system
from dlbricks_core.report.notes import text
from dlbricks_core.report.remarks import Remark, print_failures, print_warnings, ranked
from dlbricks_core.report.tables import Console, styled, table
from dlbricks_serving.serving.report.words import LoadReport

_WARNINGS = 3
"""Maximum number of printed warnings: each n x m may have its own."""


def print_scenario(console: Console, told: LoadReport) -> None:
    """Prints the best n x m of each model, and the figures of every n x m."""
    console.print(styled((f"{told.asked.scenario} on {told.backends}", "bold")))
    for answer in told.answers:
        console.print(styled((f"{answer}.", "bold")))
    print_warnings(console, ranked(map(Remark.of, told.warnings))[:_WARNINGS])
    for name, rows in told.tables:
        if len(told.tables) > 1:
            console.print()
            console.print(name)
        shown = table(*told.columns, left=told.columns.index("From") + 1)
        for cells in rows:
            shown.add_row(*cells)
        console.print(shown)
    for line in told.explained:
        console.print(line)
    for note in told.notes:
        console.print(styled(("Note:", "yellow"), f" {text(note)}"))
    print_failures(console, told.failures)
    console.print(styled((f"{system(told.requests[0])}.", "dim")))

"""Models under load, as tables for a terminal of 80 columns."""

from __future__ import annotations

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.heading import system
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.scenarios.words import Told
from dlbricks_core.report.tables import table

_WARNINGS = 3
"""Maximum number of printed warnings: each n x m may have its own."""


def print_scenario(console: Console, told: Told) -> None:
    """Prints the best n x m of each model, and the figures of every n x m."""
    console.print(styled((f"{told.asked.scenario} on {told.backends}", "bold")))
    for answer in told.answers:
        console.print(styled((f"{answer}.", "bold")))
    for text in told.warnings[:_WARNINGS]:
        console.print(styled(("Warning:", "yellow"), f" {text}"))
    for name, rows in told.tables:
        if len(told.tables) > 1:
            console.print()
            console.print(name)
        shown = table(*told.columns, left=told.columns.index("From") + 1)
        for cells in rows:
            shown.add_row(*cells)
        console.print(shown)
    for text in told.explained:
        console.print(text)
    for text in told.notes:
        console.print(styled(("Note:", "yellow"), f" {text}"))
    print_failures(console, told.failures)
    console.print(styled((f"{system(told.requests[0])}.", "dim")))

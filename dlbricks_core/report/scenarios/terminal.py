"""Models under load, as tables for a terminal of 80 columns."""

from __future__ import annotations

from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.heading import options, system
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.scenarios.words import best, columns, explained, lines, warnings
from dlbricks_core.report.tables import table
from dlbricks_core.workflows.scenarios.run import UnderLoad

_WARNINGS = 3
"""Maximum number of printed warnings: each n x m may have its own."""


def print_scenario(console: Console, result: UnderLoad) -> None:
    """Prints the best n x m of each model, and the figures of every n x m."""
    asked, request = result.asked, result.request
    name = f"{request.backend.name} {request.setup.version}{options(request)}"
    console.print(styled((f"{asked.scenario} on {name}", "bold")))
    for model in result.models:
        console.print(styled((f"{best(model, asked)}.", "bold")))
    for text in warnings(result)[:_WARNINGS]:
        console.print(styled(("Warning:", "yellow"), f" {text}"))
    for model in result.models:
        if len(result.models) > 1:
            console.print()
            console.print(model.model.name)
        shown = table(*columns(asked), left=2)
        for line in lines(model, asked.scenario):
            shown.add_row(*line.cells)
        console.print(shown)
    for text in explained(result):
        console.print(text)
    print_failures(console, result.failures)
    console.print(styled((f"{system(request)}.", "dim")))

"""Timings of a suite's bricks, for a terminal."""

from __future__ import annotations

from dlbricks_core.bricks.naming import names
from dlbricks_core.commands.estimate.terminal import reused, speedups
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.report.heading import print_result, quantity_name, subject
from dlbricks_core.report.remarks import run_remarks, weight
from dlbricks_core.report.tables import Console, interval_text, ms, table
from dlbricks_core.wording import count

_BRICK = 40  #: Maximum characters of a brick's name beside its figures.


def print_bench(console: Console, result: RunResult) -> None:
    """Prints the value of every brick in descending order."""
    timed = sum(each.latency is not None for each in result.bricks)
    line = f"{count(timed, 'brick')} of {len(result.bricks)} timed; {subject(result)}."
    quantity = result.request.quantity
    value = f"{quantity_name(quantity).capitalize()} {quantity.unit}"
    named = names({each.brick.signature: each.brick.model for each in result.bricks}, _BRICK)
    rows = [
        (
            named[each.brick.signature],
            each.brick.signature[:8],
            ms(each.latency.value) if each.latency else "-",
            interval_text(each.interval_ms),
        )
        for each in sorted(result.bricks, key=weight, reverse=True)
    ]
    shown = table("Brick", "Signature", value, "90% interval", rows=rows, left=2)
    print_result(
        console, result, [line], (shown, *speedups(result), reused(result)), run_remarks(result)
    )

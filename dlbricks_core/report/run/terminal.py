"""A run or an estimate as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from dlbricks_core.bricks.naming import names
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.heading import count, print_setting, quantity_name, subject
from dlbricks_core.report.remarks import (
    print_failures,
    print_notes,
    print_warnings,
    run_remarks,
)
from dlbricks_core.report.run.words import (
    answer,
    dial,
    layers,
    origins,
    peak,
    probed,
    rests_on,
    reused,
    seconds_saved,
    speedups,
    unfit,
)
from dlbricks_core.report.sizes.terminal import print_sizes
from dlbricks_core.report.tables import compared_cells, estimate_text, ms, table
from dlbricks_core.report.weights import weight
from dlbricks_core.workflows import ModelResult, RunResult

_BRICK = 40
"""Number of characters of a brick's name that leave room for its figures."""


def print_run(console: Console, result: RunResult) -> None:
    """Prints doubts about the estimates, the estimates, and their basis."""
    remarks = run_remarks(result)
    for line in unfit(result):
        console.print(styled((line, "bold red")))
    for line in answer(result):
        console.print(styled((line, "bold")))
    print_warnings(console, remarks, len(result.failures))
    if result.is_over_sizes:
        print_sizes(console, result)
    else:
        _print_models(console, result)
    for line in seconds_saved(result):
        console.print(line)
    lines = layers(result), probed(result), dial(result), origins(result)
    for line in (*lines, *speedups(result), reused(result), peak(result)):
        if line:
            console.print(line)
    print_notes(console, remarks)
    print_failures(console, result.failures)
    print_setting(console, result)


def _print_models(console: Console, result: RunResult) -> None:
    basis = _PARALLEL if result.request.probe is None else _NOTHING
    basis = _RESTS_ON if result.dial else basis
    console.print(_models(result.models, basis))
    console.print(
        f"In {result.request.quantity.unit}. Norm.: estimate/measured. {basis.explanation}"
        ">: bricks are missing."
    )
    if any(model.parts for model in result.models):
        console.print(_parts(result.models))


def print_bench(console: Console, result: RunResult) -> None:
    """Prints the value of every brick in descending order."""
    remarks = run_remarks(result)
    timed = sum(each.latency is not None for each in result.bricks)
    line = f"{count(timed, 'brick')} of {len(result.bricks)} timed; {subject(result)}."
    console.print(styled((line, "bold")))
    print_warnings(console, remarks, len(result.failures))
    quantity = result.request.quantity
    value = f"{quantity_name(quantity).capitalize()} {quantity.unit}"
    shown = table("Brick", "Signature", value, "90% interval", left=2)
    named = names({each.brick.signature: each.brick.model for each in result.bricks}, _BRICK)
    for each in sorted(result.bricks, key=weight, reverse=True):
        ends = each.interval_ms
        shown.add_row(
            named[each.brick.signature],
            each.brick.signature[:8],
            ms(each.latency.value) if each.latency else "-",
            f"{ms(ends[0])}-{ms(ends[1])}" if ends else "-",
        )
    console.print(shown)
    for line in (*speedups(result), reused(result)):
        if line:
            console.print(line)
    print_notes(console, remarks)
    print_failures(console, result.failures)
    print_setting(console, result)


@dataclass(frozen=True)
class _Column:
    """Column of the table of models that only some runs have.

    Attributes:
        title: Title of the column; empty for no column.
        cell: Function that returns the cell of a model.
        explanation: Sentence below the table, with a space behind.
    """

    title: str = ""
    cell: Callable[[ModelResult], str] = lambda model: ""
    explanation: str = ""


_NOTHING = _Column()
_PARALLEL = _Column(
    "Parallel", lambda model: estimate_text(model.parallel), "Parallel: critical path. "
)
_RESTS_ON = _Column("Rests on", rests_on)


def _models(models: Sequence[ModelResult], basis: _Column) -> Table:
    column = [basis.title] if basis.title else []
    shown = table("Model", "Estimate", "90% interval", "Measured", "Norm.", *column, "Bricks")
    for model in models:
        shown.add_row(
            model.cut.model.name,
            *compared_cells(model.compared),
            *([basis.cell(model)] if basis.title else []),
            str(len(model.cut.occurrences)),
        )
    return shown


def _parts(models: Sequence[ModelResult]) -> Table:
    """Parts of a quantity, model by model."""
    shown = table("Part", "Meaning", "Estimate", "90% interval", "Measured", left=2)
    shown.columns[1].no_wrap = False
    for model in models:
        if len(models) > 1:
            shown.add_row(styled((model.cut.model.name, "bold")))
        for each in model.parts:
            shown.add_row(
                each.quantity.name,
                each.quantity.meaning,
                *compared_cells(each.compared)[:3],
            )
    return shown

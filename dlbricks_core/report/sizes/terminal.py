"""Answers and curves as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.table import Table

from dlbricks_core.report.console import Console
from dlbricks_core.report.sizes.words import RATES, TIMES, varying
from dlbricks_core.report.tables import compared_cells, interval_text, ms, table
from dlbricks_core.workflows import Answer, Rate, RunResult, SizeCurve

_ESTIMATED = ("TTFT", "90%", "TPOT", "90%", "Tok/s")
_MEASURED = ("TTFT meas.", "Norm.", "TPOT meas.", "Norm.")

_MOST_AXES, _ROOM = 2, 24
"""Maximum number of sizes, and of characters of their names, that leave room for the figures."""


def print_sizes(console: Console, result: RunResult) -> None:
    """Prints a table of answers or curves."""
    if len(result.answers) == 1:
        console.print(_one(result.answers[0]))
        console.print("Times in ms. Norm.: estimate/measured. >: bricks are missing.")
    elif result.answers:
        console.print(_workloads(result.answers, _ESTIMATED, _estimated))
        if any(answer.first.measured for answer in result.answers):
            console.print(_workloads(result.answers, _MEASURED, _measured))
        console.print(
            "TTFT: time to first token, TPOT: time per output token, in ms with 90% intervals; "
            "Tok/s: generated tokens per second. >: bricks are missing."
        )
    if result.curves:
        console.print(_curves(result.curves))
        console.print(
            f"In {result.request.quantity.unit}. Norm.: estimate/measured. >: bricks are missing."
        )


def _one(answer: Answer) -> Table:
    shown = table(answer.name, "Estimate", "90% interval", "Measured", "Norm.")
    for name, time in TIMES.items():
        if (compared := time(answer)) is not None:
            shown.add_row(name, *compared_cells(compared))
    for name, rate in RATES.items():
        shown.add_row(name, *_rate(rate(answer)), "-", "-")
    for depth, each in answer.curve.items():
        shown.add_row(f"Token after {depth}", *compared_cells(each.compared))
    return shown


def _rate(rate: Rate) -> tuple[str, str]:
    value = "-" if rate.value is None else ms(rate.value)
    return value, interval_text(rate.interval)


def _workloads(
    answers: Sequence[Answer], columns: Sequence[str], cells: Callable[[Answer], Sequence[str]]
) -> Table:
    """A row for each workload: its distinguishing fields, and the cells of its answer."""
    axes = varying([answer.workload for answer in answers])
    rows = [
        (name, {axis: getattr(answer.workload, axis) for axis in axes}, cells(answer))
        for answer, name in zip(answers, _names(answers), strict=True)
    ]
    return _table(rows, columns)


Row = tuple[str, Mapping[str, int], Sequence[str]]
"""Name of a model, sizes by their names, and cells for figures."""


def _table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """Rows with a column for each size, or one for all of them where that would be too wide."""
    axes = list(rows[0][1])
    apart = len(axes) <= _MOST_AXES and sum(map(len, axes)) <= _ROOM
    head = axes if apart else ["Sizes"]
    shown = table("Model", *head, *columns, left=1 if apart else 2)
    for name, sizes, cells in rows:
        numbers = map(str, sizes.values())
        named = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
        shown.add_row(name, *(numbers if apart else [named]), *cells)
    return shown


def _estimated(answer: Answer) -> list[str]:
    first, token = _first_and_token(answer)
    return [*first[:2], *token[:2], _rate(answer.generation_rate)[0]]


def _measured(answer: Answer) -> list[str]:
    first, token = _first_and_token(answer)
    return [*first[2:], *token[2:]]


def _first_and_token(answer: Answer) -> tuple[list[str], list[str]]:
    """Cells for the time to the first token, and for the time per output token."""
    token = ["-"] * 4 if answer.token is None else compared_cells(answer.token)
    return compared_cells(answer.first), token


def _curves(curves: Sequence[SizeCurve]) -> Table:
    rows = [
        ("" if i else curve.name, point.sizes, compared_cells(point.result.compared))
        for curve in curves
        for i, point in enumerate(curve.points)
    ]
    return _table(rows, ("Estimate", "90% interval", "Measured", "Norm."))


def _names(answers: Sequence[Answer]) -> Iterator[str]:
    """Names of models for consecutive rows, without repetitions."""
    before = ""
    for answer in answers:
        yield "" if answer.name == before else answer.name
        before = answer.name

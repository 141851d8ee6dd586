"""Answers and curves as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from dlbricks_core.report.console import Console
from dlbricks_core.report.sizes.words import RATES, TIMES, varying
from dlbricks_core.report.tables import compared_cells, interval_text, ms, table
from dlbricks_core.workflows import Answer, Rate, RunResult, SizeCurve


def print_sizes(console: Console, result: RunResult) -> None:
    """Prints a table for what was asked about models at several sizes."""
    if len(result.answers) == 1:
        console.print(_one(result.answers[0]))
        console.print("Times in ms. Norm.: estimate/measured. >: bricks are missing.")
    elif result.answers:
        console.print(_several(result.answers))
        if any(answer.first.measured for answer in result.answers):
            console.print(_measured(result.answers))
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


def _several(answers: Sequence[Answer]) -> Table:
    axes = varying([answer.workload for answer in answers])
    head = [axis.capitalize() for axis in axes]
    columns = ("TTFT", "90%", "TPOT", "90%", "Tok/s")
    shown = table("Model", *head, *columns)
    for answer, name in zip(answers, _names(answers), strict=True):
        token = ["-", "-"] if answer.token is None else compared_cells(answer.token)[:2]
        shown.add_row(
            name,
            *(str(getattr(answer.workload, axis)) for axis in axes),
            *compared_cells(answer.first)[:2],
            *token,
            _rate(answer.generation_rate)[0],
        )
    return shown


def _measured(answers: Sequence[Answer]) -> Table:
    axes = varying([answer.workload for answer in answers])
    head = [axis.capitalize() for axis in axes]
    columns = ("TTFT meas.", "Norm.", "TPOT meas.", "Norm.")
    shown = table("Model", *head, *columns)
    for answer, name in zip(answers, _names(answers), strict=True):
        token = ["-", "-"] if answer.token is None else compared_cells(answer.token)[2:]
        shown.add_row(
            name,
            *(str(getattr(answer.workload, axis)) for axis in axes),
            *compared_cells(answer.first)[2:],
            *token,
        )
    return shown


def _curves(curves: Sequence[SizeCurve]) -> Table:
    axes = list(curves[0].points[0].sizes)
    shown = table("Model", *axes, "Estimate", "90% interval", "Measured", "Norm.")
    for curve in curves:
        for i, point in enumerate(curve.points):
            sizes = (str(point.sizes[axis]) for axis in axes)
            shown.add_row("" if i else curve.name, *sizes, *compared_cells(point.result.compared))
    return shown


def _names(answers: Sequence[Answer]) -> Iterator[str]:
    """Names of models, each once where it stands in several rows."""
    before = ""
    for answer in answers:
        yield "" if answer.name == before else answer.name
        before = answer.name

"""A comparison of backends as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from dlbricks_core.bricks.naming import names
from dlbricks_core.facts import Quantity
from dlbricks_core.figures.ranking import Cost, Ranking, Ratio
from dlbricks_core.report.comparing_words import words_for
from dlbricks_core.report.comparison.words import (
    NO_WINNER,
    ONLY_ONE,
    TOO_SHORT,
    answer,
    margin,
    parts_figures,
    remarks,
    totals,
    unfit,
    verdict,
    with_backends,
)
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.heading import count, options, print_setting
from dlbricks_core.report.remarks import print_failures, print_notes, print_warnings
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import Comparison, ModelComparison

_PARTS_SHOWN = 12

_FEW = 2
"""Maximum number of backends whose figures leave room for intervals."""

_LINES = 2
"""Maximum lines of a part's name."""

_WIDTH, _FIGURE, _REST = 79, 7, 28
"""Columns of a terminal, minimum columns of a figure, and columns of number and fastest backend."""

_SHORT = {NO_WINNER: "no difference", ONLY_ONE: "only one", TOO_SHORT: "too short"}


def print_comparison(console: Console, result: Comparison) -> None:
    """Prints the fastest backend, doubts about the result, and the differences by part."""
    found = remarks(result)
    for line in unfit(result):
        console.print(styled((line, "bold red")))
    console.print(styled((answer(result), "bold")))
    print_warnings(console, found, len(result.failures))
    console.print(_models(result))
    unit, words = result.quantity.unit, words_for(result.quantity)
    console.print(
        f"In {unit}. By: how many times {words.times} the second takes, with the 90% interval. "
        f"{_sum(result)[0]}: {parts_figures(result)}; the table below explains as much of a "
        "difference as that does."
    )
    console.print(_parts(result))
    left = len(result.parts) - _PARTS_SHOWN
    if left > 0:
        console.print(f"{count(left, 'more part')} in the JSON and the HTML report.")
    for model in result.models:
        if model.ideal.value is not None:
            console.print(_ideal(model, result.quantity))
    print_notes(console, found)
    print_failures(console, with_backends(result.failures))
    _print_setting(console, result)


def _print_setting(console: Console, result: Comparison) -> None:
    reused = {n: r.outcome.reused for n, r in result.runs.items() if r.outcome.reused}
    if reused:
        listed = ", ".join(f"{count} of {name}" for name, count in reused.items())
        console.print(f"Networks that came from the store: {listed}.")
    for name, run in result.runs.items():
        timer = f"; timer {run.call_ms * 1e3:.1f} us a call" if run.call_ms is not None else ""
        line = f"{name} {run.request.setup.version}{options(run.request)}{timer}"
        console.print(styled((line, "dim")))
    print_setting(console, result.any_run, several=True)


def _sum(result: Comparison) -> tuple[str, str]:
    """Words for the total of parts, as a heading and before their number."""
    added = result.any_run.request.probe is None
    return ("Sum", "sum of") if added else ("Composed", "composed of")


def _models(result: Comparison) -> Table:
    shown = table("Model", *result.runs, words_for(result.quantity).least.capitalize(), "By")
    by = margin if len(result.runs) <= _FEW else _times
    for model in result.models:
        costs, ranking = model.ranking.costs, model.ranking
        shown.add_row(
            model.model.name,
            *_figures(result, costs, ranking.winner),
            _SHORT.get(verdict(ranking), verdict(ranking)),
            by(ranking.margin),
        )
        second = next(iter(ranking.ratios), "")
        parts = count(sum(part.occurrences for part in model.parts), "part")
        shown.add_row(
            f"  {_sum(result)[1]} {parts}",
            *_figures(result, model.sums),
            "",
            by(model.sum_ratios.get(second)),
        )
    return shown


def _figures(
    result: Comparison, costs: Mapping[str, Cost], winner: str | None = None
) -> list[str | Text]:
    """A figure for each backend; the winner's is bold."""
    return [
        styled((ms(costs[name].ms), "bold" if name == winner else "")) if name in costs else "-"
        for name in result.runs
    ]


def _parts(result: Comparison) -> Table:
    least = words_for(result.quantity).least.capitalize()
    shown = table("Part", "Number", *result.runs, least)
    room = _WIDTH - _REST - sum(max(len(name) + 1, _FIGURE) for name in result.runs)
    parts = {each.brick.signature: each.brick.model for each in result.parts}
    named = names(parts, _LINES * room)
    for each in result.parts[:_PARTS_SHOWN]:
        shown.add_row(
            named[each.brick.signature],
            str(each.occurrences),
            *_figures(result, each.ranking.costs, each.ranking.winner),
            _fastest(each.ranking),
        )
    shown.caption = (
        "Parts between places where all backends cut a model; those of equal structure together. "
        f"{totals(result.any_run.request)}; the largest difference first."
    )
    shown.caption_justify = "left"
    return shown


def _fastest(ranking: Ranking) -> str:
    if ranking.winner is None or ranking.margin is None or ranking.margin.value is None:
        return _SHORT.get(verdict(ranking), "-")
    return f"{ranking.winner} {_times(ranking.margin)}"


def _times(ratio: Ratio | None) -> str:
    return "-" if ratio is None or ratio.value is None else f"{ms(ratio.value)}x"


def _ideal(model: ModelComparison, quantity: Quantity) -> str:
    picks = ", ".join(f"{number} on {name}" for name, number in model.picks.items())
    above = "above " if model.ideal.partial else ""
    return (
        f"Ideal for {model.model.name}: {above}{ms(model.ideal.value or 0.0)} {quantity.unit}, "
        f"with each part where it is {words_for(quantity).least} ({picks}). A bound: "
        "handing tensors over costs more."
    )

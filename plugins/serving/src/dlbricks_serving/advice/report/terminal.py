"""Advice as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Column, Table
from rich.text import Text

from dlbricks_core.report.remarks import (
    Remark,
    print_failures,
    print_notes,
    print_warnings,
)
from dlbricks_core.report.tables import Console, lines, ms, styled, table
from dlbricks_core.wording import count
from dlbricks_serving.advice.advice import Advice, AdviceRequest, Ranked, TaskRanking
from dlbricks_serving.advice.report import words

SHOWN = 12
"""Maximum rows of a table; the other reports show all rows."""

_PLACE = 16
"""Number of characters of a place."""

_ANY = 1000
"""Maximum width of a table whose width is looked for."""

_FEW_REQUIRED = 2
"""Maximum number of required quantities that fit beside the other columns."""

_REQUIRED = 3
"""Number of columns before those of required quantities."""


def print_advice(console: Console, advice: Advice) -> None:
    """Prints the first place of each model, then the others."""
    failures = (*advice.unread, *advice.failures)
    wanted = advice.wanted
    for ranking in advice.rankings:
        console.print(styled((words.answer(ranking, wanted), "bold")))
        if wanted.accuracies:
            console.print(words.front(ranking))
    remarks = list(map(Remark.of, words.notes(advice)))
    print_warnings(console, remarks, len(failures))
    for ranking in advice.rankings:
        if len(advice.rankings) > 1:
            console.print()
            console.print(styled((ranking.name, "bold")))
        _print_ranking(console, ranking, wanted)
    if advice.rankings:
        console.print("Below each figure stands its 90% interval.")
        for line in words.explained(wanted, per_second=_shows_rate(wanted)):
            console.print(line)
    for name, text in words.systems(advice).items():
        console.print(styled((f"{name}: {text}.", "dim")))
    print_notes(console, remarks)
    print_failures(console, failures)


def _print_ranking(console: Console, ranking: TaskRanking, wanted: AdviceRequest) -> None:
    rows = ranking.ranked if wanted.accuracies is None else words.best_of_each(ranking)
    shown = _table(rows[:SHOWN], wanted, together=_has_room(wanted))
    width = console.measure(shown, options=console.options.update(max_width=_ANY)).maximum
    together = _has_room(wanted) and width <= console.width
    console.print(shown if together else _table(rows[:SHOWN], wanted, together=False))
    if wanted.others and not together:
        console.print(_required_table(rows[:SHOWN], wanted))
    if wanted.accuracies is not None:
        console.print("The first place of each model. *: on the Pareto front.")
    if len(rows) > SHOWN:
        console.print(f"{count(len(rows) - SHOWN, 'row')} more are not shown here.")


def _table(rows: Sequence[Ranked], wanted: AdviceRequest, *, together: bool) -> Table:
    """Alternatives.

    Where models are compared or quantities are required, inferences per second do not fit.

    Args:
        rows: The alternatives.
        wanted: The user's requirements.
        together: Whether required quantities stand beside the other columns.
    """
    compared, bounded = wanted.accuracies is not None, wanted.is_bounded
    columns = {
        "Rests on": True,
        words.latency_heading(wanted): True,
        **{words.heading_of(each): together for each in wanted.others},
        "Per s": _shows_rate(wanted),
        f"{words.currency(wanted)} / M": wanted.prices is not None,
        "Acc.": compared,
        "Keeps": bounded,
        "First": True,
        "Front": compared,
    }
    shown = table("Place", *(name for name, is_shown in columns.items() if is_shown))
    shown.columns[0].min_width = _PLACE
    shown.columns[1].justify = "left"
    if together:
        _head_required(shown.columns[_REQUIRED:], wanted)
    for each in rows:
        cells = zip(columns.values(), _cells(each), strict=True)
        place = _place(each, with_model=compared)
        shown.add_row(place, *(cell for is_shown, cell in cells if is_shown))
    return shown


def _shows_rate(wanted: AdviceRequest) -> bool:
    """Whether inferences per second fit beside the other columns."""
    return wanted.scenario is not None or (wanted.accuracies is None and not wanted.others)


def _has_room(wanted: AdviceRequest) -> bool:
    """Whether required quantities may fit beside the other columns; long figures do not."""
    return (
        len(wanted.others) <= _FEW_REQUIRED and wanted.accuracies is None and wanted.prices is None
    )


def _required_table(rows: Sequence[Ranked], wanted: AdviceRequest) -> Table:
    """Table of required quantities."""
    shown = table("Place", *map(words.heading_of, wanted.others))
    shown.columns[0].min_width = _PLACE
    _head_required(shown.columns[1:], wanted)
    for each in rows:
        place = _place(each, with_model=wanted.accuracies is not None)
        cells = (_figure(it.value, it.interval, ms) for it in each.alternative.required)
        shown.add_row(place, *cells)
    return shown


def _head_required(columns: Sequence[Column], wanted: AdviceRequest) -> None:
    """Writes the unit of required quantities below their names."""
    for column, required in zip(columns, wanted.others, strict=False):
        column.header = lines(*words.heading_of(required).rsplit(" ", 1))


def _cells(ranked: Ranked) -> list[str | Text]:
    it = ranked.alternative
    return [
        lines(words.BASES[it.basis], *([f"load {it.load:.0%}"] if it.load else [])),
        _figure(it.ms, it.interval_ms, ms),
        *(_figure(each.value, each.interval, ms) for each in it.required),
        _figure(it.per_second, it.per_second_interval, ms),
        _figure(it.price, it.price_interval, words.money),
        "-" if it.accuracy is None else f"{it.accuracy:g}",
        words.share(ranked.keeps),
        words.share(ranked.first),
        "-" if ranked.front is None else words.share(ranked.front),
    ]


def _place(ranked: Ranked, *, with_model: bool) -> Text:
    """Backend, threads and system, below the model where rows are of several models."""
    it = ranked.alternative
    setup, instances = it.place.setup, it.place.instances
    mark = "*" if ranked.is_on_front else ""
    size = f"{setup.threads} thr." if instances is None else f"{instances} x {setup.threads}"
    where = f" {size} {it.place.name}"
    return lines(
        *([f"{it.job.name}{mark}"] if with_model else []),
        f"{setup.backend} {setup.version}",
        where,
    )


def _figure(
    value: float | None, ends: tuple[float, float] | None, written: Callable[[float], str]
) -> Text:
    """A figure above its interval."""
    if value is None or ends is None:
        return lines("-")
    return lines(written(value), "-".join(map(written, ends)))

"""Answers and curves as tables and plots of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from dlbricks_core.figures.figure import interval
from dlbricks_core.report import heading
from dlbricks_core.report.html.plots import Curve, curves
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import between, or_dash
from dlbricks_core.report.sizes.words import RATES, TIMES, varying, workload
from dlbricks_core.report.tables import estimate_text
from dlbricks_core.workflows import Answer, Compared, RunResult

_SERIES = 6
"""Maximum number of curves in a plot; tables show all."""


def sizes_table(result: RunResult) -> Table | None:
    """Table of answers or curves; ``None`` for other runs."""
    if result.answers:
        return _answers(result.answers)
    return _points(result) if result.curves else None


def sizes_plot(result: RunResult) -> Markup | None:
    """Time of a token over the depth of the cache, or latency over a size."""
    if result.answers:
        return _token_plot(result.answers)
    return _size_plot(result) if result.curves else None


def depths_table(result: RunResult) -> Table | None:
    """Time of one token at each depth; ``None`` where no tokens follow the first."""
    rows = [
        [answer.name, workload(answer.workload), str(depth), *_cells(each.compared)]
        for answer in result.answers
        for depth, each in answer.curve.items()
    ]
    if not rows:
        return None
    columns = (*_ABOUT, "Tokens in the cache", *_COLUMNS)
    return table(columns, rows, "Time of one output token in ms.")


_ABOUT: tuple[str | Column, ...] = ("Model", Column("Workload", is_text=True))
_COLUMNS = ("Estimate", "90% interval", "Measured", "Estimate / measured")


def _answers(answers: Sequence[Answer]) -> Table:
    rows: list[list[str | Cell]] = []
    for answer in answers:
        about = [answer.name, workload(answer.workload)]
        for name, time in TIMES.items():
            if (compared := time(answer)) is not None:
                rows.append([*about, f"{name}, ms", *_cells(compared)])
        for name, rate in RATES.items():
            found = rate(answer)
            rows.append([*about, name, or_dash(found.value), between(found.interval), "–", "–"])
    columns = (*_ABOUT, Column("Figure", is_text=True), *_COLUMNS)
    return table(columns, rows, ">: bricks are missing.")


def _points(result: RunResult) -> Table:
    axes = list(result.curves[0].points[0].sizes)
    rows = [
        [curve.name, *(str(point.sizes[axis]) for axis in axes), *_cells(point.result.compared)]
        for curve in result.curves
        for point in curve.points
    ]
    quantity = result.request.quantity
    name = heading.quantity_name(quantity).capitalize()
    caption = f"{name} in {quantity.unit}. >: bricks are missing."
    return table(["Model", *axes, *_COLUMNS], rows, caption)


def _cells(compared: Compared) -> list[str]:
    measured, normalized = compared.measured, compared.normalized
    return [
        estimate_text(compared.estimate).replace("-", "–"),
        between(compared.estimate.interval),
        or_dash(measured.value if measured else None),
        "–" if normalized is None else f"{normalized:.3f}",
    ]


def _token_plot(answers: Sequence[Answer]) -> Markup | None:
    several = {each.name for each in answers}
    fields = varying([each.workload for each in answers])

    def label(answer: Answer) -> str:
        asked = [f"{name} {getattr(answer.workload, name)}" for name in fields]
        return ", ".join([*([answer.name] if len(several) > 1 else []), *asked])

    lines = [
        (label(answer), {depth: each.compared for depth, each in answer.curve.items()})
        for answer in answers
        if answer.curve
    ]
    return _plot(
        "tokens", lines, "Tokens in the cache", "ms a token",
        "Time of one output token over the number of tokens in the cache",
    )  # fmt: skip


def _size_plot(result: RunResult) -> Markup | None:
    sizes = [point.sizes for curve in result.curves for point in curve.points]
    axes = list(sizes[0])
    across = max(axes, key=lambda axis: len({each[axis] for each in sizes}))
    lines: dict[str, dict[int, Compared]] = {}
    for curve in result.curves:
        for point in curve.points:
            others = [f"{axis} {point.sizes[axis]}" for axis in axes if axis != across]
            named = ", ".join([curve.name, *others])
            lines.setdefault(named, {})[point.sizes[across]] = point.result.compared
    quantity = result.request.quantity
    name = heading.quantity_name(quantity)
    return _plot(
        "sizes", list(lines.items()), across, f"{name} in {quantity.unit}",
        f"{name.capitalize()} over {across}",
    )  # fmt: skip


def _plot(
    name: str,
    lines: Sequence[tuple[str, dict[int, Compared]]],
    across: str,
    unit: str,
    title: str,
) -> Markup | None:
    """Plot of estimates with their intervals, and of measurements, over whole numbers."""
    shown = lines[:_SERIES]
    series = dict(each for label, points in shown for each in _drawn(label, points))
    return curves(name, series, across, unit, title) if series else None


def _drawn(label: str, points: dict[int, Compared]) -> Iterator[tuple[str, Curve]]:
    estimates = {
        size: each.estimate for size, each in sorted(points.items()) if each.estimate.value
    }
    if estimates:
        values = {size: each.value for size, each in estimates.items() if each.value is not None}
        ends = {size: e.interval for size, e in estimates.items() if e.interval is not None}
        yield f"{label}, estimated", Curve(values, intervals=ends)
    figures = {size: each.measured for size, each in sorted(points.items()) if each.measured}
    if figures:
        values = {size: figure.value for size, figure in figures.items()}
        ends = {size: interval(figure.replicates) for size, figure in figures.items()}
        yield f"{label}, measured", Curve(values, joined=False, intervals=ends)

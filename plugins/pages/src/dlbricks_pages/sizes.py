"""Models at several sizes: tables and plots of pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dlbricks_sizes.answers import Answer, SizeCurve
from dlbricks_sizes.figures import figures_of
from dlbricks_sizes.report import RATES, TIMES, engines, memory, rate_cells, varying, workload
from markupsafe import Markup

from dlbricks_core.estimation.model_result import Compared
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.report import heading
from dlbricks_core.report.tables import compared_cells
from dlbricks_pages.html.plots import Curve, curves
from dlbricks_pages.html.templating import PageTable, page_table

_SERIES = 6  #: Maximum number of curves in a plot; tables show all.


def parts_over_sizes(result: RunResult) -> dict[str, Any]:
    """Parts of the page of a run over sizes, by their names in its template."""
    found = figures_of(result)
    return {
        "table": _answers(found.answers) if found.answers else _points(result, found.curves),
        "plot": sizes_plot(result),
        "depths": depths_table(found.answers),
        "memory": list(memory(result)),
        "engines": list(engines(found.answers, result)),
    }


def sizes_plot(result: RunResult) -> Markup | None:
    """Time of a token over the depth of the cache, or latency over a size."""
    found = figures_of(result)
    return _token_plot(found.answers) if found.answers else _size_plot(result, found.curves)


def depths_table(answers: Sequence[Answer]) -> PageTable | None:
    """Time of one token at each depth; ``None`` if no token follows the first."""
    rows = [
        [answer.name, workload(answer.workload), str(depth), *compared_cells(each.compared)]
        for answer in answers
        for depth, each in answer.curve.items()
    ]
    if not rows:
        return None
    columns = ("Model", "Workload", "Tokens in the cache", *_COLUMNS)
    return page_table(columns, rows, "Time of one output token in ms.", words=["Workload"])


_COLUMNS = ("Estimate", "90% interval", "Measured", "Estimate / measured")


def _answers(answers: Sequence[Answer]) -> PageTable:
    rows = []
    for answer in answers:
        about = [answer.name, workload(answer.workload)]
        for name, time in TIMES.items():
            if (compared := time(answer)) is not None:
                rows.append([*about, f"{name}, ms", *compared_cells(compared)])
        for name, rate in RATES.items():
            rows.append([*about, name, *rate_cells(rate(answer)), "-", "-"])
    columns = ("Model", "Workload", "Figure", *_COLUMNS)
    return page_table(columns, rows, ">: bricks are missing.", words=("Workload", "Figure"))


def _points(result: RunResult, curves: Sequence[SizeCurve]) -> PageTable:
    axes = list(curves[0].points[0].sizes)
    points = [(curve.name, point) for curve in curves for point in curve.points]
    rows = [
        [name, *(str(each.sizes[axis]) for axis in axes), *compared_cells(each.result.compared)]
        for name, each in points
    ]
    quantity = result.request.quantity
    name = heading.quantity_name(quantity).capitalize()
    caption = f"{name} in {quantity.unit}. >: bricks are missing."
    return page_table(["Model", *axes, *_COLUMNS], rows, caption)


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


def _size_plot(result: RunResult, swept: Sequence[SizeCurve]) -> Markup | None:
    sizes = [point.sizes for curve in swept for point in curve.points]
    axes = list(sizes[0])
    across = max(axes, key=lambda axis: len({each[axis] for each in sizes}))
    # An axis that varies together with the one across needs no line of its own for each size.
    apart = [axis for axis in axes if len({(e[across], e[axis]) for e in sizes})
             > len({each[across] for each in sizes})]  # fmt: skip
    lines: dict[str, dict[int, Compared]] = {}
    for curve in swept:
        for point in curve.points:
            others = [f"{axis} {point.sizes[axis]}" for axis in apart]
            named = ", ".join([curve.name, *others])
            lines.setdefault(named, {})[point.sizes[across]] = point.result.compared
    quantity = result.request.quantity
    name = heading.quantity_name(quantity)
    return _plot(
        "sizes", list(lines.items()), across, f"{name} in {quantity.unit}",
        f"{name.capitalize()} over {across}",
    )  # fmt: skip


def _plot(
    name: str, lines: Sequence[tuple[str, dict[int, Compared]]], across: str, unit: str, title: str
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
        ends = {size: figure.interval for size, figure in figures.items()}
        yield f"{label}, measured", Curve(values, joined=False, intervals=ends)

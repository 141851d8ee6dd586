"""Plots as SVG that takes its colours from the page, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from dlbricks_core.sanitize import sanitized

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, _RULE = "#010101", "#020202", "#030303"
SERIES = ("#040401", "#040402", "#040403", "#040404", "#040405", "#040406", "#040407")
#: Colours of the figure, which stand for variables of the page's style sheet.
_VARIABLES = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    _RULE: "var(--rule)",
    **{colour: f"var(--series-{i})" for i, colour in enumerate(SERIES)},
}
_PARTS = (*SERIES[:5], _RULE)
MOST_SERIES = len(SERIES)  #: Number of series that colours and shapes distinguish.

#: Shapes that distinguish series as well, because colours may not be visible.
_MARKERS = "osD^vPX"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": _RULE,
    "xtick.color": _RULE,
    "xtick.labelcolor": SOFT,
    "ytick.color": _RULE,
    "ytick.labelcolor": INK,
    "grid.color": _RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}
_LABEL = 0.2  #: Height in inches of a label above its row.

#: Font size in points of a label above its row: the longest labels fit the width of a phone.
SMALL = 7.2

#: Maximum number of characters of a label, chosen so that shortened labels still differ.
_LONGEST = 64

_TALL = 20  #: Number of rows from which the bottom of a figure is out of sight at the top.
LINEAR_RANGE = 3  #: Maximum ratio of values that need no logarithmic axis.
_REACH = 30  #: Maximum factor by which a logarithmic axis exceeds the values, for their intervals.
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class Canvas:
    """Size of a plot, for a wide screen or a phone."""

    name: str  #: Class of the style sheet that shows it.
    width: float  #: Of the figure, in inches of 72 points.
    labels_above: bool  #: Whether labels of rows stand above them, not on their left.
    columns: int  #: Columns of a legend.
    #: Ratio of the largest to the smallest value up to which a logarithmic axis has room for
    #: several ticks a decade.
    decades: float


_CANVASES = (
    Canvas("wide", 11.5, labels_above=False, columns=6, decades=300.0),
    Canvas("narrow", 3.8, labels_above=True, columns=2, decades=30.0),
)


def on_all_screens(draw: Callable[[Canvas], Markup]) -> Markup:
    """A plot for wide screens and one for phones; the style sheet shows one of them."""
    return Markup("").join(
        Markup('<div class="{}">{}</div>').format(canvas.name, draw(canvas)) for canvas in _CANVASES
    )


@dataclass(frozen=True)
class Point:
    """A value, and its interval if it has one."""

    value: float
    interval: tuple[float, float] | None = None


NO_BOUNDS: Mapping[str, float] = {}

BOUND: dict[str, Any] = {"color": SOFT, "linewidth": 1.2, "linestyle": "--"}

#: Points by the name of the series, one for each row; ``None`` for a missing value.
Series = Mapping[str, Sequence[Point | None]]


def dots(name: str, rows: Sequence[str], series: Series, unit: str, title: str,
         bounds: Mapping[str, float] = NO_BOUNDS) -> Markup:  # fmt: skip
    """A row of dots with intervals for each label; logarithmic if values differ much.

    Args:
        name: Name of the plot, unique on the page.
        rows: Labels from top to bottom.
        series: Points of each series; not empty.
        unit: Label of the axis.
        title: Description for users who cannot see the plot.
        bounds: Values at which a dashed line is drawn, by the line's name in the legend.
    """
    values = [p.value for points in series.values() for p in points if p is not None]
    values += bounds.values()

    def draw(canvas: Canvas) -> Markup:
        plot = _Rows.of(canvas, rows, height=0.16 * len(series) + 0.14)
        for i, (label, points) in enumerate(series.items()):
            plot.dots(points, i, label, _offset(i, len(series), 0.22))
        axes = plot.axes
        for label, bound in bounds.items():
            axes.axvline(bound, label=label, **BOUND)
        if max(values) > LINEAR_RANGE * min(values) > 0:
            logarithmic(canvas, axes, values)
        legend = len(series) > 1 or bool(bounds)
        return finished(canvas, plot.figure, axes, name, unit, title, legend=legend)

    return on_all_screens(draw)


def bars(name: str, rows: Sequence[str], series: Series, unit: str, title: str) -> Markup:
    """Bars for each label, from zero; arguments as for :func:`dots`."""
    thickness = 0.8 / len(series)

    def draw(canvas: Canvas) -> Markup:
        plot = _Rows.of(canvas, rows, height=0.16 * len(series) + 0.14)
        for i, (label, points) in enumerate(series.items()):
            present = [(y, p.value) for y, p in enumerate(points) if p is not None]
            colour = SERIES[i % len(SERIES)]
            plot.bars(present, 0.0, thickness * 0.9, _offset(i, len(series), thickness), colour,
                      label)  # fmt: skip
        plot.axes.set_xlim(left=0)
        return finished(canvas, plot.figure, plot.axes, name, unit, title, legend=len(series) > 1)

    return on_all_screens(draw)


def stacked(
    name: str, rows: Sequence[str], series: Mapping[str, Sequence[float]], unit: str, title: str
) -> Markup:
    """One bar for each label, of parts one after another; arguments as for :func:`dots`.

    A sixth part counts as the rest and is grey.
    """

    def draw(canvas: Canvas) -> Markup:
        plot = _Rows.of(canvas, rows, height=0.26)
        start = [0.0] * len(rows)
        for i, (label, parts) in enumerate(series.items()):
            plot.bars(list(enumerate(parts)), start, 0.72, 0.0, _PARTS[i % len(_PARTS)], label)
            start = [before + part for before, part in zip(start, parts, strict=True)]
        plot.axes.set_xlim(0, max(start))
        return finished(canvas, plot.figure, plot.axes, name, unit, title, legend=True)

    return on_all_screens(draw)


def around_one(name: str, rows: Sequence[str], points: Sequence[Point | None], unit: str,
               title: str, bands: Sequence[float] = ()) -> Markup:  # fmt: skip
    """Dots with intervals around a line at 1; arguments as for :func:`dots`.

    Each band is shaded by its width to both sides of the line.
    """
    return all_around_one(name, rows, {"": points}, unit, title, bands)


def all_around_one(name: str, rows: Sequence[str], series: Series, unit: str, title: str,
                   bands: Sequence[float] = ()) -> Markup:  # fmt: skip
    """Dots of several series with intervals around a line at 1."""
    shown = [p for points in series.values() for p in points if p is not None]
    ends = [e for p in shown for e in (p.value, *(p.interval or ()))]
    low, high = min([0.9, *ends]), max([1.1, *ends])
    margin = 0.05 * (high - low)

    def draw(canvas: Canvas) -> Markup:
        height = 0.3 if len(series) == 1 else 0.12 * len(series) + 0.14
        plot = _Rows.of(canvas, rows, height)
        for band in bands:
            plot.axes.axvspan(1 - band, 1 + band, color=_RULE, alpha=0.4, linewidth=0)
        plot.axes.axvline(1, color=SOFT, linewidth=1)
        for i, (label, points) in enumerate(series.items()):
            plot.dots(points, i, label, _offset(i, len(series), 0.22))
        plot.axes.set_xlim(max(low - margin, 0), high + margin)
        return finished(canvas, plot.figure, plot.axes, name, unit, title, legend=len(series) > 1)

    return on_all_screens(draw)


@dataclass(frozen=True)
class Curve:
    """Values by a whole number, joined by a line; or one value for all of them."""

    values: Mapping[int, float]  #: Values by the whole number.
    joined: bool = True  #: Whether a line joins the values.
    level: bool = False  #: Whether the single value holds for all numbers, drawn as a dashed line.
    #: Intervals of the values by the whole number, where known.
    intervals: Mapping[int, tuple[float, float]] = field(default_factory=dict)


_APART = 5.0  #: Points between intervals of two curves at one number.

_APART_IN_ALL = 20.0  #: Points between the first and the last of them at most.


def curves(name: str, series: Mapping[str, Curve], across: str, unit: str, title: str,
           reference: float | None = None) -> Markup:  # fmt: skip
    """Lines over whole numbers.

    Several curves are drawn some points beside each other, so that no interval hides another.

    Args:
        name: Name of the plot, unique on the page.
        series: Curves with at least one value.
        across: Label of the horizontal axis.
        unit: Label of the vertical axis.
        title: Description for users who cannot see the plot.
        reference: Value at which a line is drawn.
    """

    def draw(canvas: Canvas) -> Markup:
        from matplotlib.transforms import ScaledTranslation

        figure, axes = blank(canvas, 3.4)
        if reference is not None:
            axes.axhline(reference, color=SOFT, linewidth=1)
        barred = [label for label, curve in series.items() if curve.intervals and not curve.level]
        apart = min(_APART, _APART_IN_ALL / len(barred)) if barred else 0.0
        for i, (label, curve) in enumerate(series.items()):
            look: dict[str, Any] = {"color": SERIES[i % len(SERIES)], "label": label}
            if curve.level:
                axes.axhline(*curve.values.values(), linestyle="--", linewidth=1.6, **look)
                continue
            place = barred.index(label) - (len(barred) - 1) / 2 if label in barred else 0
            beside = axes.transData + ScaledTranslation(
                place * apart / 72, 0, figure.dpi_scale_trans
            )
            lines = axes.plot(list(curve.values), list(curve.values.values()), markersize=5,
                              linewidth=1.4, marker=_MARKERS[i % len(_MARKERS)],
                              linestyle="-" if curve.joined else "", **look)  # fmt: skip
            for number, ends in curve.intervals.items():
                lines += axes.plot((number, number), ends, color=look["color"], linewidth=1.6,
                                   solid_capstyle="butt")  # fmt: skip
            # Only now: the axes find their limits from lines in data coordinates alone.
            for line in lines:
                line.set_transform(beside)
        axes.set_xticks(sorted({n for c in series.values() if not c.level for n in c.values}))
        axes.set_ylabel(unit)
        axes.grid(axis="y", linewidth=0.6)
        axes.set_axisbelow(True)
        return finished(canvas, figure, axes, name, across, title, legend=True)

    return on_all_screens(draw)


def cumulative(name: str, values: Sequence[float], unit: str, title: str,
               marks: Sequence[float] = ()) -> Markup:  # fmt: skip
    """Cumulative distribution of values.

    Args:
        name: Name of the plot, unique on the page.
        values: At least one value; none is negative.
        unit: Label of the axis.
        title: Description for users who cannot see the plot.
        marks: Values at which lines are drawn.
    """
    ordered = sorted(values)
    end = max(ordered[-1], *marks, 0.0) * 1.1 or 1.0
    shares = [100 * i / len(ordered) for i in range(len(ordered) + 1)]

    def draw(canvas: Canvas) -> Markup:
        figure, axes = blank(canvas, 2.6)
        for mark in marks:
            axes.axvline(mark, color=SOFT, linewidth=1, linestyle="--")
        axes.step([0.0, *ordered, end], [*shares, 100.0], where="post", color=SERIES[0])
        axes.set_xlim(0, end)
        axes.set_ylim(0, 104)
        axes.set_ylabel("% of the models")
        axes.grid(linewidth=0.6)
        axes.set_axisbelow(True)
        return finished(canvas, figure, axes, name, unit, title, legend=False)

    return on_all_screens(draw)


def logarithmic(canvas: Canvas, axes: Axes, values: Sequence[float]) -> None:
    """Makes the horizontal axis logarithmic, with as many ticks as fit."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    # An interval that reaches to zero would leave no room for the values.
    axes.set_xlim(max(low, min(values) / _REACH), min(high, max(values) * _REACH))
    close = max(values) < canvas.decades * min(values)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if close else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def blank(canvas: Canvas, height: float) -> tuple[Figure, Axes]:
    """A figure of a canvas's width and a height in inches, with empty axes."""
    # Slow to import, and most commands draw nothing.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(canvas.width, height), layout="constrained")
        return figure, figure.add_subplot()


@dataclass(frozen=True)
class _Rows:
    figure: Figure
    axes: Axes  #: Axes of the figure; row ``y`` extends from ``y - 0.5`` to ``y + 0.5``.
    share: float  #: Share of a row, from its lower side, that labels leave for marks.

    @classmethod
    def of(cls, canvas: Canvas, rows: Sequence[str], height: float) -> _Rows:
        """Empty axes.

        Args:
            canvas: The canvas.
            rows: Labels from top to bottom.
            height: Height of the marks in a row, in inches.
        """
        label = _LABEL if canvas.labels_above else 0.0
        figure, axes = blank(canvas, (height + label) * len(rows) + 0.8)
        labels = short_labels(rows)
        if canvas.labels_above:
            axes.set_yticks([])
            for y, text in enumerate(labels):
                axes.annotate(text, (0, y - 0.5), (0, -2), xycoords=("axes fraction", "data"),
                              textcoords="offset points", va="top", in_layout=False,
                              color=INK, fontsize=SMALL)  # fmt: skip
        else:
            axes.set_yticks(range(len(rows)), labels)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labeltop=len(rows) > _TALL)
        axes.grid(axis="x", linewidth=0.6)
        axes.set_axisbelow(True)
        for y in range(1, len(rows)):
            axes.axhline(y - 0.5, color=_RULE, linewidth=0.4)
        return cls(figure, axes, height / (height + label))

    def dots(self, points: Sequence[Point | None], i: int, label: str, offset: float) -> None:
        """Draws the dots and intervals of a series, offset from the middle of their rows."""
        colour, marker = SERIES[i % len(SERIES)], _MARKERS[i % len(_MARKERS)]
        shown = [(self._place(y, offset), p) for y, p in enumerate(points) if p is not None]
        for y, point in shown:
            if point.interval:
                self.axes.plot(point.interval, (y, y), color=colour, linewidth=1.6,
                               solid_capstyle="butt")  # fmt: skip
        self.axes.plot([p.value for _, p in shown], [y for y, _ in shown], marker, color=colour,
                       markersize=4.5, label=label)  # fmt: skip

    def bars(self, values: Sequence[tuple[int, float]], start: float | Sequence[float],
             thickness: float, offset: float, colour: str, label: str) -> None:  # fmt: skip
        """Draws the bars of a series, with an offset from the middle of their rows."""
        self.axes.barh(
            [self._place(y, offset) for y, _ in values],
            [value for _, value in values],
            left=start,
            height=thickness * self.share,
            color=colour,
            label=label,
        )

    def _place(self, row: int, offset: float) -> float:
        return row + (1 - self.share) / 2 + offset * self.share


def _offset(i: int, count: int, step: float) -> float:
    return (i - (count - 1) / 2) * step


def finished(
    canvas: Canvas, figure: Figure, axes: Axes, name: str, unit: str, title: str, *, legend: bool
) -> Markup:
    """A figure as SVG that takes its colours from the page, with a label of the horizontal axis."""
    import matplotlib as mpl

    axes.set_xlabel(unit)
    buffer = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"{name} {canvas.name}"}):
        if legend:
            figure.legend(loc="outside upper left", ncols=canvas.columns, frameon=False,
                          handlelength=1.2)  # fmt: skip
        for text in (text for legend in figure.legends for text in legend.get_texts()):
            text.set_text(sanitized(text.get_text()))
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], svg)
    # The page sets the size. Names of groups are unused, and would be equal in all plots.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    label = escape(sanitized(title))
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1))


def short_labels(rows: Sequence[str]) -> list[str]:
    """Labels, shortened in their middle where they are long and stay distinct."""
    whole = [sanitized(row) for row in rows]
    half = _LONGEST // 2
    cut = [t if len(t) <= _LONGEST else f"{t[: half - 1]}…{t[-half:]}" for t in whole]
    return cut if len(set(cut)) == len(set(whole)) else whole

"""Plot of merits against costs, with the Pareto front of alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbricks_pages.html import plots
from markupsafe import Markup


@dataclass(frozen=True)
class Candidate:
    """A point of a Pareto plot, with a cost and a merit."""

    label: str  #: Name beside the point; empty for none.
    cost: plots.Point  #: Cost of the candidate.
    merit: float  #: Merit of the candidate.
    on_front: bool  #: Whether the candidate is on the Pareto front.


def pareto(name: str, candidates: Sequence[Candidate], across: str, unit: str, title: str,
           bounds: Mapping[str, float] = plots.NO_BOUNDS,
           levels: Mapping[str, float] = plots.NO_BOUNDS) -> Markup:  # fmt: skip
    """Merits against costs, with a line along the Pareto front.

    Args:
        name: Name of the plot, unique on the page.
        candidates: At least one candidate.
        across: Label of the horizontal axis, of costs.
        unit: Label of the vertical axis, of merits.
        title: Description for users who cannot see the plot.
        bounds: Costs at which a dashed line is drawn, by the line's name in the legend.
        levels: Merits at which a dotted line is drawn, likewise.
    """
    front = sorted((each for each in candidates if each.on_front), key=lambda e: e.cost.value)
    costs = [*(each.cost.value for each in candidates), *bounds.values()]

    def draw(canvas: plots.Canvas) -> Markup:
        figure, axes = plots.blank(canvas, 3.8)
        axes.step([e.cost.value for e in front], [e.merit for e in front], where="post",
                  color=plots.SERIES[0], linewidth=1.2, linestyle="--")  # fmt: skip
        for each in candidates:
            colour = plots.SERIES[0] if each.on_front else plots.SOFT
            if each.cost.interval:
                axes.plot(each.cost.interval, (each.merit,) * 2, color=colour, linewidth=1.6,
                          solid_capstyle="butt")  # fmt: skip
            axes.plot(each.cost.value, each.merit, "o" if each.on_front else "x", color=colour,
                      markersize=5)  # fmt: skip
            if each.label:
                (label,) = plots.short_labels([each.label])
                axes.annotate(label, (each.cost.value, each.merit), (4, 4), color=plots.INK,
                              textcoords="offset points", fontsize=plots.SMALL)  # fmt: skip
        for label, bound in bounds.items():
            axes.axvline(bound, label=label, **plots.BOUND)
        for label, level in levels.items():
            axes.axhline(level, label=label, **{**plots.BOUND, "linestyle": ":"})
        if max(costs) > plots.LINEAR_RANGE * min(costs) > 0:
            plots.logarithmic(canvas, axes, costs)
        axes.margins(x=0.12, y=0.12)
        axes.set_ylabel(unit)
        axes.grid(linewidth=0.6)
        axes.set_axisbelow(True)
        legend = bool(bounds or levels)
        return plots.finished(canvas, figure, axes, name, across, title, legend=legend)

    return plots.on_all_screens(draw)

"""An explanation as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from dlbricks_core.bricks.naming import LENGTH
from dlbricks_core.report import heading
from dlbricks_core.report.explanation.words import (
    group_names,
    largest,
    places,
    shapes,
    signed,
    total_lines,
)
from dlbricks_core.report.html.plots import Point, dots
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import or_dash, page, run_facts
from dlbricks_core.report.remarks import alike, run_remarks
from dlbricks_core.report.run.page import without_subject
from dlbricks_core.workflows import LoadOptions
from dlbricks_core.workflows.explain import Explanation, Group

_PLOTTED = 20


def explanation_page(explanation: Explanation, load: LoadOptions | None = None) -> str:
    """An explanation as an HTML page.

    Args:
        explanation: The explanation.
        load: How models were read; ``None`` if unknown.
    """
    result = explanation.result
    title = heading.subject(result)
    labels = group_names(explanation, LENGTH)
    first, *others = total_lines(explanation)
    farthest = largest(explanation, labels)
    return page(
        "explanation/page.html",
        title=f"{title}, explained",
        answer=[without_subject(first, title), *([farthest] if farthest else [])],
        facts=run_facts({result.request.backend.name: result}, load),
        remarks=run_remarks(result),
        failures=alike(result.failures),
        lines=others,
        profiled=explanation.profile is not None,
        plot=_plot(explanation.groups[:_PLOTTED], labels),
        groups=_groups(explanation.groups, labels),
        outside=_outside(explanation) if explanation.outside else None,
    )


def _groups(groups: Sequence[Group], labels: Sequence[str]) -> Table:
    return table(
        ["Layers", Column("Sizes", is_text=True), "Place", Column("Bricks", is_text=True),
         "Occurs", "Composed", "Profile", "Scaled", "Difference", Column("Remarks", is_text=True)],
        [
            [
                label,
                shapes(group),
                places(group),
                Cell(" ".join(signature[:8] for signature in group.signatures), "code"),
                str(group.occurrences),
                or_dash(group.cost.ms if group.cost else None),
                or_dash(group.profiled_ms),
                or_dash(group.scaled_ms),
                signed(group.deviation_ms),
                "; ".join(group.remarks),
            ]
            for group, label in zip(groups, labels, strict=True)
        ],
        "Latencies in ms. Composed: the cost of the brick, without the timer's own. Profile: as "
        "the framework reports it. Scaled: so that the profile sums up to the measured latency. "
        "Difference: composed less scaled.",
        names_wrap=True,
    )  # fmt: skip


def _outside(explanation: Explanation) -> Table:
    return table(
        ["Layer", Column("Operator", is_text=True), "ms"],
        [[each.name, each.operator, or_dash(each.ms)] for each in explanation.outside],
        names_wrap=True,
    )


def _plot(groups: Sequence[Group], labels: Sequence[str]) -> Markup | None:
    # Zero has no position on a logarithmic axis; the table shows it.
    shown = [(g, label) for g, label in zip(groups, labels, strict=False) if g.cost and g.cost.ms]
    if not shown:
        return None
    series: dict[str, list[Point | None]] = {
        "composed": [Point(g.cost.ms, g.cost.interval_ms) if g.cost else None for g, _ in shown]
    }
    if any(group.scaled_ms for group, _ in shown):
        series["profile, scaled"] = [Point(g.scaled_ms) if g.scaled_ms else None for g, _ in shown]
    return dots(
        "groups",
        [f"{places(group)}: {label}" for group, label in shown],
        series,
        "cost in ms",
        "Composed cost of the groups that deviate most, and their part in the scaled profile",
    )

"""Where an estimate deviates and why: as a table, as plain data and as an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from rich.table import Table

from dlbricks_core.ir import TensorSpec
from dlbricks_core.report.console import Console, lines, styled
from dlbricks_core.report.data import run_data
from dlbricks_core.report.html.plots import Point, dots
from dlbricks_core.report.html.templating import page
from dlbricks_core.report.run.terminal import print_head, print_remarks
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import LoadOptions
from dlbricks_core.workflows.explain import Explanation, Group

SHOWN = 15
"""Groups that a terminal shows unless the user says otherwise."""

_DOUBTFUL = 0.1
"""Scaling by more than this, either way, hides more than it shows."""

_PLOTTED = 20
_NAMED = 3


def print_explanation(console: Console, explanation: Explanation, shown: int = SHOWN) -> None:
    """Totals, a table of the groups and remarks, for a terminal of 80 columns.

    Args:
        console: Where to print.
        explanation: What was found out.
        shown: How many groups the table has at most.
    """
    print_head(console, explanation.result)
    for line in total_lines(explanation):
        console.print(line)
    console.print(_groups(explanation.groups[:shown]))
    console.print(
        "In ms. #: place in the model. Times: how often the brick occurs. Composed: the "
        "brick's cost. Scaled: the profile, scaled to the measured latency. Diff.: composed - "
        "scaled."
    )
    rest = rest_line(explanation.groups[shown:])
    if rest:
        console.print(rest)
    print_remarks(console, explanation.result)


def _groups(groups: Sequence[Group]) -> Table:
    shown = table("#", "Layers", "Times", "Composed", "Profile", "Scaled", "Diff.", left=2)
    shown.columns[0].min_width, shown.columns[0].max_width = None, 7
    for group in groups:
        remarks = [styled((remark, "yellow")) for remark in group.remarks]
        shown.add_row(
            places(group),
            lines(layers(group), styled((shapes(group), "dim")), *remarks),
            str(group.occurrences),
            _ms(group.cost.ms if group.cost else None),
            _ms(group.profiled_ms),
            _ms(group.scaled_ms),
            signed(group.deviation_ms),
        )
    shown.columns[1].no_wrap = False
    return shown


def total_lines(explanation: Explanation) -> list[str]:
    """Composed, measured and profiled totals, and how they hang together, in sentences."""
    estimate = explanation.model.estimate
    composed = f"Composed {'more than ' if estimate.partial else ''}{_ms(estimate.value)} ms"
    if estimate.interval is not None:
        composed += f" ({ms(estimate.interval[0])}-{ms(estimate.interval[1])})"
    lines = [f"{explanation.model.cut.model.name}: {composed}, {_measured(explanation)}"]
    lines += _profile_lines(explanation)
    groups, rest = explanation.groups_ms, explanation.rest_ms
    if groups is not None and rest is not None:
        line = f"Of the deviation, {signed(groups)} ms are in the groups"
        lines.append(f"{line}{_rest(explanation, rest)}.")
    return lines


def _measured(explanation: Explanation) -> str:
    measured, deviation = explanation.measured_ms, explanation.deviation_ms
    if measured is None:
        return f"not measured: {explanation.model.failure or 'bricks are missing'}."
    if deviation is None:
        return f"measured {ms(measured)} ms."
    return f"measured {ms(measured)} ms: {signed(deviation)} ms ({deviation / measured:+.1%})."


def _profile_lines(explanation: Explanation) -> list[str]:
    profile, name = explanation.profile, explanation.result.request.backend.name
    if profile is None:
        return [f"No profile of {name}: {explanation.profiling.reason}."]
    lines = [
        f"Profile of {name}: {ms(profile.sum_ms)} ms over {len(profile.layers)} layers. A run "
        f"takes {ms(profile.run_ms)} ms while it is profiled: profiling changes what it looks at."
    ]
    if explanation.scale is not None:
        lines.append(
            f"Scaled by {explanation.scale:.3f}, it sums up to the measured latency less the "
            f"timer's own {explanation.call_ms * 1e3:.1f} us."
        )
        if abs(explanation.scale - 1) > _DOUBTFUL:
            lines.append(
                f"That is {explanation.scale - 1:+.0%} against the profile's sum: time outside of "
                "layers, profiling, or other load on the machine, which scaling spreads over "
                "all groups alike."
            )
    return lines


def _rest(explanation: Explanation, rest: float) -> str:
    if ms(abs(rest)) == ms(0):
        return ""
    text = f", {signed(rest)} ms are not"
    causes = []
    if explanation.outside:
        names = Counter(each.operator for each in explanation.outside)
        listed = ", ".join(list(names)[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        causes.append(f"{len(explanation.outside)} layers of the profile in no group ({listed})")
    lacking = sum(group.deviation_ms is None for group in explanation.groups)
    if lacking:
        causes.append(f"{lacking} groups that the profile does not know in full")
    return f"{text}: {'; '.join(causes)}" if causes else text


def rest_line(groups: Sequence[Group]) -> str:
    """What the groups that are not shown sum up to; empty if there are none."""
    if not groups:
        return ""
    total = signed(sum(group.deviation_ms or 0.0 for group in groups))
    known = any(group.deviation_ms is not None for group in groups)
    return f"{len(groups)} more groups{f', together {total} ms' if known else ''} (--top N)."


def places(group: Group) -> str:
    """Where the group stands in the model, counted from 1: ``7``, ``7-9`` or ``7, 10``."""
    first, last = group.positions[0] + 1, group.positions[-1] + 1
    if last - first + 1 > len(group.positions):
        return ", ".join(str(position + 1) for position in group.positions)
    return str(first) if first == last else f"{first}-{last}"


def layers(group: Group) -> str:
    """The group's operators, each once with its number, without their domains."""
    counts = Counter(operator.rpartition(".")[2] for operator in group.operators)
    return ", ".join(f"{n} x{count}" if count > 1 else n for n, count in counts.items())


def shapes(group: Group) -> str:
    """What goes into the group and what comes out."""
    return f"{_specs(group.inputs)} > {_specs(group.outputs)}"


def _specs(specs: Sequence[TensorSpec]) -> str:
    # Nearly everything is float32: only other types are worth the room.
    return ", ".join(str(spec).removeprefix("float32") for spec in specs)


def _ms(value: float | None) -> str:
    return "-" if value is None else ms(value)


def signed(value: float | None) -> str:
    """Milliseconds with their sign."""
    return "-" if value is None else f"{'-' if value < 0 else '+'}{ms(abs(value))}"


def explanation_data(explanation: Explanation, load: LoadOptions | None = None) -> dict[str, Any]:
    """The run as :func:`run_data` writes it, and what the explanation adds.

    Args:
        explanation: What was found out.
        load: What was said about how models are read.
    """
    profile, estimate = explanation.profile, explanation.model.estimate
    return {
        **run_data(explanation.result, load),
        "explanation": {
            "model": explanation.model.cut.model.name,
            "composed_ms": explanation.composed_ms,
            "interval_ms": estimate.interval,
            "partial": estimate.partial,
            "measured_ms": explanation.measured_ms,
            "deviation_ms": explanation.deviation_ms,
            "call_ms": explanation.call_ms,
            "groups_deviation_ms": explanation.groups_ms,
            "rest_deviation_ms": explanation.rest_ms,
            "profile": {
                "sum_ms": profile.sum_ms if profile else None,
                "run_ms": profile.run_ms if profile else None,
                "scale": explanation.scale,
                "missing": explanation.profiling.reason or None,
                "outside_groups": [
                    {"name": each.name, "layer": each.operator, "ms": each.ms}
                    for each in explanation.outside
                ],
            },
            "groups": [_group_data(group) for group in explanation.groups],
        },
    }


def _group_data(group: Group) -> dict[str, Any]:
    return {
        "positions": list(group.positions),
        "signatures": list(group.signatures),
        "layers": list(group.operators),
        "inputs": [str(spec) for spec in group.inputs],
        "outputs": [str(spec) for spec in group.outputs],
        "occurrences": group.occurrences,
        "composed_ms": group.cost.ms if group.cost else None,
        "interval_ms": group.cost.interval_ms if group.cost else None,
        "profiled_ms": group.profiled_ms,
        "scaled_ms": group.scaled_ms,
        "deviation_ms": group.deviation_ms,
        "remarks": list(group.remarks),
    }


def explanation_page(explanation: Explanation, load: LoadOptions | None = None) -> str:
    """An explanation as an HTML page; arguments as for :func:`explanation_data`."""
    result = explanation.result
    return page(
        "explanation/page.html",
        {result.request.backend.name: result},
        load,
        explanation=explanation,
        lines=total_lines(explanation),
        layers=layers,
        places=places,
        shapes=shapes,
        signed=signed,
        plot=_plot(explanation.groups[:_PLOTTED]),
        warnings=[f"{text} while measuring" for text in result.outcome.warnings],
        notes=explanation.model.notes,
        failures=[(failure.where, failure.reason) for failure in result.failures],
    )


def _plot(groups: Sequence[Group]) -> Markup | None:
    # Nothing is no place on a logarithmic axis; the table says it.
    shown = [group for group in groups if group.cost and group.cost.ms > 0]
    if not shown:
        return None
    series: dict[str, list[Point | None]] = {
        "composed": [Point(g.cost.ms, g.cost.interval_ms) if g.cost else None for g in shown]
    }
    if any(group.scaled_ms for group in shown):
        series["profile, scaled"] = [Point(g.scaled_ms) if g.scaled_ms else None for g in shown]
    return dots(
        "groups",
        [f"{places(group)}: {layers(group)}" for group in shown],
        series,
        "cost in ms",
        "Composed cost of the groups that deviate most, and their part in the scaled profile",
    )

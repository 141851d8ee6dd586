"""Explanations in JSON, sentences, tables and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from dlbricks_pages.html.plots import Point, dots
from dlbricks_pages.html.templating import (
    Cell,
    PageTable,
    page,
    page_table,
    run_facts,
)
from dlbricks_pages.run import without_subject
from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from dlbricks_core.bricks.naming import LENGTH, fold, names, operator_name
from dlbricks_core.commands.estimate.data import EstimateData, run_data
from dlbricks_core.importers import LoadOptions
from dlbricks_core.ir import TensorSpec
from dlbricks_core.report import heading
from dlbricks_core.report.data import Interval, QuantityData, quantity_data
from dlbricks_core.report.heading import print_result, subject
from dlbricks_core.report.remarks import (
    alike,
    run_remarks,
)
from dlbricks_core.report.tables import Console, lines, ms, styled, table, value_text
from dlbricks_core.wording import argument
from dlbricks_explain.explanation import BrickGroup, Explanation


class CheckLayersData(EstimateData):
    """Output of ``dlbricks check layers``: as ``dlbricks estimate``, and an explanation."""

    explanation: ExplanationData  #: Where the estimate deviates.


class ExplanationData(TypedDict):
    """Where an estimate deviates."""

    model: str  #: Name of the model.
    quantity: QuantityData  #: Quantity of the figures of model and groups, and their unit.
    estimate: float | None  #: Composed estimate.
    interval: Interval | None  #: 90% interval of it.
    partial: bool  #: Whether a brick has no latency.
    measured: float | None  #: Measured value of the whole model.
    deviation: float | None  #: Estimate less measured value.
    call_ms: float | None  #: Cost of a call.
    groups_deviation: float | None  #: Part of the deviation that groups account for.
    rest_deviation: float | None  #: The rest.
    profile: LayerProfileData  #: The framework's own profile.
    groups: list[LayerGroupData]  #: Groups of layers; the largest deviation first.


class LayerProfileData(TypedDict):
    """The framework's own profile of the whole model."""

    sum_ms: float | None  #: Sum over all layers, in milliseconds.
    run_ms: float | None  #: Median profiled run, in milliseconds.
    #: Factor of the times of layers: 1, or less where their sum exceeds the measured latency.
    scale: float | None
    in_layers_ms: float | None  #: Part of the measured latency in layers, in milliseconds.
    in_no_layer_ms: float | None  #: Part of the measured latency in no layer, in milliseconds.
    missing: str | None  #: Why there is no profile.
    outside_groups: list[UnmatchedLayerData]  #: Layers that are in no group.


class UnmatchedLayerData(TypedDict):
    """A profiled layer that is in no group."""

    name: str  #: As the framework calls it.
    layer: str  #: Its operator.
    ms: float  #: Milliseconds.


class LayerGroupData(TypedDict):
    """Layers that were timed together."""

    positions: list[int]  #: Places of its bricks in the model.
    signatures: list[str]  #: Of its bricks.
    layers: list[str]  #: Operators in order.
    inputs: list[str]  #: Types and shapes.
    outputs: list[str]  #: Types and shapes.
    occurrences: int  #: How often it occurs.
    composed: float | None  #: Share of the group in the estimate.
    interval: Interval | None  #: 90% interval of that.
    profiled: float | None  #: Value of the group in the profile.
    scaled: float | None  #: The profiled value, times the profile's scale.
    deviation: float | None  #: Composed less scaled.
    remarks: list[str]  #: For people.


_DOUBTFUL = 0.1  #: Share of the time in layers above which time in no layer is explained.
_NAMED = 3  #: Maximum number of groups or layers that a sentence names.


def total_lines(explanation: Explanation) -> list[str]:
    """Sentences on the estimated, measured and profiled totals, and on their relations."""
    estimate = explanation.model.estimate
    least = "more than " if estimate.partial else ""
    known = estimate.value is not None
    estimated = f"estimated {least}{value_text(estimate.value)} ms" if known else "no estimate"
    if estimate.interval is not None:
        estimated += f" ({ms(estimate.interval[0])}-{ms(estimate.interval[1])})"
    lines = [f"{subject(explanation.result)}: {estimated}, {_measured(explanation)}"]
    lines += _profile_lines(explanation)
    groups, rest = explanation.groups_ms, explanation.rest_ms
    if groups is not None and rest is not None:
        line = f"Of the deviation, {signed(groups)} ms are in the groups"
        lines.append(f"{line}{_rest(explanation, rest)}.")
    return lines


def largest(explanation: Explanation, labels: Sequence[str]) -> str:
    """A sentence on the groups that deviate most; empty if no deviation is known."""
    found = [each for each in explanation.groups[:_NAMED] if each.deviation_ms is not None]
    if not found:
        return ""
    listed = ", ".join(f"{places(each)} ({signed(each.deviation_ms)} ms)" for each in found)
    return f"Largest deviations, by place: {listed}; the first is {labels[0]}."


def group_names(explanation: Explanation, length: int) -> list[str]:
    """A short name for each group: that of its brick, or its operators where bricks are fused."""
    models = {each.brick.signature: each.brick.model for each in explanation.result.bricks}
    named = names(models, length)
    return [
        named[group.signatures[0]]
        if len(group.signatures) == 1 and group.signatures[0] in named
        else fold([operator_name(each) for each in group.operators], length)
        for group in explanation.groups
    ]


def _measured(explanation: Explanation) -> str:
    measured, deviation = explanation.measured_ms, explanation.deviation_ms
    if measured is None:
        return f"not measured: {explanation.model.failure or 'bricks are missing'}."
    if deviation is None:
        return f"measured {ms(measured)} ms."
    side = "low" if deviation < 0 else "high"
    return (
        f"measured {ms(measured)} ms: {abs(deviation / measured):.1%} too {side} "
        f"({signed(deviation)} ms)."
    )


def _profile_lines(explanation: Explanation) -> list[str]:
    profile, name = explanation.profile, explanation.result.request.backend.name
    if profile is None:
        return [f"No profile of {name}: {explanation.profiling.reason}."]
    lines = [
        f"Profile of {name}: {ms(profile.sum_ms)} ms over {len(profile.layers)} layers. A run "
        f"takes {ms(profile.run_ms)} ms while it is profiled: profiling slows the model down."
    ]
    if explanation.in_layers_ms is None or explanation.in_no_layer_ms is None:
        return lines
    composed, call_ms = explanation.composed_ms, explanation.call_ms
    timer = f", {ms(call_ms)} in the timer" if ms(call_ms) != ms(0) else ""
    bricks = "" if composed is None else f" Bricks sum up to {ms(composed - call_ms)} ms."
    lines.append(
        f"Of the measured latency, {ms(explanation.in_layers_ms)} ms are in layers, "
        f"{ms(explanation.in_no_layer_ms)} in no layer{timer}.{bricks}"
    )
    if explanation.scale is not None and explanation.scale < 1:
        lines.append(
            f"Times of layers are scaled by {explanation.scale:.3f}: without the profiler, they "
            "sum up to no more than a run."
        )
    elif explanation.in_no_layer_ms > _DOUBTFUL * explanation.in_layers_ms:
        lines.append(
            "Time in no layer is the framework's own, or other load on the machine: a sum of "
            "bricks does not have it."
        )
    return lines


def _rest(explanation: Explanation, rest: float) -> str:
    if ms(abs(rest)) == ms(0):
        return ""
    text = f", {signed(rest)} ms are not"
    causes = []
    if explanation.in_no_layer_ms and ms(explanation.in_no_layer_ms) != ms(0):
        causes.append(f"{ms(explanation.in_no_layer_ms)} ms in no layer")
    if explanation.outside:
        names = Counter(each.operator for each in explanation.outside)
        listed = ", ".join(list(names)[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        causes.append(f"{len(explanation.outside)} layers of the profile in no group ({listed})")
    lacking = sum(group.deviation_ms is None for group in explanation.groups)
    if lacking:
        causes.append(f"{lacking} groups that the profile does not know in full")
    return f"{text}: {'; '.join(causes)}" if causes else text


def rest_line(groups: Sequence[BrickGroup]) -> str:
    """A line on the sum of the groups that are not shown; empty if there are none."""
    if not groups:
        return ""
    total = signed(sum(group.deviation_ms or 0.0 for group in groups))
    known = any(group.deviation_ms is not None for group in groups)
    together = f", together {total} ms" if known else ""
    return f"{len(groups)} more groups{together} ({argument('top')} shows more)."


def places(group: BrickGroup) -> str:
    """Positions of a group in the model, counted from 1: ``7``, ``7-9`` or ``7, 10``."""
    first, last = group.positions[0] + 1, group.positions[-1] + 1
    if last - first + 1 > len(group.positions):
        return ", ".join(str(position + 1) for position in group.positions)
    return str(first) if first == last else f"{first}-{last}"


def shapes(group: BrickGroup) -> str:
    """Inputs and outputs of a group."""
    return f"{_specs(group.inputs)} > {_specs(group.outputs)}"


def _specs(specs: Sequence[TensorSpec]) -> str:
    # Almost all tensors are float32, so only other types are shown.
    return ", ".join(str(spec).removeprefix("float32") for spec in specs)


def signed(value: float | None) -> str:
    """Milliseconds with their sign."""
    return "-" if value is None else f"{'-' if value < 0 else '+'}{ms(abs(value))}"


def explanation_data(explanation: Explanation, load: LoadOptions | None = None) -> CheckLayersData:
    """The run as written by :func:`run_data`, with the groups of the explanation."""
    profile, estimate = explanation.profile, explanation.model.estimate
    return {
        **run_data(explanation.result, load),
        "explanation": {
            "model": explanation.model.cut.model.name,
            "quantity": quantity_data(explanation.result.request.quantity),
            "estimate": explanation.composed_ms,
            "interval": estimate.interval,
            "partial": estimate.partial,
            "measured": explanation.measured_ms,
            "deviation": explanation.deviation_ms,
            "call_ms": explanation.call_ms,
            "groups_deviation": explanation.groups_ms,
            "rest_deviation": explanation.rest_ms,
            "profile": {
                "sum_ms": profile.sum_ms if profile else None,
                "run_ms": profile.run_ms if profile else None,
                "scale": explanation.scale,
                "in_layers_ms": explanation.in_layers_ms,
                "in_no_layer_ms": explanation.in_no_layer_ms,
                "missing": explanation.profiling.reason or None,
                "outside_groups": [
                    {"name": each.name, "layer": each.operator, "ms": each.ms}
                    for each in explanation.outside
                ],
            },
            "groups": [_group_data(group) for group in explanation.groups],
        },
    }


def _group_data(group: BrickGroup) -> LayerGroupData:
    return {
        "positions": list(group.positions),
        "signatures": list(group.signatures),
        "layers": list(group.operators),
        "inputs": [str(spec) for spec in group.inputs],
        "outputs": [str(spec) for spec in group.outputs],
        "occurrences": group.occurrences,
        "composed": group.cost.ms if group.cost else None,
        "interval": group.cost.interval_ms if group.cost else None,
        "profiled": group.profiled_ms,
        "scaled": group.scaled_ms,
        "deviation": group.deviation_ms,
        "remarks": list(group.remarks),
    }


SHOWN = 15  #: Default number of groups that a terminal shows.
_NAME = 38  #: Number of characters of a group's name that leave room for its figures.


def print_explanation(console: Console, explanation: Explanation, top: int = SHOWN) -> None:
    """Prints the error of the estimate, and the groups that deviate most."""
    result, labels = explanation.result, group_names(explanation, _NAME)
    first, *others = total_lines(explanation)
    shown: list[str | Text | Table] = [
        _groups_shown(explanation.groups[:top], labels[:top]),
        "In ms. #: place in the model. Times: how often the brick occurs. Composed: the "
        "brick's cost. Scaled: the profile, with a sum of at most the measured latency. "
        "Diff.: composed - scaled.",
        rest_line(explanation.groups[top:]),
        *others,
    ]
    answer = [first, largest(explanation, labels)]
    print_result(console, result, answer, shown, run_remarks(result))


def _figures(group: BrickGroup) -> list[str]:
    """Composed, profiled and scaled time of a group, and the deviation."""
    times = (group.cost.ms if group.cost else None, group.profiled_ms, group.scaled_ms)
    return [*map(value_text, times), signed(group.deviation_ms)]


def _groups_shown(groups: Sequence[BrickGroup], labels: Sequence[str]) -> Table:
    shown = table("#", "Layers", "Times", "Composed", "Profile", "Scaled", "Diff.", left=2)
    shown.columns[0].min_width, shown.columns[0].max_width = None, 7
    for group, label in zip(groups, labels, strict=True):
        remarks = [styled((remark, "yellow")) for remark in group.remarks]
        shown.add_row(
            places(group),
            lines(label, *remarks),
            str(group.occurrences),
            *_figures(group),
        )
    shown.columns[1].no_wrap = False
    return shown


_PLOTTED = 20


def explanation_page(explanation: Explanation, load: LoadOptions | None = None) -> str:
    """An explanation as an HTML page."""
    result = explanation.result
    title = heading.subject(result)
    labels = group_names(explanation, LENGTH)
    first, *others = total_lines(explanation)
    farthest = largest(explanation, labels)
    return page(
        "page.html",
        package="dlbricks_explain",
        title=f"{title}, explained",
        answer=[without_subject(first, title), *([farthest] if farthest else [])],
        facts=run_facts({result.request.backend.name: result}, load),
        remarks=run_remarks(result),
        failures=alike(result.failures),
        lines=others,
        profiled=explanation.profile is not None,
        plot=_plot(explanation.groups[:_PLOTTED], labels),
        groups=_groups_table(explanation.groups, labels),
        outside=_outside(explanation) if explanation.outside else None,
    )


def _groups_table(groups: Sequence[BrickGroup], labels: Sequence[str]) -> PageTable:
    return page_table(
        ("Layers", "Sizes", "Place", "Bricks", "Occurs", "Composed", "Profile", "Scaled",
         "Difference", "Remarks"),
        [
            [
                label,
                shapes(group),
                places(group),
                Cell(" ".join(signature[:8] for signature in group.signatures), "code"),
                str(group.occurrences),
                *_figures(group),
                "; ".join(group.remarks),
            ]
            for group, label in zip(groups, labels, strict=True)
        ],
        "Latencies in ms. Composed: the cost of the brick, without the timer's own. Profile: as "
        "the framework reports it. Scaled: so that the profile sums up to the measured latency. "
        "Difference: composed less scaled.",
        words=("Sizes", "Bricks", "Remarks"),
        names_wrap=True,
    )  # fmt: skip


def _outside(explanation: Explanation) -> PageTable:
    return page_table(
        ("Layer", "Operator", "ms"),
        [[each.name, each.operator, ms(each.ms)] for each in explanation.outside],
        words=["Operator"],
        names_wrap=True,
    )


def _plot(groups: Sequence[BrickGroup], labels: Sequence[str]) -> Markup | None:
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

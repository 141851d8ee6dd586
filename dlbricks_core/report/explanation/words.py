"""Deviations of an estimate from the measured latency, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlbricks_core.bricks.naming import fold, names, operator_name
from dlbricks_core.ir import TensorSpec
from dlbricks_core.report.heading import subject
from dlbricks_core.report.tables import ms
from dlbricks_core.wording import argument
from dlbricks_core.workflows.explain import Explanation, Group

_DOUBTFUL = 0.1
"""Deviation of the scaling factor from 1 above which scaling hides more than it shows."""

_NAMED = 3
"""Maximum number of groups or layers that a sentence names."""


def total_lines(explanation: Explanation) -> list[str]:
    """Sentences on the estimated, measured and profiled totals, and on their relations."""
    estimate = explanation.model.estimate
    least = "more than " if estimate.partial else ""
    known = estimate.value is not None
    estimated = f"estimated {least}{or_dash(estimate.value)} ms" if known else "no estimate"
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
    """A sentence on the groups that deviate most; empty if no deviation is known.

    Args:
        explanation: The explanation.
        labels: Name of each of its groups.
    """
    found = [each for each in explanation.groups[:_NAMED] if each.deviation_ms is not None]
    if not found:
        return ""
    listed = ", ".join(f"{places(each)} ({signed(each.deviation_ms)} ms)" for each in found)
    return f"Farthest off: {listed}; the first is {labels[0]}."


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
    """A line on the sum of the groups that are not shown; empty if there are none."""
    if not groups:
        return ""
    total = signed(sum(group.deviation_ms or 0.0 for group in groups))
    known = any(group.deviation_ms is not None for group in groups)
    together = f", together {total} ms" if known else ""
    return f"{len(groups)} more groups{together} ({argument('top')} shows more)."


def places(group: Group) -> str:
    """Positions of a group in the model, counted from 1: ``7``, ``7-9`` or ``7, 10``."""
    first, last = group.positions[0] + 1, group.positions[-1] + 1
    if last - first + 1 > len(group.positions):
        return ", ".join(str(position + 1) for position in group.positions)
    return str(first) if first == last else f"{first}-{last}"


def shapes(group: Group) -> str:
    """Inputs and outputs of a group."""
    return f"{_specs(group.inputs)} > {_specs(group.outputs)}"


def _specs(specs: Sequence[TensorSpec]) -> str:
    # Almost all tensors are float32, so only other types are shown.
    return ", ".join(str(spec).removeprefix("float32") for spec in specs)


def or_dash(value: float | None) -> str:
    """Milliseconds, or a dash if unknown."""
    return "-" if value is None else ms(value)


def signed(value: float | None) -> str:
    """Milliseconds with their sign."""
    return "-" if value is None else f"{'-' if value < 0 else '+'}{ms(abs(value))}"

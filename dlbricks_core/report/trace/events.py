"""A trace in the format that Perfetto and Chrome open.

The format is "Trace Event Format" (Google, 2016): complete events (``ph`` ``X``) with begin and
duration in microseconds, on threads (``tid``) of one process. Every level is a thread here, and the
deepest level has one for each thread of the framework. So viewers draw them as tracks below each
other; all tracks begin at 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dlbricks_core.report.explanation.words import group_names, places, shapes
from dlbricks_core.workflows.explain import Explanation
from dlbricks_core.workflows.trace import Level, Trace

MOST_SPANS = 200_000
"""Maximum spans of a timeline in a file, the longest ones. With 300 bytes each, the file stays
below 100 MB."""

_NAME = 60
"""Maximum number of characters of a brick's name."""

Event = dict[str, Any]


def trace_events(trace: Trace) -> dict[str, Any]:
    """The content of a trace file.

    Args:
        trace: The trace.
    """
    about = trace.explanation
    name = about.model.cut.model.name
    setup = about.result.request.setup
    events = [_name("process_name", 1, f"{name} on {setup.backend} {setup.version}")]
    tracks = (_whole, _bricks, _layers)
    for number, (level, track) in enumerate(zip(trace.levels, tracks, strict=False), 1):
        events.append(_name("thread_name", number, level_line(level, about.measured_ms)))
        events += [{**event, "tid": number} for event in track(about)]
    first = len(tracks) + 1
    events += _operators(trace, level_line(trace.levels[-1], about.measured_ms), first)
    return {
        "traceEvents": [{"pid": 1, **event} for event in events],
        "displayTimeUnit": "ms",
        "otherData": {
            "model": name,
            "backend": f"{setup.backend} {setup.version}",
            "options": setup.options,
            "threads": setup.threads,
            "system": about.result.request.fingerprint,
            "left_out": left_out(trace),
        },
    }


def left_out(trace: Trace) -> int:
    """Number of the shortest spans that are left out of the file."""
    return max(0, len(trace.timeline.spans) - MOST_SPANS) if trace.timeline else 0


def level_line(level: Level, measured_ms: float | None) -> str:
    """A line with the name of a level and the overhead of its profiler."""
    if level.ms is None:
        return f"{level.name}: none ({level.reason})"
    line = f"{level.name}: {'more than ' if level.partial else ''}{level.ms:.4g} ms"
    if level.run_ms is None or measured_ms is None or level.run_ms == measured_ms:
        return line
    return f"{line}, profiled run {level.run_ms / measured_ms - 1:+.1%}"


def _name(kind: str, thread: int, name: str) -> Event:
    return {"ph": "M", "tid": thread, "name": kind, "args": {"name": name}}


def _whole(about: Explanation) -> Iterator[Event]:
    if about.measured_ms is None:
        return
    args = {"measured_ms": about.measured_ms, "estimate_ms": about.composed_ms,
            "deviation_ms": about.deviation_ms}  # fmt: skip
    yield _event(about.model.cut.model.name, 0.0, about.measured_ms, args)


def _bricks(about: Explanation) -> Iterator[Event]:
    """Bricks end to end in model order, with their accumulated deviation."""
    labels = dict(zip(map(id, about.groups), group_names(about, _NAME), strict=True))
    begin = about.call_ms
    deviation = 0.0
    if begin:
        yield _event("the timer's own cost", 0.0, begin, {})
    for group in sorted(about.groups, key=lambda each: each.positions):
        cost = group.cost.ms if group.cost else 0.0
        args = {
            "place": places(group),
            "operators": ", ".join(group.operators),
            "shapes": shapes(group),
            "signatures": ", ".join(group.signatures),
            "occurrences": group.occurrences,
            "composed_ms": group.cost.ms if group.cost else None,
            "interval_ms": list(group.cost.interval_ms) if group.cost else None,
            "profiled_ms": group.profiled_ms,
            "scaled_ms": group.scaled_ms,
            "deviation_ms": group.deviation_ms,
            "remarks": "; ".join(group.remarks),
        }
        name = labels[id(group)] if group.cost else f"{labels[id(group)]}: not measured"
        yield _event(name, begin, cost, args)
        begin += cost
        deviation += group.deviation_ms or 0.0
        yield {
            "ph": "C",
            "name": "composed - profiled, so far (us)",
            "ts": _microseconds(_nanoseconds(begin)),
            "args": {"us": deviation * 1e3},
        }


def _layers(about: Explanation) -> Iterator[Event]:
    """Layers end to end in execution order, each with its median duration."""
    begin = 0.0
    for layer in about.profile.layers if about.profile else ():
        args = {"name": layer.name, "outputs": ", ".join(layer.outputs), "ms": layer.ms}
        yield _event(layer.operator, begin, layer.ms, args)
        begin += layer.ms


def _operators(trace: Trace, label: str, first: int) -> Iterator[Event]:
    """Activity of each thread of the framework.

    Args:
        trace: The trace.
        label: Name of the level.
        first: Number of the first thread's track.
    """
    if trace.timeline is None:
        yield _name("thread_name", first, label)
        return
    threads: dict[str, int] = {}
    longest = heapq.nlargest(MOST_SPANS, trace.timeline.spans, key=lambda each: each.ms)
    for span in sorted(longest, key=lambda each: (each.begin_ms, -each.ms)):
        if span.thread not in threads:
            name = span.thread if threads else f"{label}; {span.thread}"
            threads[span.thread] = first + len(threads)
            yield _name("thread_name", threads[span.thread], name)
        args = {"outputs": ", ".join(span.outputs), **span.details}
        event = _event(span.name, span.begin_ms, span.ms, args)
        yield {**event, "tid": threads[span.thread]}


def _event(name: str, begin_ms: float, ms: float, args: Mapping[str, Any]) -> Event:
    begin, end = _nanoseconds(begin_ms), _nanoseconds(begin_ms + ms)
    return {
        "ph": "X",
        "name": name,
        "ts": _microseconds(begin),
        "dur": _microseconds(end - begin),
        "args": {key: value for key, value in args.items() if value is not None and value != ""},
    }


def _nanoseconds(ms: float) -> int:
    return round(ms * 1e6)


def _microseconds(nanoseconds: int) -> float:
    """Microseconds from which a viewer recovers these nanoseconds, rounding or truncating.

    Perfetto counts whole nanoseconds, and drops a span that ends within the next one.
    """
    return round((nanoseconds + 0.25) / 1e3, 5)


def levels_data(levels: Sequence[Level], measured_ms: float | None) -> list[dict[str, Any]]:
    """Levels as plain data.

    Args:
        levels: The levels.
        measured_ms: Latency of the whole model without a profiler.
    """
    return [
        {
            "name": level.name,
            "parts": level.parts,
            "ms": level.ms,
            "partial": level.partial,
            "run_ms": level.run_ms,
            "cost": None
            if level.run_ms is None or measured_ms is None
            else level.run_ms / measured_ms - 1,
            "missing": level.reason or None,
        }
        for level in levels
    ]

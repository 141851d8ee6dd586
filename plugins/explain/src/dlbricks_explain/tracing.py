"""Traces: a model at every level, as events for viewers."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from rich.table import Table
from rich.text import Text

from dlbricks_core.backends import Timeline
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.figures.figure import Figure
from dlbricks_core.importers import LoadOptions
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.progress import Observer
from dlbricks_core.report.heading import print_result
from dlbricks_core.report.remarks import run_remarks
from dlbricks_core.report.tables import Console, table, value_text
from dlbricks_core.store import ResultStore
from dlbricks_explain.explanation import Explanation, explain, run_tool
from dlbricks_explain.report import (
    CheckLayersData,
    explanation_data,
    group_names,
    largest,
    places,
    shapes,
    total_lines,
)


class CheckTraceData(CheckLayersData):
    """Output of ``dlbricks check trace``: as ``dlbricks check layers``, and the trace's levels."""

    levels: list[TraceLevelData]  #: Levels of the trace, the deepest last.


class TraceLevelData(TypedDict):
    """One level of a trace."""

    name: str  #: ``whole model``, ``bricks``, ``layers`` or ``operators``.
    parts: int  #: Number of its parts; 0 where the level is missing.
    #: Latency of all parts together; of operators, the time from the begin of the run to the end of
    #: the last one.
    ms: float | None
    #: Latency of the run that the level was seen in. Null where it is not one run.
    run_ms: float | None
    cost: float | None  #: Cost of the profiler, as a fraction of a run without it.
    missing: str | None  #: Why the level is missing.
    partial: bool  #: Whether bricks are missing, so that ``ms`` is a lower bound.


#: Number of runs of which the fastest is shown, because other work on the machine disturbs some.
_TRIES = 3


@dataclass(frozen=True)
class Level:
    """One level of a trace."""

    name: str  #: Content of the level, in a word.
    parts: int = 0  #: Number of parts.
    #: Time of the parts in milliseconds: their sum, or the time from the begin of the first to the
    #: end of the last; ``None`` where the level is missing.
    ms: float | None = None
    #: Latency of the run behind the level in milliseconds; ``None`` where there is no single run.
    run_ms: float | None = None
    reason: str = ""  #: Why the level is missing; empty where it is not.
    partial: bool = False  #: Whether parts are missing, so that ``ms`` is a lower bound.


@dataclass(frozen=True)
class Trace:
    """Estimate and latency of a model, with the framework's timeline of a run."""

    explanation: Explanation  #: Bricks and layers beside the measured latency.
    #: Activity of each thread in one run; ``None`` if the framework reports none.
    timeline: Timeline | None
    reason: str  #: Reason for a missing timeline; empty with a timeline.
    failed: bool  #: Whether taking the timeline failed.

    @property
    def levels(self) -> Sequence[Level]:
        """All levels, the deepest last."""
        about = self.explanation
        measured, profile, timeline = about.measured_ms, about.profile, self.timeline
        levels = [
            Level("whole model", 1, measured, measured, about.model.failure or "")
            if measured is not None
            else Level("whole model", reason=about.model.failure or "bricks are missing"),
            Level(
                "bricks",
                len(about.groups),
                about.composed_ms,
                reason="none was measured" if about.composed_ms is None else "",
                partial=about.model.estimate.partial,
            ),
        ]
        levels.append(
            Level("layers", len(profile.layers), profile.sum_ms, profile.run_ms)
            if profile is not None
            else Level("layers", reason=about.profiling.reason)
        )
        if timeline is None:
            return [*levels, Level("operators", reason=self.reason)]
        end_ms = max((each.begin_ms + each.ms for each in timeline.spans), default=0.0)
        return [*levels, Level("operators", len(timeline.spans), end_ms, timeline.run_ms)]

    @property
    def empty(self) -> bool:
        """Whether nothing was measured, at any level."""
        return all(level.ms is None for level in self.levels)

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return self.explanation.complete and not self.failed


def trace(
    model: CanonicalModel,
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
) -> Trace:
    """Traces a model; arguments as for :func:`.explanation.profiles.explain`."""
    explanation = explain(model, cut_options, request, store, observer)
    observer.stage(f"Asking {request.backend.name} for a timeline")

    def ask(worker: BackendWorker, model: CanonicalModel, measured: Figure) -> Timeline:
        runs = (worker.timeline(model, measured.value) for _ in range(_TRIES))
        return min(runs, key=lambda each: each.run_ms)

    return Trace(explanation, *run_tool(explanation.result, ask))


#: Maximum number of spans of a timeline in a file; the longest spans are kept. With 300 bytes each,
#: the file stays below 100 MB.
MOST_SPANS = 200_000

_NAME = 60  #: Maximum number of characters of a brick's name.

Event = dict[str, Any]


def trace_events(trace: Trace) -> dict[str, Any]:
    """The content of a trace file."""
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
    """Activity of each thread of the framework."""
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


def levels_data(levels: Sequence[Level], measured_ms: float | None) -> list[TraceLevelData]:
    """Levels as plain data."""
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


_NAME_LENGTH = 38  #: Maximum characters of a name in the first sentence.


def print_trace(console: Console, trace: Trace, path: Path) -> None:
    """Prints time and overhead of each level, the largest deviations, and the path of the file."""
    about, number = trace.explanation, left_out(trace)
    rows = [
        (
            each["name"],
            str(each["parts"] or "-"),
            f"{'>' if each['partial'] else ''}{value_text(each['ms'])}",
            value_text(each["run_ms"]),
            "-"
            if each["name"] == "whole model" or each["cost"] is None
            else f"{each['cost']:+.1%}",
        )
        for each in levels_data(trace.levels, about.measured_ms)
    ]
    shown: list[str | Text | Table] = [
        table("Level", "Parts", "ms", "Run", "Profiler's cost", rows=rows),
        "In ms: the sum of a level's parts, and the run that was observed. Profiler's cost: how "
        "much longer that run takes than one without the profiler. >: bricks are missing.",
        *(f"No {each.name}: {each.reason}." for each in trace.levels if each.reason),
        f"The {number} shortest operators are not in the file." if number else "",
        f"{path} is not written: nothing was measured."
        if trace.empty
        else f"{path}: open it at https://ui.perfetto.dev, or in Chrome at chrome://tracing.",
    ]
    answer = [total_lines(about)[0], largest(about, group_names(about, _NAME_LENGTH))]
    print_result(console, about.result, answer, shown, run_remarks(about.result))


def trace_data(trace: Trace, load: LoadOptions | None = None) -> CheckTraceData:
    """The explanation as written by :func:`explanation_data`, with the levels."""
    about = trace.explanation
    return {**explanation_data(about, load), "levels": levels_data(trace.levels, about.measured_ms)}

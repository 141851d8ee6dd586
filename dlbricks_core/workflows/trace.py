"""Traces one model at every level: the whole, bricks, layers, and operators by thread.

Each level comes from runs without the profiler of a deeper level, as in XSP (Li et al., "XSP:
Across-Stack Profiling and Analysis of Machine Learning Models on GPUs", 2020). The whole model and
the bricks run without a profiler. Layers come from the framework's profile, operators from its
timeline. The overhead of a profiler is the difference between a run with it and one without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlbricks_core.backends import Timeline
from dlbricks_core.figures.figure import Figure
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.explain import Explanation, explain, told
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request

_TRIES = 3
"""Number of runs of which the fastest is shown, because other work on the machine disturbs some."""


@dataclass(frozen=True)
class Level:
    """One level of a trace.

    Attributes:
        name: What the level shows, in a word.
        parts: Number of parts.
        ms: Time of the parts in milliseconds: their sum, or the time from the begin of the first to
            the end of the last; ``None`` where the level is missing.
        run_ms: Latency of the run behind the level in milliseconds; ``None`` where there is no
            single run.
        reason: Why the level is missing; empty where it is not.
        partial: Whether parts are missing, so that ``ms`` is a lower bound.
    """

    name: str
    parts: int = 0
    ms: float | None = None
    run_ms: float | None = None
    reason: str = ""
    partial: bool = False


@dataclass(frozen=True)
class Trace:
    """Estimate and latency of a model, with the framework's timeline of a run.

    Attributes:
        explanation: Bricks and layers beside the measured latency.
        timeline: Activity of each thread in one run; ``None`` if the framework reports none.
        reason: Why there is no timeline; empty if there is one.
        failed: Whether taking the timeline failed.
    """

    explanation: Explanation
    timeline: Timeline | None
    reason: str
    failed: bool

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
        levels.append(
            Level("operators", len(timeline.spans), _extent(timeline), timeline.run_ms)
            if timeline is not None
            else Level("operators", reason=self.reason)
        )
        return levels

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
    """Traces a model; arguments as for :func:`~dlbricks_core.workflows.explain.explain`."""
    explanation = explain(model, cut_options, request, store, observer)
    observer.stage(f"Asking {request.backend.name} for a timeline")

    def ask(worker: BackendWorker, model: CanonicalModel, measured: Figure) -> Timeline:
        runs = (worker.timeline(model, measured.value) for _ in range(_TRIES))
        return min(runs, key=lambda each: each.run_ms)

    return Trace(explanation, *told(explanation.result, ask))


def _extent(timeline: Timeline) -> float:
    """Milliseconds from the begin of a run to the end of its last span."""
    return max((each.begin_ms + each.ms for each in timeline.spans), default=0.0)

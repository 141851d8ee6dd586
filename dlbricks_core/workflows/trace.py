"""One model at every level: the whole, bricks, layers, the framework's own operators by thread.

Each level is from runs without the profiler of a deeper one, as XSP does it (Li et al., "XSP:
Across-Stack Profiling and Analysis of Machine Learning Models on GPUs", 2020): the whole model and
the bricks run alone, layers by the framework's profile of layers, operators by its timeline. What
a profiler costs is what its run takes longer than one without it.
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
"""Runs of which the fastest is shown: other work on the machine disturbs some."""


@dataclass(frozen=True)
class Level:
    """One level of a trace.

    Attributes:
        name: What the level shows, in a word.
        parts: Number of its parts.
        ms: What they take in milliseconds: together, or from the first's begin to the last's end.
            ``None`` where the level is missing.
        run_ms: Latency in milliseconds of the run that the level is from; ``None`` where it is
            not one run.
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
    """A model's estimate, its latency, and what its framework says of a run.

    Attributes:
        explanation: Bricks and layers beside the measured latency.
        timeline: What each thread does in one run; ``None`` if the framework does not tell.
        reason: Why it does not.
        failed: Whether it should have told.
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

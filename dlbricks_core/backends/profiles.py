"""Profiles and timelines of running models, as frameworks report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProfiledLayer:
    """A layer that the framework executed, and its share of a run.

    Attributes:
        name: Name that the framework gives the layer, for people to read.
        operator: Type of the layer.
        outputs: Names of the tensors that the layer computes: names in the graph of
            :meth:`Backend.rewrite` first, then names in the model, as far as they are known.
        ms: Median, or mean of the middle fifth, over the profiled runs, in milliseconds.
    """

    name: str
    operator: str
    outputs: tuple[str, ...]
    ms: float


@dataclass(frozen=True)
class Profile:
    """Time that each layer of a whole model takes, according to its framework.

    Attributes:
        layers: All layers in the order in which they ran.
        run_ms: Median latency of a profiled run, in milliseconds. A run without the profiler
            is faster.
    """

    layers: Sequence[ProfiledLayer]
    run_ms: float

    @property
    def sum_ms(self) -> float:
        """Time of all layers together, in milliseconds."""
        return sum(layer.ms for layer in self.layers)


@dataclass(frozen=True)
class Opened:
    """A model that is ready to run as its user runs it.

    Attributes:
        run: Function that runs one inference to its end, and returns the results.
        profile: Time of each layer in the first runs; ``None`` without profiled runs, or if the
            framework's profiler does not support this form.
        profiling_s: Seconds that the profile took, without the first run.
    """

    run: Callable[[], object]
    profile: Profile | None = None
    profiling_s: float = 0.0


@dataclass(frozen=True)
class Span:
    """Work of one thread in a time span, as recorded by the framework's profiler.

    Attributes:
        name: Name of the work, in the framework's words.
        thread: Name of the thread.
        begin_ms: Begin in milliseconds after the begin of the run.
        ms: Duration in milliseconds.
        outputs: Names of the tensors that the work computes, if the framework reports them.
        details: Further facts that the framework reports, for people to read.
    """

    name: str
    thread: str
    begin_ms: float
    ms: float
    outputs: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Timeline:
    """One run of a whole model, as recorded by the framework's profiler.

    Attributes:
        spans: Work of all threads, by its begin.
        run_ms: Latency of that run in milliseconds, including the profiler's overhead.
    """

    spans: Sequence[Span]
    run_ms: float

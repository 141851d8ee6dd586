"""Profiles and timelines of running models, as frameworks report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from resource import RUSAGE_SELF, getrusage
from time import perf_counter_ns

LONG_MS = 30.0
"""Latency in milliseconds from which one warm-up run is enough."""


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

    @property
    def own_ms(self) -> float:
        """Time of the profiler itself: what a run takes beyond its layers, in milliseconds."""
        return abs(self.run_ms - self.sum_ms)


@dataclass(frozen=True)
class Opened:
    """A model that is ready to run as its user runs it.

    Attributes:
        run: Function that runs one inference to its end, and returns the results.
        profile: Time of each layer in the first runs; ``None`` without profiled runs, or if the
            framework's profiler does not support this form.
        profiling_s: Seconds that the profile took, without the first run.
        first_ms: Latency of the first run, in milliseconds; ``None`` if unknown.
        faults: Page faults of a profiled run: pages of memory that were new to the process.
    """

    run: Callable[[], object]
    profile: Profile | None = None
    profiling_s: float = 0.0
    first_ms: float | None = None
    faults: float = 0.0

    @property
    def is_warm(self) -> bool:
        """Whether profiled runs were as fast as later runs without the profiler.

        The second run often takes new memory as the first one does, and is slower by up to a
        sixth.
        """
        return self.is_slower_by_at_most(_MOST_SLOWER)

    def is_slower_by_at_most(self, share: float) -> bool:
        """Whether the profiler and new memory took at most a share of a profiled run.

        Without a first run that is timed, the profiled form may be another than the user's.
        """
        if self.profile is None or self.first_ms is None:
            return False
        slower_ms = max(self.profile.own_ms, self.faults * _FAULT_MS)
        return slower_ms <= share * self.profile.run_ms


def timed_ms(run: Callable[[], object]) -> float:
    """Latency of one run, in milliseconds."""
    begin = perf_counter_ns()
    results = run()
    found = (perf_counter_ns() - begin) / 1e6
    del results  # freeing them is no part of a run
    return found


def page_faults() -> int:
    """Page faults of this process since it began: pages of memory that were new to it."""
    return getrusage(RUSAGE_SELF).ru_minflt


_FAULT_MS = 2.5e-3
"""Milliseconds of a page fault on a virtual machine, where it takes longest: 2.0 to 2.3 were seen
(research/2026-11-30-profiled-runs.md)."""

_MOST_SLOWER = 0.02
"""Share of a run that the profiler or new memory may take if the run counts as any other run:
half of what runs in a loop differ by."""


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


# Watches: latencies of a model that the user's own code runs.


@dataclass
class Watch:
    """Recorded runs of a user's model.

    Attributes:
        threads: Threads that compute one operator.
        samples_ms: Latency of each run in milliseconds, as the user's code waits for it.
        source: The model in a form that :func:`dlbricks_core.load` accepts; set after a run.
        shapes: Shape of each input of the last run by name, if the source leaves them open.
    """

    threads: int
    samples_ms: list[float] = field(default_factory=list)
    source: object = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


# Work that a program does in its own language beside the operators of a framework.


@dataclass(frozen=True)
class Interpreted:
    """Python code, and page faults, of a program in one run of a model, beside the operators.

    Attributes:
        calls: Time of this Python code, as a number of calls of a Python method
            (``call_s`` of ``dlbricks_sizes``).
        spread: Standard deviation of the relative error of that number.
        call_work: Time of such a call in nanoseconds, times the clock rate in GHz and the
            instructions per cycle relative to Skylake's. The time on another
            processor follows from it.
        faults: Mean number of page faults: pages of memory that the program gives back and takes
            again, one after the other.
        faults_spread: Standard deviation of the relative error of that number.
    """

    calls: float
    spread: float
    call_work: float
    faults: float = 0.0
    faults_spread: float = 0.0

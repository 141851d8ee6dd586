"""Bursts: a whole model in a loop of its own, as its user runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import linear_regression

from dlbricks_core.backends.profiles import LONG_MS, Opened, Profile
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

# Cost of a call of the timer, from networks that do next to nothing.

CALLS: dict[str, int] = {"call:1": 1, "call:9": 9}
"""Number of layers of each network that shows the cost of a call, by the network's key."""


def next_to_nothing(layers: int, shape: tuple[int, ...] = (1, 1)) -> CanonicalModel:
    """A chain of layers, on one number. No framework is known to fuse or drop Sigmoid."""
    spec = TensorSpec("float32", shape)
    names = ["x0", *(f"t{i}" for i in range(layers))]
    return CanonicalModel(
        name="call",
        layers=tuple(
            Layer("Sigmoid", (before,), (after,), name=f"Sigmoid_{i}")
            for i, (before, after) in enumerate(pairwise(names))
        ),
        inputs=(names[0],),
        outputs=(names[-1],),
        tensors=dict.fromkeys(names, spec),
    )


def start_of_a_line(latencies_ms: Sequence[float]) -> float:
    """Cost of a call of the timer in milliseconds, derived from the latencies of ``CALLS``.

    The latencies lie on a line over the number of layers. Its intercept is the cost of the call.
    The minimum cost of a layer is not part of it, because a model pays that for each layer.
    """
    slope, start = linear_regression(list(CALLS.values()), latencies_ms)
    return max(start, 0.0) if slope > 0 else min(latencies_ms)


@dataclass(frozen=True)
class Burst:
    """Length of a loop of runs, after a first run that warms up.

    Attributes:
        profiled: Runs under the framework's profiler; 0 for no profile.
        fewest: Minimum number of runs that agree. At a coarse tolerance, a long profiled run is one
            of them.
        most: Maximum number of timed runs of a long model, beside one that is profiled.
        tolerance: Relative difference between runs at which the loop ends.
        enough_ms: Minimum total of the timed runs of a short model, in milliseconds.
    """

    profiled: int
    fewest: int
    most: int
    tolerance: float
    enough_ms: float = 10.0

    @classmethod
    def within(cls, precision: float) -> Burst:
        """The burst that measures a latency with a precision.

        Args:
            precision: Half-width of the interval to reach, relative to the latency.
        """
        fewest = next((runs for limit, runs in _FEWEST if precision >= limit), MOST_OF_BURST)
        profiled = 1 if precision >= _COARSE else 2
        return cls(profiled, fewest, max(MOST_OF_BURST, fewest), precision)

    @classmethod
    def of(cls, runs: int) -> Burst:
        """The burst of a fixed number of runs."""
        return cls(1, runs, runs, 0.0, enough_ms=0.0)

    @property
    def fewest_samples(self) -> int:
        """Minimum number of samples: a long profiled run may be one of the runs that agree."""
        return max(self.fewest - (self.tolerance >= _COARSE), 1)

    @property
    def _most_timed(self) -> int:
        """Maximum number of timed runs of a long model.

        With its first and its profiled runs, it runs as often as in a plain script.
        """
        return max(self.most - max(self.profiled - 1, 0), self.fewest)

    def for_harvest(self) -> Burst:
        """The burst with enough profiled runs for estimates of other models."""
        return replace(self, profiled=max(self.profiled, _HARVEST_RUNS))

    def taken(self, run: Callable[[], float], opened: Opened | None = None) -> list[float]:
        """Latencies of the timed runs, in milliseconds.

        Args:
            run: Function that runs the model once and returns its latency in milliseconds.
            opened: The model with the profile of earlier runs, if there is any. If a single run
                suffices, a long profiled run replaces it where it was about as fast. If several
                runs have to agree, a long profiled run agrees with those after it, or, if it was as
                fast as these will be, with the first run.
        """
        seen: list[float] = []
        samples: list[float] = []
        profile = None if opened is None else opened.profile
        if opened and profile and self.tolerance >= _COARSE and profile.run_ms >= LONG_MS:
            if self.fewest > 1 or opened.is_slower_by_at_most(_PROFILING_SHARE * self.tolerance):
                seen.append(profile.run_ms)
            if self.fewest > 1 and opened.is_warm and opened.first_ms is not None:
                seen, samples = [opened.first_ms], seen
        while not self._suffice([*seen, *samples]):
            samples.append(run())
        return samples or seen

    def _suffice(self, samples: Sequence[float]) -> bool:
        """Whether there are enough runs, and the last of them agree."""
        if len(samples) < self.fewest:
            return False
        if sum(samples) < self.enough_ms and len(samples) < _MOST_SHORT:
            return False
        last = samples[-max(self.fewest, 2) :]
        return len(samples) >= self._most_timed or max(last) <= min(last) * (1 + self.tolerance)


_FEWEST = ((0.2, 1), (0.1, 2), (0.05, 3))
"""Minimum runs for each precision, the coarsest first. On a quiet machine, runs in a loop scatter
by 1% to 3%."""

_HARVEST_RUNS = 3
"""Minimum profiled runs for the bricks of other models: in a single run, some layers are disturbed.
"""

_COARSE = 0.1
"""Precision from which one profiled run suffices: profiles are scaled to runs without profiler. At
this precision, a long profiled run also shows how long a run takes.
"""

_PROFILING_SHARE = 0.25
"""Part of the tolerance that the profiler or new memory may take in a profiled run that is the only
sample. The profiler slows networks of many small layers by 5% to 60%."""

MOST_OF_BURST = 8
"""Maximum timed runs of a long model: as many as a plain script makes."""

_MOST_SHORT = 50
"""Maximum runs of a model that takes fractions of a millisecond."""


@dataclass(frozen=True)
class WholeRun:
    """Runs of a whole model in a loop of its own.

    Attributes:
        samples_ms: Latencies in milliseconds.
        loading_s: Seconds until the end of the model's first run, without further profiled runs.
        profile: Time of each layer; ``None`` if there is none.
        no_profile: Reason for a missing profile; empty with a profile, or if none was requested.
    """

    samples_ms: tuple[float, ...]
    loading_s: float
    profile: Profile | None = None
    no_profile: str = ""

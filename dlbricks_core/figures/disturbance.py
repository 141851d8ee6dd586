"""Disturbances of samples, and how much longer than on a quiet machine they may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dlbricks_core.facts import Measurement, Note, Observation
from dlbricks_core.facts.note import warning
from dlbricks_core.figures.statistics import RESAMPLES, FloatArray

FAR_SLOWDOWN = 2.0
"""Maximum factor by which networks slow down while virtual CPUs are far from each other."""

WIDENS = "widens-others"
"""Flag of samples that contradict the measurements of other networks and are used for no other
network.
"""

_FAR = "cpus-far-apart"
"""Flag of samples that were taken meanwhile."""

_NO_LOAD = {_FAR, WIDENS}
"""Flags that are unrelated to other programs."""

_UNKNOWN_LOAD = 0.25
"""Load of flagged samples of earlier versions, which did not keep it."""

MOST_SLOWDOWN = 60.0
"""Largest slowdown that intervals allow for. Beyond, nothing is measured: two-thread MXNet took
30 to 300 times as long beside programs that used 76% to 84% of the CPUs."""

_MOST_LOAD = 0.99
"""Maximum load in the formula: at a load of 1, its power would be infinite."""


DOUBTFUL_LOAD = 0.25
"""Share of the CPUs from which figures that were measured beside others are doubtful."""


_POWER_OF_ONE_THREAD = 1.0
"""Power of the share of the CPUs that others leave, by which a latency on one thread grows at most.

A policy: a fair scheduler leaves a thread that share of a CPU, and no less.
"""

_POWER_OF_SEVERAL_THREADS = 5.0
"""As above, for several threads.

A policy: all threads wait for the one that another program has interrupted, layer by layer, and
spin while they wait. No bound follows from that. Power 5 allows for a factor of 7 that was
reported of two threads beside one program (research/2026-11-29-busy-machine.md). Beyond
:data:`MOST_SLOWDOWN` nothing counts as measured.
"""


@dataclass(frozen=True)
class Disturbance:
    """Disturbance of the samples of a figure.

    Attributes:
        load: Share of the CPUs that others used meanwhile, from 0 to 1.
        slowdown: Maximum factor by which the samples are longer than on a quiet machine.
        marked: Whether samples carry a flag: figures of other networks must not rest on them.
    """

    load: float = 0.0
    slowdown: float = 1.0
    marked: bool = False

    @classmethod
    def of(cls, measurement: Measurement) -> Disturbance:
        """Disturbance of samples, all of which count. Unmarked ones have none."""
        marked = [each for each in measurement.observations if each.flags]
        if not marked or not measurement.question.quantity.is_time:
            return QUIET
        load = float(np.mean([_load(each) for each in marked]))
        far = any(_FAR in each.flags for each in marked)
        threads = measurement.question.setup.threads
        return cls(load, max(slowdown(load, threads), FAR_SLOWDOWN if far else 1.0), marked=True)

    @classmethod
    def worst(cls, several: Sequence[Disturbance]) -> Disturbance:
        """Disturbance of figures that are added up: at most that of each."""
        if not several:
            return QUIET
        return cls(
            max(each.load for each in several),
            max(each.slowdown for each in several),
            any(each.marked for each in several),
        )

    @property
    def is_doubtful(self) -> bool:
        """Whether others used so much of the CPUs that the figure is doubtful."""
        return self.load >= DOUBTFUL_LOAD

    @property
    def leaves_nothing(self) -> bool:
        """Whether others used so much of the CPUs that the samples measure nothing."""
        return self.slowdown > MOST_SLOWDOWN

    @property
    def factors(self) -> FloatArray | float:
        """Factors from the samples to a quiet machine, all equally likely: shape (RESAMPLES,).

        Figures that were disturbed alike have the same factors, which do not average out in a sum.
        """
        return 1.0 if self.slowdown == 1 else self.slowdown ** -_shares()


QUIET = Disturbance()
"""No disturbance."""


_BESIDE_OTHERS = "measured-beside-others"
"""Code of the note on such a disturbance."""


def load_of(notes: Iterable[Note]) -> float:
    """Largest load that notes on disturbances name, from 0 to 1; 0 if they name none."""
    named = (each.values["load"] for each in notes if each.code == _BESIDE_OTHERS)
    return max((load for load in named if isinstance(load, float)), default=0.0)


def disturbance_notes(disturbance: Disturbance, *, stored: bool) -> tuple[Note, ...]:
    """A note on figures that were measured while others used the CPUs.

    Args:
        disturbance: Disturbance of the figures.
        stored: Whether they were measured before.
    """
    if not disturbance.load:
        return ()
    load, times = disturbance.load, disturbance.slowdown
    found = warning("measured-beside-others", load=load, times=times, stored=stored)
    return (replace(found, severity="doubtful") if disturbance.is_doubtful else found,)


def slowdown(load: float, threads: int) -> float:
    """Maximum factor by which a latency is longer than on a quiet machine.

    Args:
        load: Share of the CPUs that others used, from 0 to 1.
        threads: Threads that compute one operator.
    """
    power = _POWER_OF_ONE_THREAD if threads == 1 else _POWER_OF_SEVERAL_THREADS
    return float((1 - min(load, _MOST_LOAD)) ** -power)


def _load(taken: Observation) -> float:
    if _NO_LOAD.issuperset(taken.flags):
        return 0.0
    return _UNKNOWN_LOAD if taken.load is None else taken.load


@cache
def _shares() -> FloatArray:
    """Exponents of the slowdown, whose middle 90% are from 0 to 1."""
    drawn = np.random.default_rng(0).permutation(RESAMPLES)
    return np.asarray((drawn + 0.5) / RESAMPLES * 1.12 - 0.06)

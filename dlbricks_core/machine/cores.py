"""Whether the cores that compute together are near each other, and waiting until they are.

A hypervisor moves virtual CPUs from core to core. Two that it says share a cache may run on
cores that do not, for seconds or for hours: what one of them writes then takes several times as
long to reach the other, and networks on two threads take up to twice as long. Nothing that the
system tells shows it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from itertools import cycle
from statistics import median
from time import perf_counter, perf_counter_ns, sleep

import numpy as np
import numpy.typing as npt

from dlbricks_core.machine.sysfs import Machine
from dlbricks_core.machine.system import largest_cache

#: Share of the time above which a measurement is called disturbed.
MAX_APART = 0.05

_NUMBERS = 8192
"""Of eight bytes each, that one core writes and another reads: what any core's own cache holds."""

_READS = 9

APART = 1.5
"""Times as long as reading memory, from which on cores are apart. On an AMD EPYC (Zen 4) it was 0.6
to 1.3 where they shared a cache, and 1.8 to 2.5 where they did not."""

_MEMORY_CACHES = 2
"""Times the largest cache: the memory that is read, part by part, so that no cache holds it."""

FAR = "timed while virtual CPUs were far from each other"
"""What is noted of such samples."""

_CHECK_SHARE = 0.01
"""Of the time, spent on looking."""

_LONGEST_S = 2.0
"""Of a single wait."""

_WAIT_SHARE = 0.5
"""Of the time, spent on waiting at most. Where CPUs are moved apart again and again, runs that
wait come to an end sooner all the same: they scatter less."""

_VAIN_SHARE = 0.1
"""Of the time, spent at most on waits that were in vain."""

_NAPS, _NAP_S = 20, 0.001


class Cores:
    """Watches how far apart the cores of some threads are.

    They come together when they have little to do, as a rule within a second: a hypervisor
    wakes a virtual CPU near to the one that wakes it, and spreads those that compute.

    Args:
        distance: Tells how far apart they are; ``None`` where there is nothing to watch.
        clock: Seconds.
        nap: Does nothing for so many seconds.

    Attributes:
        checks: How often they were looked at.
        apart: How often they were apart, and stayed so.
        waited_s: Seconds spent on waiting for them.
    """

    def __init__(
        self,
        distance: Callable[[], float] | None = None,
        clock: Callable[[], float] = perf_counter,
        nap: Callable[[float], None] = sleep,
    ) -> None:
        self._distance = distance
        self._clock = clock
        self._nap = nap
        self._begin = clock()
        self._next_s = -math.inf
        self._most = 0.0
        self._refused = ""
        self._near = True
        self.checks = self.apart = 0
        self.waited_s = self._vain_s = 0.0

    @classmethod
    def of(cls, threads: int, machine: Machine | None = None) -> Cores:
        """Those that so many threads run on; see :func:`watched`."""
        return cls(watched(threads, machine or Machine()))

    def gather(self) -> bool:
        """Waits until the cores are near each other; gives up where that does not help.

        Looks no more often than costs a hundredth of the time, and no more at all where the
        system does not let it.

        Returns:
            Whether they are near, as far as is known.
        """
        if self._distance is not None and self._clock() >= self._next_s:
            try:
                self._look()
            except OSError as error:
                self._distance, self._refused = None, error.strerror or str(error)
                self._near = True
        return self._near

    def _look(self) -> None:
        looked = self._clock()
        apart = self._is_apart()
        took_s = self._clock() - looked
        if apart:
            apart = self._waited(looked)
        self.checks += 1
        self.apart += apart
        self._near = not apart
        self._next_s = self._clock() + took_s / _CHECK_SHARE

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may have disturbed a measurement."""
        return (*self._unknown(), *self._disturbed())

    def _unknown(self) -> Iterator[str]:
        if self._refused:
            yield (
                "whether the hypervisor had virtual CPUs on cores far from each other is not known:"
                f" the system does not let a thread choose its CPU ({self._refused})"
            )

    def _disturbed(self) -> Iterator[str]:
        if self.apart > MAX_APART * self.checks:
            share = self.apart / self.checks
            yield (
                f"{share:.0%} of the time the hypervisor had virtual CPUs on cores far from each"
                f" other: one took up to {self._most:.1f} times as long to read what another had"
                " written as to read memory"
            )

    def _waited(self, begin: float) -> bool:
        """Whether they are apart still, when it is time to give up."""
        so_far_s = begin - self._begin
        if self._vain_s > _VAIN_SHARE * so_far_s or self.waited_s > _WAIT_SHARE * so_far_s:
            return True
        apart = True
        while apart and self._clock() < begin + _LONGEST_S:
            apart = self._is_apart_after_rest()
        took_s = self._clock() - begin
        self.waited_s += took_s
        self._vain_s += took_s * apart
        return apart

    def _is_apart_after_rest(self) -> bool:
        for _ in range(_NAPS):
            self._nap(_NAP_S)
        return self._is_apart()

    def _is_apart(self) -> bool:
        assert self._distance is not None
        found = self._distance()
        self._most = max(self._most, found)
        return found >= APART


def watched(threads: int, machine: Machine) -> Callable[[], float] | None:
    """What tells how far apart the cores are that so many threads run on.

    ``None`` for one thread, where no hypervisor moves CPUs about, and between CPUs that share no
    cache when others do: they are meant to be apart. ``None``, too, where the sizes of the caches
    are unknown: nothing then tells what is read from memory.
    """
    first = min(machine.cpus)
    core = machine.siblings(first)
    # Where CPUs are said to share nothing at all, nobody told the hypervisor what to say.
    near = (machine.sharing(first) - core) or machine.cpus
    others = sorted((machine.cpus & near) - core)[: threads - 1]
    cache = largest_cache(machine)
    if not others or machine.hypervisor() is None or cache is None:
        return None
    memory = Memory(_MEMORY_CACHES * cache)
    return lambda: max(distance(first, other, memory) for other in others)


class Memory:
    """Numbers that no cache holds.

    Args:
        nbytes: How much memory they take; more than the caches.
    """

    def __init__(self, nbytes: int) -> None:
        parts = np.ones((max(nbytes // np.dtype(float).itemsize // _NUMBERS, 1), _NUMBERS))
        # Out of order, or what comes next would be fetched before it is asked for.
        order = np.random.default_rng(0).permutation(len(parts))
        self._parts = cycle([parts[place] for place in order])

    def next(self) -> npt.NDArray[np.float64]:
        """Those that were used longest ago."""
        return next(self._parts)


def distance(one: int, other: int, memory: Memory) -> float:
    """How many times as long a CPU takes to read what another has just written as from memory.

    Cores that share a cache hand over what they write faster than memory would, or as fast, at
    any clock rate; the median of several reads each.

    Args:
        one: CPU that reads.
        other: CPU that writes.
        memory: What to compare with.

    Raises:
        OSError: The system does not let this thread choose its CPU.
    """
    allowed = os.sched_getaffinity(0)
    written = np.zeros(_NUMBERS)
    read = np.empty_like(written)
    foreign, cold = [], []
    try:
        for each in range(_READS):
            os.sched_setaffinity(0, {other})
            written.fill(each)
            os.sched_setaffinity(0, {one})
            foreign.append(_copy_ns(written, read))
            cold.append(_copy_ns(memory.next(), read))
    finally:
        os.sched_setaffinity(0, allowed)
    return median(foreign) / median(cold)


def _copy_ns(source: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> int:
    begin = perf_counter_ns()
    np.copyto(target, source)
    return perf_counter_ns() - begin

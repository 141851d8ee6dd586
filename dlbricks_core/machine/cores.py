"""Distance between cores that compute together, and waiting until they are near each other.

A hypervisor moves virtual CPUs from core to core. Two virtual CPUs that share a cache according to
the hypervisor may run on cores without a common cache, for seconds or for hours. Data that one of
them writes then take several times as long to reach the other, and networks on two threads take up
to twice as long. No fact that the system states shows this, so it is measured.
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

from dlbricks_core.facts import Note
from dlbricks_core.facts.note import warning
from dlbricks_core.machine.system import MachineState, largest_cache

#: Share of the time above which a measurement is called disturbed.
MAX_APART = 0.05

_NUMBERS = 8192
"""Numbers of eight bytes that one core writes and another reads; a core's own cache holds them."""

_READS = 9
"""Number of reads, of which the median counts."""

APART = 1.5
"""Minimum distance of cores that count as apart, as a multiple of the time to read from memory. On
an AMD EPYC (Zen 4), cores that share a cache are at 0.6 to 1.3, others at 1.8 to 2.5."""

_MEMORY_CACHES = 2
"""Size of the memory to read, as a multiple of the largest cache, so that no cache holds it."""

FAR = "cpus-far-apart"
"""Code of the note on distant cores, which flags the samples of that time."""

_CHECK_SHARE = 0.01
"""Maximum share of the time that measuring the distance takes."""

_LONGEST_S = 2.0
"""Maximum seconds of one wait."""

_WAIT_SHARE = 0.5
"""Maximum share of the time spent on waiting. Where CPUs are moved apart again and again, runs that
wait still end sooner, because their samples scatter less."""

_VAIN_SHARE = 0.1
"""Maximum share of the time spent on waits after which the cores were still apart."""

_NAPS, _NAP_S = 20, 0.001
"""Number of short sleeps in a wait, and seconds of each."""


class Cores:
    """Watches the distance between the cores of some threads.

    Virtual CPUs with little to do come together, usually within a second: a hypervisor wakes a
    virtual CPU near the one that wakes it, and spreads virtual CPUs that compute.

    Args:
        distance: Function that measures the distance; ``None`` if there is nothing to watch.
        clock: Function that returns the time in seconds.
        nap: Function that does nothing for a number of seconds.

    Attributes:
        checks: Number of times that the distance was measured.
        apart: Number of these times when the cores were and stayed apart.
        waited_s: Seconds spent on waiting.
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
    def of(cls, threads: int, machine: MachineState | None = None) -> Cores:
        """Watches the cores that a number of threads run on; see :func:`watched`."""
        return cls(watched(threads, machine or MachineState()))

    def gather(self) -> bool:
        """Waits until the cores are near each other, and gives up if waiting does not help.

        Measuring the distance takes at most a hundredth of the time. It ends for good if the
        system does not allow it.

        Returns:
            Whether the cores are near each other, as far as is known.
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
    def warnings(self) -> tuple[Note, ...]:
        """Disturbances that may have changed a measurement."""
        return (*self._unknown(), *self._disturbed())

    def _unknown(self) -> Iterator[Note]:
        if self._refused:
            yield warning("cpu-distance-unknown", reason=self._refused)

    def _disturbed(self) -> Iterator[Note]:
        if self.apart > MAX_APART * self.checks:
            yield warning("cpus-far-apart", share=self.apart / self.checks, times=self._most)

    def _waited(self, begin: float) -> bool:
        """Waits for a limited time; returns whether the cores are still apart then."""
        so_far_s = begin - self._begin
        if self._vain_s > _VAIN_SHARE * so_far_s or self.waited_s > _WAIT_SHARE * so_far_s:
            return True
        apart = True
        while apart and self._clock() < begin + _LONGEST_S:
            for _ in range(_NAPS):
                self._nap(_NAP_S)
            apart = self._is_apart()
        took_s = self._clock() - begin
        self.waited_s += took_s
        self._vain_s += took_s * apart
        return apart

    def _is_apart(self) -> bool:
        assert self._distance is not None
        found = self._distance()
        self._most = max(self._most, found)
        return found >= APART


def watched(threads: int, machine: MachineState) -> Callable[[], float] | None:
    """Function that measures the distance between the cores of some threads.

    Args:
        threads: Number of threads that compute one operator.
        machine: Machine that they run on.

    Returns:
        The function. ``None`` if there is nothing to measure: for one thread, without a
        hypervisor, for CPUs that are not meant to share a cache, and if the sizes of the caches
        are unknown, so that nothing is certain to be read from memory.
    """
    first = min(machine.cpus)
    core = machine.siblings(first)
    # If CPUs share no cache at all, the hypervisor does not report shared caches.
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
        nbytes: Bytes of all numbers; more than the largest cache.
    """

    def __init__(self, nbytes: int) -> None:
        parts = np.ones((max(nbytes // np.dtype(float).itemsize // _NUMBERS, 1), _NUMBERS))
        # In random order, because a processor prefetches data that are read in order.
        order = np.random.default_rng(0).permutation(len(parts))
        self._parts = cycle([parts[place] for place in order])

    def next(self) -> npt.NDArray[np.float64]:
        """The part of the numbers that was read longest ago."""
        return next(self._parts)


def distance(one: int, other: int, memory: Memory) -> float:
    """Distance between two CPUs: the time to read data that the other has just written.

    The unit is the time to read as much from memory; both times are medians of several reads.
    Between cores that share a cache the distance is about 1 or less, at any clock rate.

    Args:
        one: CPU that reads.
        other: CPU that writes.
        memory: Memory whose reading time is the unit.

    Raises:
        OSError: If the system does not let this thread choose its CPU.
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

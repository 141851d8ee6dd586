"""Use of the processors by others while DLBricks measures."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import psutil

from dlbricks_core.machine.sysfs import Machine

#: Shares of the usable CPUs above which a measurement is called disturbed.
MAX_OTHERS = 0.10
MAX_STEAL = 0.01


@dataclass(frozen=True)
class MachineLoad:
    """Use of the CPUs that this process may run on, during a span of time.

    Unknown values are ``None``, as all are without ``/proc``.

    Attributes:
        seconds: Length of the span in seconds.
        cpus: Number of CPUs that this process may run on.
        others: CPUs that other processes kept busy, on average.
        steal: CPUs that the hypervisor gave to other virtual machines, on average.
        throttled: Seconds for which the quota of the container stopped its processes.
    """

    seconds: float
    cpus: int
    others: float | None
    steal: float | None
    throttled: float

    @property
    def share(self) -> float | None:
        """Share of the CPU time that others used, other virtual machines included: 0 to 1."""
        if self.others is None or self.steal is None:
            return None
        return min((self.others + self.steal) / self.cpus, 1.0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Disturbances that may have changed a measurement in that time, a line each."""
        found = []
        if self.others is None or self.steal is None:
            found.append("nothing tells what else used the CPUs (no /proc)")
        if self.others is not None and self.others > MAX_OTHERS * self.cpus:
            found.append(f"other processes used {self.others:.1f} of {self.cpus} CPUs")
        if self.steal is not None and self.steal > MAX_STEAL * self.cpus:
            found.append(f"the hypervisor took away {self.steal / self.cpus:.1%} of the CPU time")
        if self.throttled > 0:
            found.append(f"the container's CPU quota stopped it for {self.throttled:.1f} s")
        return tuple(found)


@dataclass(frozen=True)
class _Used:
    """CPU time consumed so far, in seconds.

    Attributes:
        busy: Time of all processes.
        own: Time of this process and of the processes that it started.
        steal: Time that the hypervisor gave to other virtual machines.
    """

    busy: float
    own: float
    steal: float


@dataclass(frozen=True)
class _Reading:
    wall: float
    used: _Used | None
    throttled: float


class LoadSampler:
    """Records the machine's load from its creation on.

    It costs about a millisecond at the beginning and at the end, and nothing in between.

    Examples:
        >>> sampler = LoadSampler()
        >>> sampler.load().warnings  # doctest: +SKIP
        ('other processes used 1.0 of 2 CPUs',)
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine or Machine()
        self._start = self._read()

    def load(self) -> MachineLoad:
        """The load since the start; CPU time is known to 10 ms."""
        start, end = self._start, self._read()
        seconds = max(end.wall - start.wall, 1e-9)
        others = steal = None
        if start.used and end.used:
            busy, own = end.used.busy - start.used.busy, end.used.own - start.used.own
            others = max(busy - own, 0.0) / seconds
            steal = max(end.used.steal - start.used.steal, 0.0) / seconds
        throttled = end.throttled - start.throttled
        return MachineLoad(seconds, len(self._machine.cpus), others, steal, throttled)

    def _read(self) -> _Reading:
        return _Reading(time.perf_counter(), self._used(), self._machine.throttled())

    def _used(self) -> _Used | None:
        try:
            each, own = psutil.cpu_times(percpu=True), _own_seconds()
        except (OSError, psutil.Error):  # without /proc
            return None
        # An offline CPU has no line, so a position in the list need not be the CPU's number.
        used = [
            times
            for cpu, times in zip(sorted(self._machine.online()), each, strict=False)
            if cpu in self._machine.cpus
        ]
        busy = sum(cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq for cpu in used)
        return _Used(busy, own, sum(cpu.steal for cpu in used))


def _own_seconds() -> float:
    """CPU time in seconds of this process and of all processes that it ever started."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
        if process != me:
            total += times.children_user + times.children_system
    return total

"""Use of the processors by others while DLBricks measures."""

from __future__ import annotations

import fcntl
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from time import monotonic, sleep

import psutil

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Note, Pulse
from dlbricks_core.facts.note import warning
from dlbricks_core.facts.observation import DISTURBED_LOAD
from dlbricks_core.machine.pulse import pulse_ms, pulse_of
from dlbricks_core.machine.system import MachineState

# Turns: only one process at a time measures on a CPU core.
#
# Each core has a lock file (``flock``). A process that measures locks the files of all cores in
# its CPU affinity. The kernel releases the locks when the process ends, for any reason. Processes
# with disjoint affinities do not wait for each other: parts of a partitioned machine count as
# separate machines. The lock files belong to the machine, in all network namespaces. Containers
# share them if they share the folder.

FOLDER = "DLBRICKS_TURNS"
"""Environment variable with the folder of the lock files. If it is empty, no process waits for
another, and samples are not flagged for other programs: this is for tests that run side by side and
keep no timings.
"""

_USUAL = "/tmp/dlbricks-turns"

LONGEST_S = 3600.0
"""Maximum wait in seconds: longer than most measurements take, shorter than a night."""

_LOOK_S = 0.25
"""Seconds between two looks at the lock."""

WAITING = "another measurement runs on this machine: waiting until it ends"

Say = Callable[[str], None]


class _ProcessLock:
    """The turn of this process, taken once for all its threads that measure."""

    def __init__(self) -> None:
        self.guard = RLock()
        self.holders = 0
        self.files = ExitStack()
        self.looked = False


_own = _ProcessLock()


def take_turn(say: Say | None = None, longest_s: float = LONGEST_S) -> None:
    """Waits until no other process measures on these cores, and locks them.

    Args:
        say: Receives a message if another process measures; by default it becomes a warning.
        longest_s: Maximum wait in seconds.

    Raises:
        DLBricksError: If the wait exceeds the maximum.
    """
    with _own.guard:
        if _own.holders == 0:
            _own.files = _locked(say or _warn, longest_s)
            _own.looked = False
        _own.holders += 1


def took_free_turn() -> bool:
    """Locks these cores if no other process measures on them; returns whether it did."""
    try:
        take_turn(lambda _: None, longest_s=0.0)
    except DLBricksError:
        return False
    return True


def give_turn() -> None:
    """Reverses one :func:`take_turn`. Reversing the last one releases the cores."""
    with _own.guard:
        _own.holders -= 1
        if _own.holders == 0:
            _own.files.close()


def alone_by_turns() -> bool:
    """Whether processes that measure wait for each other."""
    return bool(os.environ.get(FOLDER, _USUAL))


def first_look() -> bool:
    """Whether the machine's load has not been measured since the present turn began.

    A process that measures in several steps waits for a quiet machine before the first of them.
    """
    with _own.guard:
        looked, _own.looked = _own.looked, True
    return not looked


@contextmanager
def measurement_lock(say: Say | None = None) -> Iterator[None]:
    """Holds a turn while the context lasts; see :func:`take_turn`."""
    take_turn(say)
    try:
        yield
    finally:
        give_turn()


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def _locked(say: Say, longest_s: float) -> ExitStack:
    """Locks on the cores that this process may run on."""
    folder = os.environ.get(FOLDER, _USUAL)
    if not folder:
        return ExitStack()
    end = monotonic() + longest_s
    with ExitStack() as stack:
        try:
            files = [_opened(Path(folder), core, stack) for core in _cores()]
        except OSError as error:
            _warn(
                f"other measurements on this machine are not kept away: {folder}: {error.strerror}"
            )
            return ExitStack()
        announced = False
        # All processes lock in the same order: otherwise two could wait for each other for ever.
        for file in files:
            while not _lock(file):
                if not announced:
                    say(WAITING)
                    announced = True
                if monotonic() > end:
                    raise DLBricksError(
                        f"another measurement has run on this machine for {longest_s:g} s",
                        hint="End it, or wait for it. It is the process that locks the "
                        f"files in {folder} (see lsof).",
                    )
                sleep(_LOOK_S)
        return stack.pop_all()
    raise AssertionError("unreachable")


def _cores() -> list[int]:
    """Cores that this process may run on, each named by its first logical CPU."""
    machine = MachineState()
    return sorted({min(machine.siblings(cpu)) for cpu in machine.cpus})


def _opened(folder: Path, core: int, stack: ExitStack) -> int:
    """File descriptor of a core's lock file, which any user may lock."""
    path = folder / f"core{core}"
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o1777)
        file = os.open(path, flags | os.O_CREAT, 0o644)
    stack.callback(os.close, file)
    return file


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


#: Shares of the usable CPUs above which a measurement is called disturbed.
MAX_OTHERS = DISTURBED_LOAD
MAX_STEAL = 0.01

LEAST_S = 0.5
"""Least seconds of a span in which use by others can be seen: the system counts it in hundredths of
a second."""

LONGEST_WAIT_S = 60.0
"""Maximum seconds of waiting for a quiet machine before the first round."""

_APART_S = 0.1
"""Least seconds between two readings of a watch, which then take a hundredth of the time."""


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
    def flags(self) -> tuple[str, ...]:
        """Codes of disturbances that mark the samples of that time; none where it is unknown."""
        found = {
            "others-used-cpus": (self.share or 0.0) > MAX_OTHERS,
            "quota-stopped-container": self.throttled > 0,
        }
        return tuple(code for code, holds in found.items() if holds)

    @property
    def warnings(self) -> tuple[Note, ...]:
        """Disturbances that may have changed a measurement in that time."""
        found = []
        if self.others is None or self.steal is None:
            found.append(warning("cpu-use-unknown"))
        if self.others is not None and self.others > MAX_OTHERS * self.cpus:
            found.append(warning("others-used-cpus", used=self.others, cpus=self.cpus))
        if self.steal is not None and self.steal > MAX_STEAL * self.cpus:
            found.append(warning("hypervisor-took-time", share=self.steal / self.cpus))
        if self.throttled > 0:
            found.append(warning("quota-stopped-container", seconds=self.throttled))
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
        >>> [each.code for each in sampler.load().warnings]  # doctest: +SKIP
        ['others-used-cpus']
    """

    def __init__(self, machine: MachineState | None = None) -> None:
        self._machine = machine or MachineState()
        self._start = self._read()

    def load(self) -> MachineLoad:
        """The load since the start; CPU time is known to 10 ms."""
        return self._between(self._start, self._read())

    def _between(self, start: _Reading, end: _Reading) -> MachineLoad:
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


class LoadWatch(LoadSampler):
    """Recent load of the machine, for samples that are taken one after another.

    It costs about a millisecond, ten times a second at most.

    Attributes:
        pulses_ms: Milliseconds of a fixed piece of work at each look.

    Examples:
        >>> watch = LoadWatch()
        >>> watch.lately().share  # doctest: +SKIP
        0.02
    """

    def __init__(self, machine: MachineState | None = None) -> None:
        super().__init__(machine)
        self.pulses_ms: list[float] = []
        self._readings = deque([self._start])
        self._last: MachineLoad | None = None

    @property
    def pulse(self) -> Pulse | None:
        """Summary of the pulses so far; ``None`` before the first."""
        return pulse_of(self.pulses_ms)

    def lately(self) -> MachineLoad:
        """The load in the last half second, or since the last look if that is longer ago.

        If processes that measure do not wait for each other, their load is not counted.
        """
        if not alone_by_turns():
            return MachineLoad(LEAST_S, len(self._machine.cpus), 0.0, 0.0, 0.0)
        if self._last is None or time.perf_counter() - self._readings[-1].wall >= _APART_S:
            now = self._read()
            while len(self._readings) > 1 and now.wall - self._readings[1].wall >= LEAST_S:
                self._readings.popleft()
            self._last = self._between(self._readings[0], now)
            self._readings.append(now)
            self.pulses_ms.append(pulse_ms())
        return self._last


def wait_for_quiet(
    watch: LoadWatch,
    say: Callable[[str], None],
    nap: Callable[[float], None] = time.sleep,
) -> float:
    """Waits until others use little of the CPUs, but not for ever.

    Args:
        watch: Watch of the load. Earlier readings count as the first look.
        say: Receives a message if there is something to wait for.
        nap: Function that does nothing for a number of seconds.

    Returns:
        Seconds of the wait.
    """
    waited_s = 0.0
    load = watch.lately()
    if load.seconds < LEAST_S:
        waited_s = max(LEAST_S - load.seconds, _APART_S)
        nap(waited_s)
        load = watch.lately()
    if _is_quiet(load):
        return waited_s
    say(
        f"other programs use {load.share or 0.0:.0%} of the CPUs: waiting for quiet, "
        f"{LONGEST_WAIT_S:.0f} s at most"
    )
    while waited_s < LONGEST_WAIT_S and not _is_quiet(load):
        nap(LEAST_S)
        waited_s, load = waited_s + LEAST_S, watch.lately()
    if not _is_quiet(load):
        say("the machine is still busy: figures are marked, and their intervals allow for it")
    return waited_s


def _is_quiet(load: MachineLoad) -> bool:
    return (load.share or 0.0) <= MAX_OTHERS


def _own_seconds() -> float:
    """CPU time in seconds of this process and of all processes that it ever started."""
    ended = os.times()
    total = ended.user + ended.system + ended.children_user + ended.children_system
    for pid in descendants(os.getpid()):
        with suppress(psutil.Error):  # it has ended
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def descendants(pid: int) -> Iterator[int]:
    """Processes that a process has started, and those that these have started in turn."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        # Few kernels leave these files out. psutil reads the states of all processes instead.
        yield from (each.pid for each in psutil.Process(pid).children(recursive=True))
        return
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child in map(int, path.read_text(encoding="ascii").split()):
                yield child
                yield from descendants(child)

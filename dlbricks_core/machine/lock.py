"""Turns: only one process at a time measures on a CPU core.

Each core has a lock file (``flock``). A process that measures locks the files of all cores
in its CPU affinity. The kernel releases the locks when the process ends, for any reason.
Processes with disjoint affinities do not wait for each other: parts of a partitioned machine count
as separate machines. The lock files belong to the machine, in all network namespaces. Containers
share them if they share the folder.
"""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import RLock
from time import monotonic, sleep

from dlbricks_core.errors import DLBricksError
from dlbricks_core.machine.sysfs import MachineState

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


def give_turn() -> None:
    """Reverses one :func:`take_turn`; the last reversal releases the cores."""
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
def measurement_lock(say: Say | None = None, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Holds a turn while the context lasts; see :func:`take_turn`."""
    take_turn(say, longest_s)
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

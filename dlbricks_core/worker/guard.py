"""The guard of a worker: a process that lets nothing outlive the run, and keeps its log short.

The parent starts the guard, and the guard is what starts the worker: a process that does nothing
but wait. It therefore acts whatever the worker does, also in a call of a framework that holds the
interpreter's lock, and whichever thread of the parent started it. Where the parent dies, however
that happens, or lets go of the worker, its end of the guard's standard input closes: the guard
then ends the worker. When the worker has ended, so does all that it had started, and its temporary
folder is removed; the guard then ends in the same way as the worker did. Should the guard itself
be killed, the kernel ends the worker.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

LOG_BYTES = 64 << 10
"""What is kept of what a worker prints: the end."""

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
"""Options of prctl(2)."""

_DRAIN_S = 1.0
_LOOK_EACH_S = 0.05

#: Whoever sends them to all processes of a run sends them to the parent too, which decides.
_LEFT_TO_THE_PARENT = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


def stand_guard(connection: int, log: int, folder: Path, resident: int) -> None:
    """Becomes two processes: only the worker returns, the guard stays until all has ended.

    To be called first, before there are threads.

    Args:
        connection: Descriptor that only the worker keeps: the parent is to see it close.
        log: Descriptor of the file that gets the end of what the worker prints.
        folder: The worker's temporary folder, to be made and in the end removed.
        resident: Bytes of its own that the worker may use, looked at all the time; 0 for no such
            limit.
    """
    usual = {number: signal.signal(number, signal.SIG_IGN) for number in _LEFT_TO_THE_PARENT}
    # Without it, whatever needs a temporary file says so; most workers need none.
    with suppress(OSError):
        folder.mkdir(mode=0o700)
    _prctl(_SET_SUBREAPER, 1)
    guard = os.getpid()
    printed, output = os.pipe()
    worker = os.fork()
    if worker == 0:
        _become_worker(guard, output, usual)
        os.close(printed)
        os.close(log)
        return
    os.close(output)
    os.close(connection)
    try:
        if resident:
            threading.Thread(target=_end_when_full, args=(worker, resident), daemon=True).start()
        status = _watch(worker, printed, log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _end_as(status)


def _prctl(option: int, value: int) -> None:
    # A system without it has the guard alone.
    prctl: Callable[..., Any] | None = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


def _become_worker(guard: int, output: int, usual: dict[signal.Signals, Any]) -> None:
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:  # it died before that was set
        os._exit(1)
    os.setsid()  # what the worker starts is of its group, and the guard is not
    for number, handler in usual.items():
        signal.signal(number, handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def _watch(worker: int, printed: int, log: int) -> int:
    """Status of the worker, which has ended with all that it started."""
    threading.Thread(target=_end_with_parent, args=(worker,), daemon=True).start()
    keeper = threading.Thread(target=_keep_end, args=(printed, log), daemon=True)
    keeper.start()
    # It stays a zombie, whose number no other process gets, until its group has ended.
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    with suppress(OSError):
        os.killpg(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    _end_orphans()
    keeper.join(_DRAIN_S)
    return status


def _end_with_parent(worker: int) -> None:
    while os.read(0, 1):
        pass
    with suppress(OSError):
        os.kill(worker, signal.SIGKILL)


def _end_when_full(worker: int, most: int) -> None:
    path = Path(f"/proc/{worker}/statm")
    with suppress(OSError):  # it has ended, or there is no /proc
        while _own_bytes(path) <= most:
            sleep(_LOOK_EACH_S)
        os.kill(worker, signal.SIGKILL)


def _own_bytes(statm: Path) -> int:
    """Resident memory that is not of files."""
    _, resident, shared, *_ = map(int, statm.read_text(encoding="ascii").split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _keep_end(printed: int, log: int) -> None:
    kept = b""
    while part := os.read(printed, LOG_BYTES):
        kept = (kept + part)[-LOG_BYTES:]
        os.pwrite(log, kept, 0)


def _end_orphans() -> None:
    """Ends what the worker has left, and what that leaves."""
    while found := list(_orphans()):
        for child in found:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        for child in found:
            with suppress(OSError):
                os.waitpid(child, 0)


def _orphans() -> Iterable[int]:
    """Processes that the worker has left in sessions of their own; none without /proc."""
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, path.read_text(encoding="ascii").split())


def _end_as(status: int) -> None:
    """Ends this process in the same way as another."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):  # one that is never caught, or no core to leave
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    os._exit(os.WEXITSTATUS(status))

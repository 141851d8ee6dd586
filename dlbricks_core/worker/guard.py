"""The guard of a worker: a process that ends the worker with the run, and keeps its log short.

The parent starts the guard, and the guard starts the worker. The guard only waits, so it can act in
every state of the worker, even while a framework holds the interpreter's lock. If the parent dies
or lets go of the worker, the guard's standard input closes, and the guard ends the worker. Once the
worker has ended, the guard ends every process that the worker has left, removes its temporary
folder, and ends in the same way as the worker did. If the guard itself is killed, the kernel ends
the worker.
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
"""Bytes that are kept of the end of a worker's output."""

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
"""Options of prctl(2)."""

_DRAIN_S = 1.0
_LOOK_EACH_S = 0.05

#: Signals that the guard ignores. The parent gets them too, and decides what to do.
_LEFT_TO_THE_PARENT = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


def stand_guard(connection: int, log: int, folder: Path, resident: int) -> None:
    """Splits this process into a guard and a worker; only the worker returns.

    Call it first, before there are threads.

    Args:
        connection: Descriptor of the connection to the parent. The guard closes it, so that the
            parent notices the worker's end.
        log: Descriptor of the file that gets the end of the worker's output.
        folder: Temporary folder of the worker. The guard makes it, and removes it in the end.
        resident: Maximum resident bytes of the worker, files not counted; 0 for no limit. The
            guard checks them all the time.
    """
    usual = {number: signal.signal(number, signal.SIG_IGN) for number in _LEFT_TO_THE_PARENT}
    # Most workers need no temporary file; a worker that does reports the missing folder.
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
    # Without prctl, as outside of Linux, the worker survives a guard that is killed.
    prctl: Callable[..., Any] | None = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


def _become_worker(guard: int, output: int, usual: dict[signal.Signals, Any]) -> None:
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:  # it died before that was set
        os._exit(1)
    os.setsid()  # processes that the worker starts are in its group, and the guard is not
    for number, handler in usual.items():
        signal.signal(number, handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def _watch(worker: int, printed: int, log: int) -> int:
    """Waits for the worker, ends all that it has started, and returns its status."""
    threading.Thread(target=_end_with_parent, args=(worker,), daemon=True).start()
    keeper = threading.Thread(target=_keep_end, args=(printed, log), daemon=True)
    keeper.start()
    # Until its group has ended, the worker stays a zombie, so that nobody else gets its number.
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
    """Resident bytes of a process, without those of files."""
    _, resident, shared, *_ = map(int, statm.read_text(encoding="ascii").split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _keep_end(printed: int, log: int) -> None:
    kept = b""
    while part := os.read(printed, LOG_BYTES):
        kept = (kept + part)[-LOG_BYTES:]
        os.pwrite(log, kept, 0)


def _end_orphans() -> None:
    """Ends the processes that the worker has left, and their children."""
    while found := list(_orphans()):
        for child in found:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        for child in found:
            with suppress(OSError):
                os.waitpid(child, 0)


def _orphans() -> Iterable[int]:
    """Processes that the worker has left in sessions of their own; empty without ``/proc``."""
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, path.read_text(encoding="ascii").split())


def _end_as(status: int) -> None:
    """Ends this process with the status of another: the same signal or exit status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):  # one that is never caught, or no core to leave
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    os._exit(os.WEXITSTATUS(status))

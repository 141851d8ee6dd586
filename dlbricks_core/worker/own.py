"""Limits on a command's own memory and time, until it begins to measure.

Untrusted input may lead to more work than any machine can do. Workers have separate limits; these
limits are for the command's own work on answers of workers, stores and suites.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from dlbricks_core.limits import OWN_MEMORY, OWN_TIME
from dlbricks_core.worker.memory import itself_limited, memory_hint, memory_to_use

_MIB = 2**20

_MOST_TIMED_S = 2**31
"""Seconds that a timer of the system counts."""

_limits: list[ExitStack] = []


class OwnTimeError(BaseException):
    """A command has computed for longer than :data:`OWN_TIME`.

    Nothing that continues after errors of single models catches it.
    """

    def __init__(self) -> None:
        super().__init__(f"the command computed for {OWN_TIME.words}")


@contextmanager
def limited() -> Iterator[None]:
    """Limits this process while the context lasts, or until :func:`release`.

    Only computing counts, not waiting. In a thread other than the main one there are no limits.

    Raises:
        OwnTimeError: If the time is spent.
        DLBricksError: If a variable that raises a limit is not a number.
    """
    from threading import current_thread, main_thread  # after what catches signals meanwhile

    if current_thread() is not main_thread():  # only the main thread may handle signals
        yield
        return
    seconds, nbytes = OWN_TIME.most, min(OWN_MEMORY.most * _MIB, memory_to_use())
    handler = signal.signal(signal.SIGPROF, _end)
    try:
        limits = ExitStack()
        _limits.append(limits)
        limits.enter_context(itself_limited(nbytes))
        limits.callback(signal.setitimer, signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_PROF, min(seconds, _MOST_TIMED_S))
        yield
    finally:
        release()
        signal.signal(signal.SIGPROF, handler)


def release() -> None:
    """Ends the limits, because measuring has no time limit. Any thread may call it."""
    while _limits:
        _limits.pop().close()


def own_memory_hint() -> str:
    """Advice for the user after the command itself lacked memory."""
    if memory_to_use() > OWN_MEMORY.most * _MIB:
        return OWN_MEMORY.hint
    return memory_hint()


def _end(number: int, frame: FrameType | None) -> None:
    raise OwnTimeError

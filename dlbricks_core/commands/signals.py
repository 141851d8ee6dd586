"""Signals that end a command as Ctrl-C does: measurements are kept, and no process is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_STDERR = 2
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_IMPORT_POLL_S = 0.02
"""Seconds between two looks at whether an import has ended."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end.

    Attributes:
        status: Exit status by which a shell reports the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


@contextmanager
def starting() -> Iterator[None]:
    """Ends the process at a signal, with one line: while modules load, nothing is to be kept.

    No exception is raised: extension modules would print it, or raise another one.
    """
    usual = {number: signal.getsignal(number) for number in _ENDING}
    taken = {number: handler for number, handler in usual.items() if callable(handler)}

    def end(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(_STDERR, b"Interrupted.\n")
        os._exit(128 + number)

    try:
        for number in taken:
            signal.signal(number, end)
    except ValueError:  # only the main thread may handle signals
        taken = {}
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame belongs to the import of a module."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises :class:`Interrupted` at the first signal. The next one ends the process at once.

    During the import of a module, the exception waits for its end.

    Signals that are ignored, as under ``nohup``, stay ignored.
    """
    from threading import current_thread, main_thread  # after what catches signals meanwhile

    if current_thread() is not main_thread():  # only the main thread may handle signals
        yield
        return
    usual = {number: signal.getsignal(number) for number in _ENDING}
    taken = {
        number: handler
        for number, handler in usual.items()
        if handler in (signal.SIG_DFL, signal.default_int_handler)
    }
    caught: list[Interrupted] = []

    def end(number: int, frame: FrameType | None) -> None:
        # Guards of workers and their folders clean up the remainder.
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        caught.append(Interrupted(number))
        end_once_imported(signal.SIGALRM, frame)

    def end_once_imported(number: int, frame: FrameType | None) -> None:
        # An exception within the initialization of an extension module would abort the process.
        if _imports(frame):
            signal.signal(signal.SIGALRM, end_once_imported)
            signal.setitimer(signal.ITIMER_REAL, _IMPORT_POLL_S)
        else:
            raise caught[0]

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    except BaseException as error:
        if caught:  # whatever else was raised during the cleanup
            raise caught[0] from error
        raise
    finally:
        if not caught:
            for number, handler in taken.items():
                signal.signal(number, handler)

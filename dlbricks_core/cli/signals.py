"""Signals that end a command as Ctrl-C does: measurements are kept, and no process is left."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end.

    Attributes:
        status: Exit status by which a shell reports the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises :class:`Interrupted` at the first signal. The next one ends the process at once.

    Signals that are ignored, as under ``nohup``, stay ignored.
    """
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
        # Guards of workers and their folders clean up whatever is left.
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        caught.append(Interrupted(number))
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

"""Signals that end a scheduler or a worker in an orderly way, as Ctrl-C does."""

from __future__ import annotations

import asyncio
import signal

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def asked_to_stop() -> asyncio.Future[int]:
    """Number of the first signal to end this process, as a future."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in _ENDING:
        loop.add_signal_handler(number, stop, number)
    return stopped

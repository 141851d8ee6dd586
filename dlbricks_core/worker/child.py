"""The child's side of :mod:`dlbricks_core.worker.process`."""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from dlbricks_core.errors import DLBricksError, first_line, is_full
from dlbricks_core.wording import arguments_spelled
from dlbricks_core.worker.channel import Channel
from dlbricks_core.worker.guard import stand_guard
from dlbricks_core.worker.memory import lacks_memory, limit_memory

_FEW_OBJECTS = 50_000
"""New objects after which a worker looks for garbage; Python's own number is 700. A framework makes
a million while it is imported, nearly all of which stay: torch's import takes a twentieth less.
The collector is off while the service is imported, and later ignores the objects of this import."""


def serve(channel: Channel, service: object) -> None:
    """Answers calls until the parent closes its end.

    Args:
        channel: Connection to the parent.
        service: Object whose methods are called. Its method ``reason``, if any, words exceptions;
            the default is the type and the first line of the message.
    """
    reason: Callable[[Exception], str] = getattr(service, "reason", first_line)
    while True:
        try:
            method, arguments = channel.receive()
        except (EOFError, ConnectionError):
            return
        try:
            answer: tuple[str, Any] = ("result", getattr(service, method)(*arguments))
        except DLBricksError as error:
            answer = ("refused", (error, traceback.format_exc()))
        except Exception as error:  # noqa: BLE001 - whatever a framework raises goes to the parent
            answer = ("failed", (_summary(error, reason), traceback.format_exc()))
        try:
            _send(channel, answer)
        except ConnectionError:
            return


def _send(channel: Channel, answer: tuple[str, Any]) -> None:
    try:
        channel.send(answer)
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - what pickling raises is part of the call
        channel.send(("failed", (_summary(error, first_line), traceback.format_exc())))


_LONGEST, _HEAD, _TAIL = 300, 140, 150
"""Maximum characters of a reason; of a longer one, the characters kept of its start and its end."""


def _summary(error: Exception, reason: Callable[[Exception], str]) -> str:
    if lacks_memory(error):
        return "ran out of memory"
    if is_full(error):  # the files of a worker are temporary ones
        return "no space is left for temporary files: free some, or set TMPDIR to another folder"
    try:
        text = reason(error)
    except Exception as other:  # noqa: BLE001 - the service goes on, and the user hears of both
        text = f"{first_line(error)} (telling the reason failed: {first_line(other)})"
    return text if len(text) <= _LONGEST else f"{text[:_HEAD]} ... {text[-_TAIL:]}"


def main() -> None:
    """Entry point: ``python -P -m dlbricks_core.worker.child``, as ``WorkerProcess`` starts it.

    The arguments are the descriptors of the connection and of the log, the temporary folder, two
    limits on memory, the ``MODULE:CLASS`` of the service, and the spelling of arguments in
    messages.
    """
    gc.disable()
    connection, log, folder, memory, resident, service, spelling = sys.argv[1:]
    stand_guard(int(connection), int(log), Path(folder), int(resident))
    limit_memory(int(memory))
    channel = Channel(socket.socket(fileno=int(connection)))
    channel.send(os.getpid())
    with arguments_spelled(_imported(spelling)) if spelling else nullcontext():
        made = _imported(service)()
        gc.freeze()
        gc.set_threshold(_FEW_OBJECTS)
        gc.enable()
        serve(channel, made)
    # The interpreter looks for garbage as it ends, which takes a quarter of a short worker's time.
    gc.freeze()


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


if __name__ == "__main__":
    main()

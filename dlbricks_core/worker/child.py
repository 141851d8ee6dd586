"""The child's side of :mod:`dlbricks_core.worker.process`."""

from __future__ import annotations

import importlib
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from dlbricks_core.errors import DLBricksError


def serve(connection: Connection, service: object) -> None:
    """Answers calls until the parent closes its end."""
    while True:
        try:
            method, arguments = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer: tuple[str, Any] = ("result", getattr(service, method)(*arguments))
        except DLBricksError as error:
            answer = ("error", error)
        except MemoryError:
            answer = ("error", ("ran out of memory", "", traceback.format_exc()))
        except Exception as error:  # noqa: BLE001 - whatever a framework raises goes to the parent
            answer = ("error", (_summary(error), "", traceback.format_exc()))
        try:
            connection.send(answer)
        except ConnectionError:
            return


_LONGEST, _HEAD, _TAIL = 300, 140, 150
"""Characters of a reason, and of its start and end where it is longer."""


def _summary(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # MXNet puts its C++ stack first and the reason last; others say it in the first line.
    reason = next((line for line in lines if "Error" in line or "Check failed" in line), None)
    text = f"{type(error).__name__}: {reason or (lines[0] if lines else '')}"
    # ONNX Runtime names the layer first and the reason last, with a C++ signature in between.
    return text if len(text) <= _LONGEST else f"{text[:_HEAD]} ... {text[-_TAIL:]}"


def main() -> None:
    """Entry point: ``python -m dlbricks_core.worker.child DESCRIPTOR MODULE:CLASS``."""
    descriptor, service = sys.argv[1:]
    module, _, attribute = service.partition(":")
    with Connection(int(descriptor)) as connection:
        serve(connection, getattr(importlib.import_module(module), attribute)())


if __name__ == "__main__":
    main()

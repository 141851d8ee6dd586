"""Jobs: processes on a host that carry out one order each.

``PROGRAM``, with the spool and the file of the result as arguments, reads the order from its
standard input, which begins with the order's length. The end of the input cancels the job. Each
measurement enters the host's store, the spool, as soon as it is taken. A job that ends early
therefore loses nothing, and a repeated job measures only missing networks. A job prints a word when
its state changes, and writes its result into a file, as plain data.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO

from dlbricks_records.contents import Record, exported

from dlbricks_core.errors import DLBricksError, first_line
from dlbricks_core.facts import Measurement, Note
from dlbricks_core.facts.note import PLUGIN, warning
from dlbricks_core.machine.load import measurement_lock
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_fleet.plain import packed, unpacked
from dlbricks_fleet.records import Done, Order
from dlbricks_fleet.shares import OpenSuite

PROGRAM = "import gc; gc.disable(); from dlbricks_fleet.job import main; main()"
"""Program of a job. Imports, which take most of a short job's time, leave little garbage: none is
looked for meanwhile.
"""

WAITING, WORKING = "waiting", "working"
"""States that a job reports."""

LENGTH = struct.Struct("!Q")
"""Bytes of an order, before it."""

_END_S = 20.0
"""Seconds between the interrupt of a job and the end of its process."""


def main() -> None:
    """Entry point of the process."""
    gc.enable()
    # Ignored where the worker was started in the background of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spool, result = map(Path, sys.argv[1:])
    (length,) = LENGTH.unpack(sys.stdin.buffer.read(LENGTH.size))
    order = Order.from_plain(unpacked(sys.stdin.buffer.read(length)))
    threading.Thread(target=_watch, args=(sys.stdin.buffer,), daemon=True).start()
    answer: tuple[str, Any]
    try:
        answer = "done", carry_out(order, spool).to_plain()
    except DLBricksError as error:
        answer = "refused", (error.message, error.hint)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is to hear of it
        answer = "refused", (f"unexpected {first_line(error)}", "This is a defect of DLBricks.")
    result.write_bytes(packed(answer))
    # The interpreter looks for garbage as it ends, which takes a sixth of a short job's time.
    gc.freeze()


def carry_out(order: Order, spool: Path) -> Done:
    """Result of an order."""
    said: list[Note] = []
    # The client reports disturbances of the host.
    warnings.showwarning = lambda text, *_where, **_more: said.append(
        warning(PLUGIN, text=str(text))
    )
    with (
        measurement_lock(lambda _: _tell(WAITING)),
        ResultStore.open(spool / "results.db") as store,
    ):
        _tell(WORKING)
        begin = monotonic()
        observer = Observer()
        request = Request.of(**order.asked.options)
        if order.budget_s is not None and request.budget_s is not None:
            request = replace(request, budget_s=order.budget_s)
        suite = OpenSuite.of(spool / "suites" / order.asked.suite, request, store, observer)
        if order.share is None:
            priced = tuple(suite.priced())
            done = Done(b"", priced, request.budget_s, unread=suite.unread)
            signatures = frozenset[str]()
        else:
            outcome = suite.time(order.share, request, store, observer)
            signatures = frozenset(order.share)
            done = Done(
                b"",
                failures={key.subject.signature: why for key, why in outcome.failures.items()},
                measured=outcome.measured,
                warnings=(*outcome.warnings, *said),
            )
        kept = exported(store, only=lambda record: _belongs(record, request, signatures))
        return replace(done, records=kept.content, seconds=monotonic() - begin)


def _belongs(record: Record, request: Request, signatures: frozenset[str]) -> bool:
    """Whether a record is of this system, and a measurement of these networks."""
    if isinstance(record, Measurement):
        question = record.question
        here = question.system == request.fingerprint
        return here and question.subject.signature in signatures
    return True


def _tell(state: str) -> None:
    print(state, flush=True)  # noqa: T201 - a pipe to the worker


def _watch(pipe: BinaryIO) -> None:
    """Interrupts this process when the pipe ends: the worker is gone, or wants it to end."""
    while pipe.read(1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    sleep(_END_S)
    os._exit(1)

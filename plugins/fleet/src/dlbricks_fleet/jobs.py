"""Starts jobs on a host, and ends jobs that hang or are no longer wanted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic

from dlbricks_core.errors import BackendError, DLBricksError
from dlbricks_core.wording import argument
from dlbricks_fleet.job import LENGTH, PROGRAM, WAITING
from dlbricks_fleet.plain import packed, unpacked
from dlbricks_fleet.records import Done, Order

_LOOK_S = 1.0
_END_S = 25.0
"""Seconds that a job has to stop its own workers."""

ENVIRONMENT: Mapping[str, str] = dict(os.environ)
"""Environment variables of jobs: those with which this process began, before Dask changed any."""


class HungError(BackendError):
    """A job exceeded its deadline."""


class CrashedError(BackendError):
    """A job crashed without a result."""


class UnwantedError(BackendError):
    """The result of a job is no longer wanted."""


def run_job(
    order: Order,
    spool: Path,
    is_wanted: Callable[[], bool] = lambda: True,
    tell: Callable[[str], None] = lambda state: None,
) -> Done:
    """Carries out an order in a new process.

    Args:
        order: The order.
        spool: Folder of the host's store.
        is_wanted: Whether the result is still wanted; called every second.
        tell: Receives each state of the job: waiting for another measurement, or working.

    Raises:
        DLBricksError: If the host cannot carry out the order, or the job hung or crashed.
    """
    with tempfile.TemporaryDirectory(prefix="job-", dir=spool) as folder:
        result, log = Path(folder, "result"), Path(folder, "log")
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, str(spool), str(result)],
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C reaches the worker only, which ends its job.
                start_new_session=True,
            )
        try:
            _watch(process, order, is_wanted, tell)
        finally:
            _end(process)
        if not result.exists():
            raise CrashedError(f"the job {_ending(process.returncode)}", hint=_last_line(log))
        content = result.read_bytes()
    try:
        answer, what = unpacked(content)
        if answer == "done":
            return Done.from_plain(what)
        message, hint = map(str, what)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CrashedError("the job left something else than its result") from error
    raise DLBricksError(message, hint)


def _watch(
    process: subprocess.Popen[bytes],
    order: Order,
    is_wanted: Callable[[], bool],
    tell: Callable[[str], None],
) -> None:
    """Returns when the job has ended; raises an error if it must be ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        content = packed(order.to_plain())
        process.stdin.write(LENGTH.pack(len(content)) + content)
        process.stdin.flush()
    except BrokenPipeError:  # the job has ended already
        return
    left, state, last = order.deadline_s, WAITING, monotonic()
    with DefaultSelector() as selector:
        selector.register(process.stdout, EVENT_READ)
        while True:
            if selector.select(_LOOK_S):
                said = os.read(process.stdout.fileno(), 4096)
                if not said:
                    return
                if words := said.split():
                    state = words[-1].decode()
                    tell(state)
            now = monotonic()
            left -= 0.0 if state == WAITING else now - last
            last = now
            if not is_wanted():
                raise UnwantedError("the result is no longer wanted")
            if left < 0:
                raise HungError(
                    f"no result within {order.deadline_s:.0f} s",
                    hint="The job hangs, or is much slower than expected: "
                    f"{argument('deadline_s')} sets the limit.",
                )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Lets a job stop by itself, and kills it if it does not. Its workers end with it."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _ending(status: int) -> str:
    if status < 0:
        name = signal.Signals(-status).name
        more = ", most likely for lack of memory" if -status == signal.SIGKILL else ""
        return f"was killed ({name}{more})"
    return f"ended without a result (exit status {status})"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""

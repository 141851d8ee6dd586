"""Runs a service in a process of its own, so that its crash is only its own.

The parent sends ``(method, arguments)`` over a socket pair and waits, blocked, for the
answer; the child runs one call at a time. A child that dies or answers too late is
gone for good: the caller starts another.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from dlbricks_core.errors import BackendError, DLBricksError

_MEMORY_WORDS = ("bad_alloc", "out of memory", "cannot allocate memory", "memoryerror",
                 "failed to allocate", "can't allocate memory")  # fmt: skip
_REST_POLL_S = 0.0005
_OOM_HINT = "It needs more memory than is free; close other programs or leave the model out."


class WorkerError(BackendError):
    """The worker process is gone: it crashed, hung, or ran out of memory."""


class RemoteError(BackendError):
    """A call failed inside the worker, which goes on.

    Attributes:
        details: The traceback in the worker, for ``-v``.
    """

    def __init__(self, message: str, hint: str = "", details: str = "") -> None:
        super().__init__(message, hint)
        self.args = (message, hint, details)
        self.details = details


class WorkerProcess:
    """A child process that serves the public methods of one object.

    Args:
        service: ``"module:Class"``, created in the child without arguments.
        environment: Variables set in the child before anything is imported there.

    Example:
        >>> with WorkerProcess("dlbricks_core.backends.host:TimerHost") as worker:
        ...     worker.call("start", "dlbricks_mxnet.backend:MxnetBackend", settings)
    """

    def __init__(self, service: str, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile(prefix="dlbricks-worker-")  # noqa: SIM115 - closed by close
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dlbricks_core.worker.child", str(theirs.fileno()), service],
                env={**os.environ, **(environment or {})},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                # Ctrl-C is the parent's to handle: it decides what to finish first.
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())

    def call(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Calls a method of the service and waits for its result.

        Args:
            method: Name of a public method.
            *arguments: Picklable arguments.
            timeout: Seconds to wait; ``None`` waits for ever.

        Raises:
            RemoteError: If the method raised; the worker goes on.
            WorkerError: If the worker died or took too long; it is gone.
            DLBricksError: If the method raised one, the same.
        """
        try:
            self._connection.send((method, arguments))
            if not self._connection.poll(timeout):
                self.kill()
                raise WorkerError(
                    f"no answer within {timeout:g} s",
                    hint="It hangs or is very slow; --timeout sets the limit.",
                )
            kind, payload = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._death() from error
        except KeyboardInterrupt:
            self.kill()
            raise
        if kind == "result":
            return payload
        if isinstance(payload, DLBricksError):
            raise payload
        raise RemoteError(*payload)

    def rest(self, timeout: float) -> None:
        """Waits until none of the child's threads computes, for so many seconds at most.

        Frameworks let their threads spin after the end of a run, in case another follows:
        whatever else is timed at that moment would share its cores with them.
        """
        end = monotonic() + timeout
        while self._process.poll() is None and self._computing() and monotonic() < end:
            sleep(_REST_POLL_S)

    def _computing(self) -> bool:
        for path in Path(f"/proc/{self._process.pid}/task").glob("*/stat"):
            with suppress(OSError):  # the thread has ended meanwhile
                # The state stands behind the name, which may hold blanks and brackets.
                if path.read_text(errors="replace").rpartition(")")[2].split()[0] == "R":
                    return True
        return False

    def _death(self) -> WorkerError:
        try:
            status = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        log = self.log()
        if any(word in log.lower() for word in _MEMORY_WORDS):
            return WorkerError("ran out of memory", hint=_OOM_HINT)
        if status == -signal.SIGKILL:
            return WorkerError("killed, most likely for lack of memory", hint=_OOM_HINT)
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        return WorkerError(f"crashed ({how})", hint=last.strip()[:200])

    def log(self) -> str:
        """What the child has printed so far (the last 64 KB)."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 65536))
        return self._log.read().decode(errors="replace")

    def kill(self) -> None:
        """Ends the child and everything it started, at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._connection.close()

    def close(self) -> None:
        """Lets the child end by itself; kills it if it does not."""
        self._connection.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

"""Runs a service in a separate process, so that a crash ends only that process.

The parent sends ``(method, arguments)`` over a socket pair and blocks until the answer comes. The
child runs one call at a time. A child that dies or answers too late is ended for good, and the
caller starts another. When the parent ends, so does the child
(:mod:`dlbricks_core.worker.guard`).
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from dlbricks_core.errors import BackendError
from dlbricks_core.wording import argument, spelling
from dlbricks_core.worker.channel import Channel, GarbledError
from dlbricks_core.worker.guard import LOG_BYTES
from dlbricks_core.worker.memory import as_given, memory_hint, memory_to_use, tells_of_memory

# Peak memory of a run: of this process and of all workers that lived at the same time.
#
# The kernel keeps the most resident memory that each process ever had (``VmHWM``). It is read
# once, when a worker ends, so that nothing is disturbed while something is timed. Peaks of
# processes that lived at the same time are added, although they need not have come at the same
# moment, and shared libraries count in each of them: the sum is an upper bound.


@dataclass
class _Life:
    """A worker's life: its begin, its end, and its peak of resident bytes."""

    pids: tuple[int, ...]
    begin: float
    end: float = float("inf")
    nbytes: int = 0

    def now(self) -> int:
        """Maximum resident bytes so far; after the end of the processes, the last known value."""
        self.nbytes = max(self.nbytes, sum(map(_peak_of, self.pids)))
        return self.nbytes


class Peaks:
    """Peaks of the workers that this process has started."""

    def __init__(self) -> None:
        self._lives: dict[int, _Life] = {}
        self._ended: list[_Life] = []

    def begin(self, guard: int) -> None:
        """Records the start of a worker, under the number of its guard's process."""
        self._lives[guard] = _Life((guard,), monotonic())

    def know(self, guard: int, worker: int) -> None:
        """Records the number of a worker's own process."""
        self._lives[guard].pids = (guard, worker)

    def look(self, guard: int) -> None:
        """Reads the peak of a worker that is about to end."""
        if guard in self._lives:
            self._lives[guard].now()

    def end(self, guard: int) -> None:
        """Records the end of a worker. If it ended by itself, the largest value so far is used."""
        life = self._lives.pop(guard, None)
        if life is not None:
            if not life.nbytes:
                life.nbytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            life.end = monotonic()
            self._ended.append(life)

    def since(self, moment: float) -> int:
        """Upper bound of the resident bytes of this process and its workers since a moment.

        Args:
            moment: Time of :func:`time.monotonic`.
        """
        for life in self._lives.values():
            life.now()
        lives = [each for each in (*self._ended, *self._lives.values()) if each.end >= moment]
        # The sum over live processes grows only when a process begins.
        together = (
            sum(other.nbytes for other in lives if other.begin <= each.begin < other.end)
            for each in lives
        )
        return _peak_of("self") + max(together, default=0)


PEAKS = Peaks()
"""Peak of all workers of this process."""


def _peak_of(pid: int | str) -> int:
    """Most resident bytes of a process so far; 0 if it is gone, or without ``/proc``."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return 0
    lines = (line.split() for line in text.splitlines() if line.startswith("VmHWM:"))
    return next((int(number) * 1024 for _, number, *_ in lines), 0)


T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_REST_POLL_S = 0.0005
_END_S = 5.0
"""Seconds that a worker gets to end, and its guard to clean up."""


class WorkerError(BackendError):
    """The worker process has ended: it crashed, hung, or ran out of memory."""


class WorkerTimeout(WorkerError):  # noqa: N818 - as in concurrent.futures
    """The worker process did not answer in time and was ended."""


class RemoteError(BackendError):
    """A call failed inside the worker, which continues. The cause is a :class:`RemoteTraceback`."""


class RemoteTraceback(Exception):  # noqa: N818 - a cause, as in concurrent.futures
    """Traceback of an error in the worker, as the text that Python would print."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class WorkerProcess:
    """A child process that serves the public methods of one object.

    Args:
        service: ``"module:Class"`` of the object, which is created without arguments.
        environment: Environment variables of the child, set before it imports anything.
        memory: Maximum bytes of the child; ``None`` for the result of :func:`memory_to_use`.
        resident: Maximum resident bytes, for a child that takes much memory and uses little of
            it; 0 for no limit. They are checked all the time, so nothing may be timed meanwhile.

    Attributes:
        folder: Folder of the child's temporary files; removed when the child ends.

    Examples:
        >>> with WorkerProcess("dlbricks_core.backends.host:TimerHost") as worker:
        ...     worker.call("start", "dlbricks_mxnet.backend:MxnetBackend", settings)
    """

    def __init__(
        self,
        service: str,
        environment: Mapping[str, str] | None = None,
        *,
        memory: int | None = None,
        resident: int = 0,
    ) -> None:
        self.folder = _new_folder()
        self._pid: int | None = None
        self._begun: tuple[str, tuple[Any, ...]] | None = None
        self._log = os.fdopen(os.memfd_create("dlbricks-worker-log"), "rb", buffering=0)
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        with theirs:
            passed = theirs.fileno(), self._log.fileno()
            arguments = (
                *passed,
                self.folder,
                memory_to_use() if memory is None else memory,
                resident,
                service,
                spelling(),
            )
            variables = {**(environment or {}), "TMPDIR": str(self.folder)}
            self._guard = _start(arguments, variables, passed)
        PEAKS.begin(self._guard.pid)

    @property
    def started(self) -> bool:
        """Whether the child has begun to answer calls."""
        return self._pid is not None

    def begin(self, method: str, *arguments: Any) -> None:
        """Lets the child begin a call. The next :meth:`call` must be equal, and waits for it."""
        self._begun = method, arguments
        with suppress(OSError):  # the child has ended, as whoever waits for the result will see
            self._channel.send(self._begun)

    def call(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Calls a method of the service and waits for its result.

        Args:
            method: Name of a public method.
            *arguments: Picklable arguments.
            timeout: Seconds to wait, including the start of the child; ``None`` waits for ever.

        Raises:
            DLBricksError: The error that the method raised, if it is a ``DLBricksError``.
            RemoteError: If the method raised another error; the worker continues.
            WorkerError: If the worker died or took too long; it has ended.
        """
        try:
            kind, payload = self._answer((method, arguments), timeout)
        except TimeoutError as error:
            self.kill()
            raise WorkerTimeout(
                f"no answer within {timeout:g} s",
                hint=f"It hangs or is very slow; {argument('timeout_s')} sets the limit.",
            ) from error
        except GarbledError as error:
            self.kill()
            raise WorkerError("sent an invalid answer", hint=self._last_words()) from error
        except (EOFError, OSError) as error:
            raise self._death() from error
        except KeyboardInterrupt:
            self.kill()
            raise
        if kind == "result":
            return payload
        reason, trace = payload
        if kind == "refused":
            raise reason from RemoteTraceback(trace)
        _LOG.debug("%s failed in its worker:\n%s", method, trace)  # callers may survive it
        raise RemoteError(reason) from RemoteTraceback(trace)

    def _answer(
        self, request: tuple[str, tuple[Any, ...]], timeout: float | None
    ) -> tuple[str, Any]:
        deadline = None if timeout is None else monotonic() + timeout
        if self._pid is None:
            self._pid = self._received(int, deadline)
            PEAKS.know(self._guard.pid, self._pid)
        begun, self._begun = self._begun, None
        assert begun in (None, request)
        if begun is None:
            self._channel.send(request, deadline)
        kind, *payload = self._received(tuple, deadline)
        if len(payload) != 1:
            raise GarbledError(repr(kind))
        return kind, payload[0]

    def _received(self, kind: type[T], deadline: float | None) -> T:
        message = self._channel.receive(deadline)
        if not isinstance(message, kind):
            raise GarbledError(type(message).__name__)
        return message

    def rest(self, timeout: float) -> None:
        """Waits until none of the child's threads computes.

        The threads of frameworks spin for a while after a run, in case another follows. They would
        take cores from networks that are being timed.

        Args:
            timeout: Longest time to wait, in seconds.
        """
        end = monotonic() + timeout
        while self._guard.poll() is None and self._computing() and monotonic() < end:
            sleep(_REST_POLL_S)

    def _computing(self) -> bool:
        for path in Path(f"/proc/{self._pid}/task").glob("*/stat"):
            with suppress(OSError):  # the thread has ended meanwhile
                # The state follows the name, which may contain blanks and brackets.
                if path.read_text(errors="replace").rpartition(")")[2].split()[0] == "R":
                    return True
        return False

    def _death(self) -> WorkerError:
        ended = self._ended(_END_S)
        self.kill()
        status = self._guard.returncode
        if not ended:
            return WorkerError("closed its connection without an answer", hint=self._last_words())
        if tells_of_memory(self.log()):
            return WorkerError("ran out of memory", hint=memory_hint())
        if status == -signal.SIGKILL:
            return WorkerError("killed, most likely for lack of memory", hint=memory_hint())
        return WorkerError(f"crashed ({self.ending or 'exit status 0'})", hint=self._last_words())

    @property
    def ending(self) -> str:
        """Signal or exit status of the child's end; empty if it runs, or if the status is 0."""
        status = self._guard.returncode
        if not status:
            return ""
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def log(self) -> str:
        """Output of the child so far, the last 64 KiB of it."""
        return os.pread(self._log.fileno(), LOG_BYTES, 0).decode(errors="replace")

    def _last_words(self) -> str:
        last = next((line for line in reversed(self.log().splitlines()) if line.strip()), "")
        return last.strip()[:200]

    def kill(self) -> None:
        """Ends the child and everything that it has started, at once."""
        assert self._guard.stdin is not None
        PEAKS.look(self._guard.pid)
        self._channel.shut()
        self._guard.stdin.close()
        if not self._ended(_END_S):
            self._guard.kill()
            self._guard.wait()
        PEAKS.end(self._guard.pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Lets the child end by itself, and kills it if it does not."""
        PEAKS.look(self._guard.pid)
        self._channel.shut()
        self._ended(_END_S)
        self.kill()
        self._channel.close()
        self._log.close()

    def _ended(self, timeout: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout)
        return self._guard.returncode is not None

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _start(
    arguments: tuple[object, ...], variables: Mapping[str, str], passed: tuple[int, int]
) -> subprocess.Popen[bytes]:
    try:
        with as_given():
            return subprocess.Popen(
                # Without -P, a file called numpy.py beside a model from anybody would be imported.
                [sys.executable, "-P", "-m", "dlbricks_core.worker.child", *map(str, arguments)],
                env={**os.environ, **variables},
                pass_fds=passed,
                # The pipe closes when this process ends; the guard waits for that.
                stdin=subprocess.PIPE,
                stdout=passed[1],
                stderr=passed[1],
                # Ctrl-C goes to the parent only, which decides what to finish first.
                start_new_session=True,
            )
    except OSError as error:
        raise WorkerError(f"a worker process cannot be started: {error.strerror}") from error


def _new_folder() -> Path:
    """Path for a worker's temporary files; the guard makes the folder."""
    place = "/tmp"
    with suppress(FileNotFoundError):  # no writable folder; a process that needs one reports it
        place = tempfile.gettempdir()
    return Path(place, f"dlbricks-{secrets.token_hex(8)}").absolute()

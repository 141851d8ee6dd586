"""The line in which samples wait for instances, and from which each instance takes by itself.

The line is a named pipe that holds the numbers of the samples in the order of their arrival. The
kernel gives each number to one reader. An instance that is free takes the next number, waits for
the sample's arrival, and serves it. So samples are served in the order in which they arrive, each
by the instance that is free first, and no process but the instances has anything to do.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, sleep

import numpy as np
import numpy.typing as npt

from dlbricks_core.errors import BackendError

Nanoseconds = npt.NDArray[np.int64]

_NUMBER_BYTES = 8
_END = -1
"""What stands in the line, once for each instance, after the last sample."""

_PIPE_BYTES = 1 << 20
"""Bytes of a pipe that any user may ask the kernel for (pipe(7))."""

_AWAKE_NS = 200_000
"""Nanoseconds before an arrival from which an instance waits awake: a sleep may last longer than it
should, by some 60 µs for the kernel's timer and more for a core that has fallen asleep."""

_PIPE, _MARKS = "line", "marks"
"""Files in the folder of a line."""

_OPEN, _DONE, _LATE = 0, 1, 2
"""What is marked of a sample, in a byte each."""

_STOPPED = -1
"""Place of the mark that tells all instances to stop."""


@dataclass(frozen=True, eq=False)
class Rules:
    """When samples of a line arrive, and when the line ends.

    Attributes:
        seconds: Seconds after the begin after which no sample is begun; ``None`` for no such time.
        arrivals_ns: Arrival of each sample in nanoseconds after the begin: shape (k,); ``None``
            where all are there, or each query follows the one before.
        samples: Number of samples of a query that waits until the query before is done; 0 where
            queries do not wait for each other.
        bound_ns: Latency in nanoseconds above which a sample that arrives is late.
        most_late: Number of late samples with which instances go on; with more they stop.
    """

    seconds: float | None = None
    arrivals_ns: Nanoseconds | None = None
    samples: int = 0
    bound_ns: int = 0
    most_late: int = 0


@dataclass(frozen=True, eq=False)
class Line:
    """A line, as instances are told of it.

    Attributes:
        folder: Folder of the pipe and of the marks.
        begin_ns: Time at which all instances begin, on the clock ``time.perf_counter_ns``.
        rules: When its samples arrive, and when it ends.
    """

    folder: str
    begin_ns: int
    rules: Rules

    def arrival_ns(self, number: int) -> int | None:
        """Arrival of a sample on the same clock; ``None`` if it depends on other samples."""
        arrivals = self.rules.arrivals_ns
        return None if arrivals is None else self.begin_ns + int(arrivals[number])

    @property
    def end_ns(self) -> float:
        """Time after which no sample is begun, on the same clock."""
        seconds = self.rules.seconds
        return math.inf if seconds is None else self.begin_ns + seconds * 1e9


@dataclass(frozen=True, eq=False)
class Served:
    """What one instance has served, in order; arrays of shape (k,), times in nanoseconds.

    Attributes:
        numbers: Number of each sample.
        ready_ns: Time at which the instance was done with the sample before.
        begin_ns: Time at which its inference began.
        end_ns: Time at which its results were there.
    """

    numbers: Nanoseconds
    ready_ns: Nanoseconds
    begin_ns: Nanoseconds
    end_ns: Nanoseconds


@contextmanager
def opened_line(instances: int, samples: int | None = None) -> Iterator[tuple[str, int]]:
    """A line that holds samples until the context ends.

    Args:
        instances: Number of instances that will take from it.
        samples: Number of samples, as far as there is room; ``None`` for as many as there is.

    Returns:
        Folder of the line, and the number of samples in it.
    """
    with TemporaryDirectory(prefix="dlbricks-line-") as folder:
        path = Path(folder, _PIPE)
        os.mkfifo(path, 0o600)
        # Open for both, so that this end neither waits for readers nor lets the line vanish.
        pipe = os.open(path, os.O_RDWR)
        try:
            with suppress(OSError):  # a container may allow less
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) // _NUMBER_BYTES - instances
            held = room if samples is None else min(samples, room)
            numbers = np.concatenate([np.arange(held), np.full(instances, _END)])
            os.write(pipe, numbers.astype(np.int64).tobytes())
            Path(folder, _MARKS).write_bytes(bytes(held + 1))
            yield folder, held
        finally:
            os.close(pipe)


def serve(line: Line, infer: Callable[[], int], clear: Callable[[], None]) -> Served:
    """Serves samples of a line until it ends; runs in an instance.

    Args:
        line: The line.
        infer: Runs one inference and returns the time at which its results were there.
        clear: Called after each inference.

    Raises:
        BackendError: If the line has begun already.
    """
    taken: list[tuple[int, int, int, int]] = []
    with _opened(line) as (pipe, marks):
        if perf_counter_ns() > line.begin_ns:
            raise BackendError("the load began before all instances were ready")
        wait_until(line.begin_ns)
        ready = line.begin_ns
        while (number := _next(pipe)) != _END:
            if not _arrived(number, line, marks):
                marks[_STOPPED] = _DONE
                break
            begin = perf_counter_ns()
            end = infer()
            taken.append((number, ready, begin, end))
            marks[number] = _mark(number, end, line)
            if marks[number] == _LATE and marks[:].count(_LATE) > line.rules.most_late:
                marks[_STOPPED] = _DONE
                break
            clear()
            ready = end
    return Served(*np.array(taken, dtype=np.int64).reshape(-1, 4).T)


@contextmanager
def _opened(line: Line) -> Iterator[tuple[int, mmap.mmap]]:
    pipe = os.open(Path(line.folder, _PIPE), os.O_RDONLY)
    try:
        with (
            Path(line.folder, _MARKS).open("r+b") as file,
            mmap.mmap(file.fileno(), 0) as marks,
        ):
            yield pipe, marks
    finally:
        os.close(pipe)


def _next(pipe: int) -> int:
    return int.from_bytes(os.read(pipe, _NUMBER_BYTES), "little", signed=True)


def _arrived(number: int, line: Line, marks: mmap.mmap) -> bool:
    """Waits until a sample is there. Returns whether it is to be served: not after the end."""
    arrival = line.arrival_ns(number)
    samples = line.rules.samples or 1
    first = number // samples * samples
    if arrival is not None:
        wait_until(arrival)
    elif line.rules.samples:
        # The line goes on as soon as the last of the query before is done: nothing to sleep for.
        while _OPEN in marks[max(first - samples, 0) : first]:
            if marks[_STOPPED]:
                return False
    # A query that is begun is done with.
    return not marks[_STOPPED] and (number > first or perf_counter_ns() < line.end_ns)


def _mark(number: int, end: int, line: Line) -> int:
    arrival = line.arrival_ns(number)
    return _DONE if arrival is None or end - arrival <= line.rules.bound_ns else _LATE


def wait_until(moment_ns: int) -> None:
    """Waits until a time on the clock ``time.perf_counter_ns``: asleep at first, then awake."""
    left = moment_ns - perf_counter_ns() - _AWAKE_NS
    if left > 0:
        sleep(left / 1e9)
    while perf_counter_ns() < moment_ns:
        pass

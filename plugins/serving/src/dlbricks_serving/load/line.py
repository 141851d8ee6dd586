"""The line: a queue of samples from which free instances take the next sample.

The line is a named pipe that holds the numbers of the samples in the order of their arrival. The
kernel gives each number to one reader. A free instance reads the next number, waits for the arrival
of that sample, and serves it. Samples are therefore served in the order of their arrival, each by
the first free instance, and only the instances do any work.
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
"""Number that ends the line; the line has one such number for each instance, after the last
sample."""

_PIPE_BYTES = 1 << 20
"""Bytes of a pipe that the kernel grants any user (pipe(7))."""

_AWAKE_NS = 200_000
"""Nanoseconds before an arrival during which an instance waits without sleeping. A sleep may
overrun by some 60 µs because of the kernel's timer, and by more if the core enters a deep idle
state.
"""

_PIPE, _MARKS = "line", "marks"
"""Names of the files in the folder of a line."""

_OPEN, _DONE, _LATE = 0, 1, 2
"""States of a sample, marked in one byte each."""

_STOPPED = -1
"""Position of the mark that stops all instances."""


@dataclass(frozen=True, eq=False)
class Rules:
    """Arrival of the samples in a line, and end of the line."""

    #: Seconds after the start after which no sample begins; ``None`` for no limit.
    seconds: float | None = None
    #: Arrival of each sample in nanoseconds after the start: shape (k,); ``None`` where all samples
    #: are available at once, or where each query follows the previous one.
    arrivals_ns: Nanoseconds | None = None
    #: Number of samples in a query that waits for the previous query; 0 where queries do not wait
    #: for each other.
    samples: int = 0
    bound_ns: int = 0  #: Latency in nanoseconds above which a sample is late.
    most_late: int = 0  #: Maximum number of late samples; with more, instances stop.


@dataclass(frozen=True, eq=False)
class ServiceLine:
    """Description of a line for instances."""

    folder: str  #: Folder of the pipe and of the marks.
    begin_ns: int  #: Common start time of all instances, on the clock ``time.perf_counter_ns``.
    rules: Rules  #: Arrival of its samples, and its end.

    def arrival_ns(self, number: int) -> int | None:
        """Arrival time of a sample on the clock of the line; ``None`` if it depends on others."""
        arrivals = self.rules.arrivals_ns
        return None if arrivals is None else self.begin_ns + int(arrivals[number])

    @property
    def end_ns(self) -> float:
        """Time after which no sample begins, on the clock of the line."""
        seconds = self.rules.seconds
        return math.inf if seconds is None else self.begin_ns + seconds * 1e9


@dataclass(frozen=True, eq=False)
class ServedSamples:
    """Samples that one instance served, in order; arrays of shape (k,), times in nanoseconds."""

    numbers: Nanoseconds  #: Number of each sample.
    ready_ns: Nanoseconds  #: Time at which the instance had completed the previous sample.
    begin_ns: Nanoseconds  #: Time at which the inference began.
    end_ns: Nanoseconds  #: Time at which the results were available.


@contextmanager
def opened_line(instances: int, samples: int | None = None) -> Iterator[tuple[str, int]]:
    """Opens a line of samples for as long as the context lasts.

    Args:
        instances: Number of instances that will read from the line.
        samples: Number of samples, as far as the pipe has room; ``None`` to fill the pipe.

    Returns:
        Folder of the line, and the number of samples in the line.
    """
    with TemporaryDirectory(prefix="dlbricks-line-") as folder:
        path = Path(folder, _PIPE)
        os.mkfifo(path, 0o600)
        # Opened for reading and writing, so that opening does not wait for readers and the line
        # persists.
        pipe = os.open(path, os.O_RDWR)
        try:
            with suppress(OSError):  # a container may grant fewer
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) // _NUMBER_BYTES - instances
            held = room if samples is None else min(samples, room)
            numbers = np.concatenate([np.arange(held), np.full(instances, _END)])
            os.write(pipe, numbers.astype(np.int64).tobytes())
            Path(folder, _MARKS).write_bytes(bytes(held + 1))
            yield folder, held
        finally:
            os.close(pipe)


def serve(line: ServiceLine, infer: Callable[[], int], clear: Callable[[], None]) -> ServedSamples:
    """Serves samples from a line until it ends. Runs inside an instance.

    Args:
        line: The line.
        infer: Function that runs one inference and returns the time at which its results were
            available.
        clear: Function that is called after each inference.

    Raises:
        BackendError: If the start of the line has passed.
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
    return ServedSamples(*np.array(taken, dtype=np.int64).reshape(-1, 4).T)


@contextmanager
def _opened(line: ServiceLine) -> Iterator[tuple[int, mmap.mmap]]:
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


def _arrived(number: int, line: ServiceLine, marks: mmap.mmap) -> bool:
    """Waits for the arrival of a sample. Returns False if the line ends before it."""
    arrival = line.arrival_ns(number)
    samples = line.rules.samples or 1
    first = number // samples * samples
    if arrival is not None:
        wait_until(arrival)
    elif line.rules.samples:
        # The next query begins as soon as the last sample of the previous one is done: no time to
        # sleep.
        while _OPEN in marks[max(first - samples, 0) : first]:
            if marks[_STOPPED]:
                return False
    # A query that has begun is completed.
    return not marks[_STOPPED] and (number > first or perf_counter_ns() < line.end_ns)


def _mark(number: int, end: int, line: ServiceLine) -> int:
    arrival = line.arrival_ns(number)
    return _DONE if arrival is None or end - arrival <= line.rules.bound_ns else _LATE


def wait_until(moment_ns: int) -> None:
    """Waits until a time on the clock ``time.perf_counter_ns``: sleeps first, then spins."""
    left = moment_ns - perf_counter_ns() - _AWAKE_NS
    if left > 0:
        sleep(left / 1e9)
    while perf_counter_ns() < moment_ns:
        pass

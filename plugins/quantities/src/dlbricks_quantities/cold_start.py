"""Cold start: the time from a model file to the first result in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dlbricks_core.backends import CpuTimer, Saved
from dlbricks_core.bricks import CutModel
from dlbricks_core.errors import BackendError
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.metric import Metric, Values, added_up
from dlbricks_core.values import materialize
from dlbricks_core.worker.memory import give_back

_RUNS = 8
"""Runs after the first, until the latency of a network settles."""

_SAMPLE_BYTES = 2**26
"""Bytes of the file that measures the disk. The file of a brick is too small for this, because
read-ahead has no effect on it.
"""

_BLOCK_BYTES = 2**20
"""Bytes of each read."""

_FIRST_RUN = Quantity("first-run", "ms", Composition.SUM, "time of the first run")
_SECOND_COPY = Quantity(
    "second-copy-run", "ms", Composition.SUM, "first run of a network that is loaded once more"
)


class ColdStart(Metric):
    """Cold-start time: from a file to the first result, in a new process.

    The metric saves a network in the usual files of its framework, opens them, and runs the
    network. A process starts, imports its framework and warms up shared code only once; the first
    network of a process measures that. All other parts add up over the bricks. The bricks run one
    after the other in one process, so each brick finds the state that earlier layers leave in a
    model: loaded libraries and generated kernels.

    A model is a single file. The read time of a brick is therefore its share, by bytes, of the time
    to read a large file.
    """

    quantity = Quantity("cold-start", "ms", Composition.SUM, "time from a file to the first result")
    #: Parts that add up to the cold-start time, and then parts for information only.
    parts = (
        Quantity("starting", "ms", Composition.ONCE, "time to start and import the framework"),
        Quantity("reading", "ms", Composition.SUM, "time to read the files from the disk"),
        Quantity("parsing", "ms", Composition.SUM, "time to parse files that were read"),
        Quantity("preparing", "ms", Composition.SUM, "time to optimize and to pack weights"),
        _FIRST_RUN,
        _SECOND_COPY,
        Quantity("reading-again", "ms", Composition.SUM, "time to read files that were read"),
        Quantity("settling", "ms", Composition.SUM, "excess of first runs over later runs"),
    )
    version = 2
    runs = 5
    in_sequence = True

    def __init__(self) -> None:
        self._process: _Process | None = None

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """Milliseconds to the first result, and the milliseconds of its parts.

        Each value holds for a process of its own: it includes the shared costs that the first
        network of this process paid.
        """
        network = materialize(model, seed)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            saved = timer.save(network, folder)
            del network
            fed = saved.feed()
            files = [path for path in folder.rglob("*") if path.is_file()]
            nbytes = sum(path.stat().st_size for path in files)
            read = self._process.read(nbytes) if self._process else _read_twice(files)
            # In a model, a brick computes in memory that earlier layers have touched.
            touched = model.live_bytes if self._process else 0
            opened, copy = (_open(timer, saved, fed, touched) for _ in range(2))
        if self._process:
            opened = opened.later_than(self._process.once)
        else:
            self._process = _Process(_start_ms(timer.importing), read, opened.beyond(copy))
        # Parsing read the files from the page cache; that reading is a separate part.
        parsing = max(opened.parsing - read.again, 0.0)
        counted = self._process.start, read.first, parsing, opened.preparing, opened.first_run
        return sum(counted), *counted, copy.first_run, read.again, opened.settling

    def total(self, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """The sum of the parts of the total; the start is the same for every model."""
        parts = values[1:]
        counted = self.parts[: self.parts.index(_FIRST_RUN) + 1]
        return sum((self.part_total(each, cut, parts) for each in counted), np.zeros(1))

    def part_total(self, part: Quantity, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """Value of a part of a model, by the part's composition; first runs are an exception.

        A framework generates code for a layer once, and all later equal layers reuse it. A repeated
        brick therefore adds the first run of a second copy.
        """
        if part != _FIRST_RUN:
            return super().part_total(part, cut, values)
        first, copy = (values[self.parts.index(each)] for each in (_FIRST_RUN, _SECOND_COPY))
        generating = (first[signature] - copy[signature] for signature in first)
        return added_up(cut, copy) + sum(generating, np.zeros(1))


class _Read(NamedTuple):
    """Milliseconds to read files from the disk, and to read them again from the page cache."""

    first: float
    again: float


class _Opened(NamedTuple):
    """Milliseconds to open and to run a network that is saved in files.

    Attributes:
        settling: Excess of the first runs over later ones.
    """

    parsing: float
    preparing: float
    first_run: float
    settling: float

    def beyond(self, copy: _Opened) -> _Opened:
        """Excess over a second copy of the same network."""
        return _Opened(*(max(own - other, 0.0) for own, other in zip(self, copy, strict=True)))

    def later_than(self, once: _Opened) -> _Opened:
        """Times of the network if it is the first of its process, which pays one-time costs too."""
        return _Opened(*(own + more for own, more in zip(self, once, strict=True)))


class _Process:
    """One-time costs of a process, in milliseconds.

    Attributes:
        start: Time to start and to import the framework.

    once: Costs that only the first network of the process has.
    """

    def __init__(self, start: float, file: _Read, once: _Opened) -> None:
        self.start = start
        self.once = once
        self._file = file
        with tempfile.NamedTemporaryFile() as sample:
            sample.write(np.random.default_rng(0).bytes(_SAMPLE_BYTES))
            sample.flush()
            self._sample = _read_twice([Path(sample.name)])

    def read(self, nbytes: int) -> _Read:
        """Time to read a number of bytes, from files that are opened once for all bricks."""
        share = nbytes / _SAMPLE_BYTES
        return _Read(*(f + share * s for f, s in zip(self._file, self._sample, strict=True)))


def _start_ms(importing: str) -> float:
    """Milliseconds from the start of a Python process to the end of the framework's import."""
    # The clock is the same in all processes.
    statement = f"{importing}; import time; print(time.perf_counter())"
    begin = perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-c", statement], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise BackendError(f"a new process does not import the framework: {reason}")
    return (float(done.stdout.split()[-1]) - begin) * 1e3


def _open(timer: CpuTimer[Any], saved: Saved[Any], fed: Any, touched: int) -> _Opened:
    """Opens a network, runs it until its latency settles, and unloads it.

    The memory for its weights is new to the process, as in a cold start of a model: the first touch
    of a page takes longer than reading the weights.

    Args:
        timer: The backend's timer.
        saved: The network, saved in files.
        fed: Inputs of the network.
        touched: Bytes of free memory that the process has touched before the first run.
    """
    give_back()
    begin = perf_counter()
    parsed = saved.parse()
    parsing = _since(begin)
    begin = perf_counter()
    loaded = saved.prepare(parsed, fed)
    preparing = _since(begin)
    del parsed
    bytearray(b"\1") * touched  # freed at once: the framework's allocator reuses the memory
    try:
        runs = [_run(timer, loaded) for _ in range(1 + _RUNS)]
    finally:
        timer.unload(loaded)
    return _Opened(parsing, preparing, runs[0], sum(runs) - len(runs) * min(runs[1:]))


def _run(timer: CpuTimer[Any], loaded: Any) -> float:
    begin = perf_counter()
    timer.run(loaded)
    timer.synchronize(loaded)
    taken = _since(begin)
    timer.release(loaded)
    return taken


def _read_twice(paths: Sequence[Path]) -> _Read:
    """Drops files from the page cache, reads them, and reads them once more."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return _Read(_read(paths), _read(paths))


def _read(paths: Sequence[Path]) -> float:
    block = bytearray(_BLOCK_BYTES)
    begin = perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(block):
                pass
    return _since(begin)


def _since(begin: float) -> float:
    return (perf_counter() - begin) * 1e3

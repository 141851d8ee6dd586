"""Cold start: what it takes from a file to the first result, in a new process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from dlbricks_core.backends import CpuTimer
from dlbricks_core.bricks import CutModel
from dlbricks_core.facts import Composition, Quantity
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import Array, CanonicalModel
from dlbricks_core.measure.probe import Probe, Values, added_up
from dlbricks_core.values import materialize

_RUNS = 8
"""Runs after the first, in which a network settles."""


class ColdStart(Probe):
    """Time from a file of weights to the first result, in a process of its own.

    A process starts its framework once; all else adds up over the bricks. What is read comes from
    the disk, as after a restart of the machine; how long it takes from the page cache is a part
    that does not count, and neither does what the first runs take beyond later ones.
    """

    quantity = Quantity("cold-start", "ms", Composition.SUM, "time from a file to the first result")
    parts = (
        Quantity("starting", "ms", Composition.ONCE, "time to import the framework"),
        Quantity("reading", "ms", Composition.SUM, "time to read weights from the disk"),
        Quantity("first-load", "ms", Composition.SUM, "time to load a network for the first time"),
        Quantity("first-run", "ms", Composition.SUM, "time of the first run"),
        Quantity("reading-again", "ms", Composition.SUM, "time to read weights that were read"),
        Quantity("settling", "ms", Composition.SUM, "time of first runs beyond that of later ones"),
    )
    runs = 3
    isolated = True

    def observe(self, timer: CpuTimer[Any], model: CanonicalModel, seed: int) -> Sequence[float]:
        """Milliseconds to the first result, and its parts."""
        network = materialize(model, seed)
        reading, again = _read_twice(list(network.weights.values()))
        begin = perf_counter()
        loaded = timer.load(network)
        loading = _since(begin)
        runs = [_run(timer, loaded) for _ in range(1 + _RUNS)]
        timer.unload(loaded)
        first, later = runs[0], runs[1:]
        settling = sum(runs) - len(runs) * min(later)
        total = timer.start_ms + reading + loading + first
        return total, timer.start_ms, reading, loading, first, again, settling

    def total(self, cut: CutModel, values: Sequence[Values]) -> FloatArray:
        """What reading, loading and running take; the framework is started once."""
        _, _, reading, loading, first, *_ = values
        return sum((added_up(cut, each) for each in (reading, loading, first)), np.zeros(1))


def _run(timer: CpuTimer[Any], loaded: Any) -> float:
    begin = perf_counter()
    timer.run(loaded)
    timer.synchronize(loaded)
    return _since(begin)


def _read_twice(weights: Sequence[Array]) -> tuple[float, float]:
    """Milliseconds to read weights from a file that the page cache does not hold, and once more."""
    with tempfile.TemporaryFile(buffering=0) as file:
        for each in weights:
            file.write(np.ascontiguousarray(each).reshape(-1).view(np.uint8).data)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return _read(file, weights), _read(file, weights)


def _read(file: Any, weights: Sequence[Array]) -> float:
    file.seek(0)
    begin = perf_counter()
    for each in weights:
        file.readinto(bytearray(each.nbytes))
    return _since(begin)


def _since(begin: float) -> float:
    return (perf_counter() - begin) * 1e3

"""The service of one instance: it runs networks repeatedly for a given time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, sleep

import numpy as np

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_serving.pinned import PinnedHost

_SPIN_S = 0.002
"""Seconds before the start during which an instance waits without sleeping: a sleep may overrun."""


@dataclass(frozen=True, eq=False)
class Played:
    """Runs of a sequence of networks, one pass after another."""

    #: Start time of each pass, on the clock ``time.perf_counter`` that all processes of a machine
    #: share: shape (passes,).
    begins_s: FloatArray
    #: Latency of each network in each pass, in milliseconds: shape (passes, networks).
    ms: FloatArray

    @property
    def passes_ms(self) -> FloatArray:
        """Latency of each pass in milliseconds: shape (passes,)."""
        return np.asarray(self.ms.sum(axis=1))


class PlayingHost(PinnedHost):
    """Service inside a worker that also runs sequences of networks repeatedly for a given time."""

    def play(self, keys: Sequence[str], begin_s: float, end_s: float, prepared: bool) -> Played:
        """Runs a sequence of networks repeatedly between two moments.

        A pass that ends too late is left out, because the other instances may have stopped during
        it.

        Args:
            keys: Keys of loaded networks, in order; a key may occur several times.
            begin_s: Start time of the first pass, on the clock ``time.perf_counter``.
            end_s: End time of the last pass, on the same clock.
            prepared: Whether caches are prepared before each run, as for a sample that is taken
                alone. Otherwise nothing else runs between two networks.
        """
        begins, passes = [], []
        _wait_until(begin_s)
        while (now := perf_counter()) < end_s:
            taken = [self._once(key, prepared) for key in keys]
            if perf_counter() <= end_s:
                begins.append(now)
                passes.append(taken)
        return Played(np.array(begins), np.array(passes).reshape(len(passes), len(keys)))

    def _once(self, key: str, prepared: bool) -> float:
        (ms,) = self.sample(key, 1, prepared)
        self.timer.release(self._loaded[key])  # in a model, later layers reuse the memory
        return ms


def _wait_until(moment_s: float) -> None:
    sleep(max(moment_s - perf_counter() - _SPIN_S, 0.0))
    while perf_counter() < moment_s:
        pass

"""Test of a timer's profile: whether its layers add up to a run."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from dlbricks_core.backends import CpuTimer
from dlbricks_core.ir import Network

_ROUNDS = 9
_RUNS = 3
"""Rounds, and the runs of each."""
_OF_ONE_RUN = 1.25
"""Most that the layers of a run may differ from it, as a factor."""

_OF_TWO_RUNS = 2.0
"""Most that the layers of a run may differ from another run, which has no profiler."""


def layers_sum_up_to_a_run(
    timer: CpuTimer[Any], network: Network, plain: Network | None = None
) -> bool:
    """Whether the layers of a profile take as long as a run.

    Compares the sum of the layers with the profiled runs, within 25%, and with runs without the
    profiler, within a factor of two for the profiler's overhead. Other work on the machine makes
    some runs longer. Of a run that is profiled it falls on the layers as well, so that the median
    of the ratios tells. Of different runs, the fastest of each kind are compared. Both kinds take
    turns.

    Args:
        timer: The timer that profiles.
        network: The network to profile.
        plain: The network to run without the profiler; ``None`` for the same one.
    """
    loaded = timer.load(plain or network)
    profiles, runs_ms = [], []
    for _ in range(_ROUNDS):
        profiles.append(timer.profile(network, 1))
        runs_ms += [_run_ms(timer, loaded) for _ in range(_RUNS)]
    timer.unload(loaded)
    same = np.median([each.sum_ms / each.run_ms for each in profiles])
    other = min(each.sum_ms for each in profiles) / min(runs_ms)
    return _within(float(same), _OF_ONE_RUN) and _within(other, _OF_TWO_RUNS)


def _within(ratio: float, factor: float) -> bool:
    return 1 / factor < ratio < factor


def _run_ms(timer: CpuTimer[Any], loaded: Any) -> float:
    begin = perf_counter()
    timer.run(loaded)
    timer.synchronize(loaded)
    return (perf_counter() - begin) * 1e3

"""Test of a timer's profile: whether its layers add up to a run."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from dlbricks_core.backends import CpuTimer
from dlbricks_core.ir import Network

_RUNS = 6
_WARM_UP = 2
_TRIES = 5
_FACTOR = 2.0


def layers_sum_up_to_a_run(
    timer: CpuTimer[Any], network: Network, plain: Network | None = None
) -> bool:
    """Whether the layers of a profile take as long as a run, within a factor of two.

    Compares with a run that was profiled and with one that was not. One of five tries must agree,
    because other work on the machine disturbs some of them.

    Args:
        timer: The timer that profiles.
        network: The network to profile.
        plain: The network to run without the profiler; ``None`` for the same one.
    """
    return any(_agree(timer, network, plain or network) for _ in range(_TRIES))


def _agree(timer: CpuTimer[Any], network: Network, plain: Network) -> bool:
    profile = timer.profile(network, _RUNS)
    runs = profile.run_ms, _latency_ms(timer, plain)
    return all(1 / _FACTOR < profile.sum_ms / run < _FACTOR for run in runs)


def _latency_ms(timer: CpuTimer[Any], network: Network) -> float:
    loaded = timer.load(network)
    latencies = []
    for _ in range(_WARM_UP + _RUNS):
        begin = perf_counter()
        timer.run(loaded)
        timer.synchronize(loaded)
        latencies.append((perf_counter() - begin) * 1e3)
    timer.unload(loaded)
    return float(np.median(latencies[_WARM_UP:]))

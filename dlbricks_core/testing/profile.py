"""Whether a timer's profile can be believed: what its layers add up to."""

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
    """Whether the profile's sum is near a run that was profiled, and one that was not.

    By a factor of two at the most, once of five times: what else the machine does falls on
    some of them.

    Args:
        timer: Whose profile it is.
        network: What to profile.
        plain: What to run without a profile; ``None`` for the same network.
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

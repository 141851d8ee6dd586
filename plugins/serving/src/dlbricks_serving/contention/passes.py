"""Passes: all bricks of a model in its order, run by several instances at the same time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from dlbricks_core.backends.burst import CALLS, start_of_a_line
from dlbricks_core.errors import BackendError
from dlbricks_core.figures.statistics import FloatArray, faster_half
from dlbricks_serving.contention.instance import Instance, play_together

SLICES = 8
"""Number of slices of the measuring time. All instances rest between two slices.
"""

_PASSES = 400
"""Sufficient number of bare passes of all instances: four lie beyond the 99th percentile.
"""

_TIMED = 50
"""Sufficient number of passes in which each brick is timed."""

_SHORTEST_S, _LONGEST_S = 3.0, 12.0
"""Minimum and maximum seconds of either kind of passes, unless a single pass takes longer."""

_KEPT = 512
"""Maximum number of passes that are kept of a slice, evenly chosen. All slices together suffice for
a 99th percentile, while a tiny network passes a million times.
"""

_PREPARED = 2.5
"""Upper bound on the duration of a prepared pass, in bare passes; tiny bricks may exceed it."""

_AT_LEAST = 2.0
"""Number of passes that a slice has time for, so that at least one of them ends in time."""

_STRETCHES = (1, 4, 16)
"""Factors on the duration of a slice, tried until passes end in it: beside other programs, an
instance may be without a processor for as long as a short slice lasts.
"""


@dataclass(frozen=True)
class Slice:
    """Measurements of one slice of the measuring time."""

    #: Latencies of each network in the first instance while the others were busy, in milliseconds,
    #: by its key.
    bricks_ms: Mapping[str, Sequence[float]]
    call_ms: float  #: Cost of a call of the timer in milliseconds.
    passes_ms: Sequence[float]  #: Latencies of bare passes of all instances, in milliseconds.
    spent_s: float  #: Duration of the slice in seconds.


def take_slices(instances: Sequence[Instance], keys: Sequence[str], count: int) -> Iterator[Slice]:
    """Times networks in the first of several instances while the others run the same networks.

    In each slice, the first instance prepares each run as usual, while the others run bare passes.
    Then all instances run bare passes, which show the scatter of a pass.

    Args:
        instances: Instances that compute at the same time.
        keys: Keys of networks that are loaded in each, in the order in which they run.
        count: Number of slices, at most :data:`SLICES`.

    Raises:
        DLBricksError: If an instance fails.
        BackendError: If no pass ended in time.
    """
    pass_s = sum(instances[0].latency_ms(key) for key in keys) / 1e3
    others = len(instances) - 1
    timed = [*keys, *CALLS]
    for _ in range(count):
        begin = perf_counter()
        prepared_s = _seconds(_PREPARED * pass_s, _TIMED)
        bare_s = _seconds(pass_s, _PASSES / len(instances))
        for stretch in _STRETCHES:
            first, *_ = play_together(
                instances,
                [timed, *[keys] * others],
                stretch * prepared_s,
                [True, *[False] * others],
            )
            bare = play_together(instances, [keys] * len(instances), stretch * bare_s)
            passes_ms = _thinned(np.concatenate([each.passes_ms for each in bare])).tolist()
            if len(first.ms) and passes_ms:
                break
        else:
            raise BackendError(f"no pass over the bricks ended within {stretch * bare_s:.2g} s")
        by_key: defaultdict[str, list[float]] = defaultdict(list)
        for key, ms in zip(timed, _thinned(first.ms).T, strict=True):
            by_key[key].extend(ms.tolist())
        calls_ms = [float(faster_half(by_key.pop(key))) for key in CALLS]
        call_ms = _call_ms(calls_ms, [float(faster_half(each)) for each in by_key.values()])
        yield Slice(by_key, call_ms, passes_ms, perf_counter() - begin)


def _call_ms(calls_ms: Sequence[float], bricks_ms: Collection[float]) -> float:
    """Cost of a call of the timer in milliseconds: not more than the cheapest brick takes.

    The networks of :data:`~dlbricks_core.backends.burst.CALLS` occur once in a pass. After many
    other bricks, they find less in the caches than bricks that occur often.

    Args:
        calls_ms: Latencies of the networks that show the cost of a call.
        bricks_ms: Latency of each brick, which is a call and its layers.
    """
    return min(start_of_a_line(calls_ms), *bricks_ms)


def _thinned(passes: FloatArray) -> FloatArray:
    """The passes that are kept, evenly chosen along the first axis."""
    return passes[:: math.ceil(len(passes) / _KEPT)] if len(passes) else passes


def _seconds(pass_s: float, wanted: float) -> float:
    """Seconds of each slice, so that all slices together have the requested number of passes."""
    total_s = min(max(wanted * pass_s, _SHORTEST_S), _LONGEST_S)
    return max(total_s / SLICES, _AT_LEAST * pass_s)

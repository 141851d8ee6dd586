"""Pulses: a fixed piece of work, whose time shows how fast the machine computes at a moment.

Programs of other virtual machines on one host slow a processor down, and no counter of the guest
shows them. The work is done in registers and the first cache, so that it takes no memory from the
networks that are timed (research/2026-11-30-pulses.md).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from statistics import fmean, median
from time import perf_counter

import numpy as np

from dlbricks_core.facts import Note, Pulse
from dlbricks_core.facts.note import warning

_BLOCK = bytes(range(256)) * 64
"""16 KiB: they stay in the first cache."""

_PASSES, _TRIES = 10, 3
"""Passes over the block in a try, and tries, of which the fastest counts: 0.2 ms in all. An
interrupt during one try does not count.
"""

_FOLLOWS = 0.55
"""Share of a pulse's relative difference that latencies of networks have: the part of their time
that neighbours slow down as much.
"""

_ENOUGH = 10
"""Pulses of a session from which their spread is read."""

_CENTRAL, _CENTRAL_WIDTH = (0.1, 0.9), 2.563
"""Quantiles between which pulses of a session count, and their distance in a normal distribution of
standard deviation 1. A few pulses are interrupted, and say nothing about the speed.
"""

_SLOW = 1.25
"""Factor on the fastest session's pulse from which a warning is due."""


def pulse_ms() -> float:
    """Milliseconds of one try of the work."""
    tries = []
    for _ in range(_TRIES):
        begin = perf_counter()
        for _ in range(_PASSES):
            zlib.crc32(_BLOCK)
        tries.append(perf_counter() - begin)
    return min(tries) * 1e3


def pulse_of(pulses_ms: Sequence[float]) -> Pulse | None:
    """Summary of a session's pulses in milliseconds; ``None`` without any."""
    if not pulses_ms:
        return None
    spread = None
    if len(pulses_ms) >= _ENOUGH:
        low, high = np.quantile(np.log(pulses_ms), _CENTRAL)
        spread = float(high - low) / _CENTRAL_WIDTH
    return Pulse(median(pulses_ms), spread)


def between_moments(sessions: Sequence[Pulse]) -> float:
    """Standard deviation of the relative difference of a latency between two moments.

    The result is the larger of the spread from session to session and the spread within sessions:
    a host that changes its speed every few seconds does so between sessions as well.

    Args:
        sessions: Pulses of each session on the machine.
    """
    within = [each.spread for each in sessions if each.spread is not None]
    spreads = [0.0, *([math.sqrt(fmean(x * x for x in within))] if within else [])]
    if len(sessions) > 1:
        spreads.append(float(np.std(np.log([each.ms for each in sessions]), ddof=1)))
    # Two moments differ from each other by twice the variance by which each differs from the mean.
    return _FOLLOWS * math.sqrt(2) * max(spreads)


def slow_now(now: Pulse, earlier: Sequence[Pulse]) -> tuple[Note, ...]:
    """A warning if the machine computes far below the speed that it had in earlier sessions."""
    fastest_ms = min((each.ms for each in earlier), default=math.inf)
    if now.ms < _SLOW * fastest_ms:
        return ()
    return (warning("machine-slower-now", share=fastest_ms / now.ms),)

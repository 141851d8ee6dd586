"""Pulses: a fixed piece of work, whose time shows how fast the machine computes at a moment.

Programs of other virtual machines on one host slow a processor down, and no counter of the guest
shows them. The work is done in registers and the first cache, so that it takes no memory from the
networks that are timed (research/2026-11-30-pulses.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from dlbricks_core.facts import Note
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


def between_moments(pulses_ms: Sequence[float]) -> float:
    """Standard deviation of the relative difference of a latency between two sessions.

    Args:
        pulses_ms: Pulse of each session on the machine, in milliseconds.
    """
    if len(pulses_ms) < 2:
        return 0.0
    # Two sessions differ from each other by twice the variance by which each differs from the mean.
    return float(_FOLLOWS * np.sqrt(2 * np.var(np.log(pulses_ms), ddof=1)))


def slow_now(now_ms: float, pulses_ms: Sequence[float]) -> tuple[Note, ...]:
    """A warning if the machine computes far below the speed that it had at other times.

    Args:
        now_ms: Pulse of this session, in milliseconds.
        pulses_ms: Pulses of earlier sessions, in milliseconds.
    """
    if not pulses_ms or now_ms < _SLOW * min(pulses_ms):
        return ()
    return (warning("machine-slower-now", share=min(pulses_ms) / now_ms),)

"""Memory bandwidth: the maximum number of bytes per second that threads read from memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

_BYTES = 2**29
"""Bytes read in a round, far more than any cache holds."""

_ROUNDS = 5
"""Default number of rounds, of which the fastest counts."""


def read_bandwidth(threads: int, nbytes: int = _BYTES, rounds: int = _ROUNDS) -> float:
    """Memory bandwidth of a number of threads in bytes per second: the best of several rounds.

    Each thread searches its own part of an array for the largest number, which processors do faster
    than memory delivers. The best round counts, because other programs slow down the others.

    Args:
        threads: Number of threads.
        nbytes: Bytes that all threads read together in a round.
        rounds: Number of rounds that count, after a first one that does not.
    """
    parts = [np.ones(max(nbytes // 4 // threads, 1), np.float32) for _ in range(threads)]
    seconds = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(1 + rounds):
            begin = perf_counter()
            list(pool.map(np.max, parts))
            seconds.append(perf_counter() - begin)
    return sum(part.nbytes for part in parts) / min(seconds[1:])

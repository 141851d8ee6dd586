"""Bandwidth of memory: bytes a second that threads read from memory at most."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

_BYTES = 2**29
"""Bytes that are read in a round; no cache keeps a part of them that counts."""

_ROUNDS = 5


def read_bandwidth(threads: int, nbytes: int = _BYTES, rounds: int = _ROUNDS) -> float:
    """Bytes a second that so many threads read together, in the best of some rounds.

    Each thread looks for the largest number in a part of its own, which processors do faster than
    memory delivers. The best round counts, because others are what else the machine did meanwhile.

    Args:
        threads: Number of threads.
        nbytes: Bytes that all of them read in a round.
        rounds: Number of rounds, after one that does not count.
    """
    parts = [np.ones(max(nbytes // 4 // threads, 1), np.float32) for _ in range(threads)]
    seconds = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(1 + rounds):
            begin = perf_counter()
            list(pool.map(np.max, parts))
            seconds.append(perf_counter() - begin)
    return sum(part.nbytes for part in parts) / min(seconds[1:])

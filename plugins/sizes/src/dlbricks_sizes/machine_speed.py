"""Measured speed of this machine's memory, of its page faults and of its Python interpreter."""

from __future__ import annotations

import mmap
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, thread_time

import numpy as np

# Memory bandwidth: the maximum number of bytes per second that threads read from memory.

_BYTES = 2**29
"""Bytes read in a round, far more than any cache holds."""

_READ_ROUNDS = 5
"""Default number of rounds, of which the fastest counts."""


def read_bandwidth(threads: int, nbytes: int = _BYTES, rounds: int = _READ_ROUNDS) -> float:
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


# Page faults: the time that the system takes to give a process a new page.

_PAGES, _TAKEN = 1024, 5
"""Pages of a block, and blocks: ten milliseconds in all."""


def fault_s() -> float:
    """Seconds of a page fault: processor time of the first write to a page; the best of several."""
    found, own = [], mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    for _ in range(_TAKEN):
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, own) as block:
            block.madvise(mmap.MADV_NOHUGEPAGE)
            pages = np.frombuffer(block, np.uint8)[:: mmap.PAGESIZE]
            begin = thread_time()
            pages[:] = 1
            found.append(thread_time() - begin)
            del pages
    return min(found) / _PAGES


# Speed of the Python interpreter on this machine.

_CALLS, _ROUNDS = 5000, 5
"""Calls of a round, and rounds: some milliseconds in all."""


class _Callee:
    """An object with a method that does next to nothing, such as modules call all the time."""

    def __init__(self) -> None:
        self.training = False

    def method(self, value: object, **more: object) -> object:
        """The value."""
        return value if not self.training else more


def call_s() -> float:
    """Seconds of a call of a method in Python: the best of several rounds.

    The time of Python between operators grows from processor to processor by the same factor as
    this call.
    """
    callee = _Callee()
    seconds = []
    for _ in range(_ROUNDS):
        begin = thread_time()
        for _ in range(_CALLS):
            callee.method(callee, name=callee)
        seconds.append(thread_time() - begin)
    return min(seconds) / _CALLS

"""Peak memory of a run: of this process and of all workers that lived at the same time.

The kernel keeps the most resident memory that each process ever had (``VmHWM``). It is read once,
when a worker ends, so that nothing is disturbed while something is timed. Peaks of processes that
lived at the same time are added, although they need not have come at the same moment, and shared
libraries count in each of them: the sum is an upper bound.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from time import monotonic


@dataclass
class _Life:
    """A worker's life: when it began and ended, and the most bytes that it had resident."""

    pids: tuple[int, ...]
    begin: float
    end: float = float("inf")
    nbytes: int = 0

    def now(self) -> int:
        """Maximum resident bytes so far; after the end of the processes, the last known value."""
        self.nbytes = max(self.nbytes, sum(map(_peak_of, self.pids)))
        return self.nbytes


class Peaks:
    """Peaks of the workers that this process has started."""

    def __init__(self) -> None:
        self._lives: dict[int, _Life] = {}
        self._ended: list[_Life] = []

    def begin(self, guard: int) -> None:
        """A worker begins, under the number of the process that guards it."""
        self._lives[guard] = _Life((guard,), monotonic())

    def know(self, guard: int, worker: int) -> None:
        """A worker has a process of its own, of this number."""
        self._lives[guard].pids = (guard, worker)

    def look(self, guard: int) -> None:
        """Reads the peak of a worker that is about to end."""
        if guard in self._lives:
            self._lives[guard].now()

    def end(self, guard: int) -> None:
        """A worker has ended. If it ended by itself, the largest value so far is used."""
        life = self._lives.pop(guard, None)
        if life is not None:
            if not life.nbytes:
                life.nbytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            life.end = monotonic()
            self._ended.append(life)

    def since(self, moment: float) -> int:
        """Most bytes that this process and its workers had resident since then, at most.

        Args:
            moment: Time of :func:`time.monotonic`.
        """
        for life in self._lives.values():
            life.now()
        lives = [each for each in (*self._ended, *self._lives.values()) if each.end >= moment]
        # The sum over live processes grows only when a process begins.
        together = (
            sum(other.nbytes for other in lives if other.begin <= each.begin < other.end)
            for each in lives
        )
        return _peak_of("self") + max(together, default=0)


PEAKS = Peaks()
"""Peak of all workers of this process."""


def _peak_of(pid: int | str) -> int:
    """Most resident bytes of a process so far; 0 if it is gone, or without ``/proc``."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return 0
    lines = (line.split() for line in text.splitlines() if line.startswith("VmHWM:"))
    return next((int(number) * 1024 for _, number, *_ in lines), 0)

"""Speed of the Python interpreter on this machine."""

from __future__ import annotations

from time import thread_time

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

    Programs that interpret Python between operators take as many times as long on another
    processor as this call does.
    """
    callee = _Callee()
    seconds = []
    for _ in range(_ROUNDS):
        begin = thread_time()
        for _ in range(_CALLS):
            callee.method(callee, name=callee)
        seconds.append(thread_time() - begin)
    return min(seconds) / _CALLS

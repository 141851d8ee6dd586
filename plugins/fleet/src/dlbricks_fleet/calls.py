"""Calls of a fleet: the only operations that its members may request from each other.

A client calls a host through the scheduler: ``ORDER`` travels from the client to the scheduler and
on to the host, and ``ANSWER`` travels back. Each message is plain data. Dask's own calls that run
functions do not exist in a fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlbricks_core.errors import DLBricksError
from dlbricks_fleet.jobs import CrashedError, HungError, UnwantedError

STATE = "dlbricks-state"
"""Call with which clients query the state of the fleet and report their runs."""

GREET = "dlbricks-greet"
"""Call with which a host finds out whether the scheduler accepts it."""

ORDER, CANCEL, ANSWER = "dlbricks-order", "dlbricks-cancel", "dlbricks-answer"
"""Messages that carry a call to a host, end it, and carry its result back."""

LOST: Mapping[str, Any] = {"lost": True}
"""Answer of the scheduler in place of a host that has left."""

KEEP_SUITE, HAVE_DONE = "keep-suite", "have-done"
"""Purpose for which a host can be called."""

_KINDS: Mapping[str, type[DLBricksError]] = {
    "hung": HungError,
    "crashed": CrashedError,
    "unwanted": UnwantedError,
    "refused": DLBricksError,
}
"""Type of an error, by its name in an answer."""


def plain_error(error: DLBricksError) -> dict[str, str]:
    """An error as plain data."""
    kind = next(name for name, each in _KINDS.items() if isinstance(error, each))
    return {"kind": kind, "message": error.message, "hint": error.hint}


def error_of(data: Mapping[str, Any]) -> DLBricksError:
    """Reverses :func:`plain_error`.

    Raises:
        KeyError: If something is missing, or there is no such kind.
    """
    return _KINDS[data["kind"]](str(data["message"]), hint=str(data["hint"]))

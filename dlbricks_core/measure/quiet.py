"""Waiting for a quiet machine before the first round."""

from __future__ import annotations

from dlbricks_core.machine.load import LoadWatch, wait_for_quiet
from dlbricks_core.machine.lock import alone_by_turns, first_look
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer


def settle(watch: LoadWatch, request: Request, observer: Observer) -> float:
    """Waits once in each turn until other programs use little of the CPUs, unless accepted.

    Args:
        watch: Watch of the machine's load.
        request: How networks are measured.
        observer: Receives the progress.

    Returns:
        Seconds of the wait, which are not part of the budget.
    """
    if request.accepts_busy or not alone_by_turns() or not first_look():
        return 0.0
    return wait_for_quiet(watch, observer.note)

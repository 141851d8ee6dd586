"""Work that a program does in its own language beside the operators of a framework."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interpreted:
    """Python that a program runs for one run of a model, beside its operators.

    Attributes:
        calls: Its time, in calls of a Python method
            (:func:`~dlbricks_core.machine.interpreter.call_s`).
        spread: Standard deviation of the relative error of that number.
        call_work: Time of such a call in nanoseconds, times the clock rate in GHz and the
            instructions per cycle relative to Skylake's. It tells the time on other processors.
    """

    calls: float
    spread: float
    call_work: float

"""Precisions that the dial turns to."""

from __future__ import annotations

FINEST = 0.05
"""Finest precision of the dial. Below that it matters what a framework makes of a segment in its
place, and only bricks of what it executes tell."""

USUAL = 0.1
"""Precision that most users need: enough to choose between models, machines or backends, which
mostly differ by more. A shared machine differs from itself by half as much within minutes, and
to halve it takes about twice as long (docs/results/predicting.md)."""


def dialled(precision: float | None, budget_s: float | None, *, compares: bool) -> float | None:
    """Precision to turn the dial to; ``None`` if every brick of what runs is to be timed.

    Args:
        precision: What the user asks for, if anything.
        budget_s: Seconds that the user gives, if any.
        compares: Whether the user wants to see how good estimates are, not estimates.
    """
    if precision is not None:
        return precision if precision > FINEST else None
    if compares:
        return None
    return USUAL if budget_s is None else FINEST

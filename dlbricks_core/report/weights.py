"""Weight of each brick in the models' latency."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dlbricks_core import figures

if TYPE_CHECKING:
    from dlbricks_core.workflows import BrickResult


def weight(each: BrickResult) -> float:
    """Milliseconds that a brick adds to all models, without the call of the timer."""
    return each.occurrences * figures.Cost.brick(each.latency).ms if each.latency else 0.0


def share(some: Iterable[BrickResult], every: Iterable[BrickResult]) -> float | None:
    """Share of some bricks in the sum over all of them; ``None`` where the sum is 0."""
    whole = sum(map(weight, every))
    return sum(map(weight, some)) / whole if whole else None

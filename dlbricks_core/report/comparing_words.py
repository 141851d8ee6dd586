"""How a quantity is compared in words: a time is fast and long, anything else is little or much."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_core.facts import Quantity


@dataclass(frozen=True)
class ComparingWords:
    """Words for what is compared; less is better.

    Attributes:
        least: Who takes least, after "is": ``fastest``.
        times: What follows a ratio: ``as long``.
    """

    least: str
    times: str


_TIME = ComparingWords("fastest", "as long")

_AMOUNT = ComparingWords("least", "as much")


def words_for(quantity: Quantity) -> ComparingWords:
    """Words for values of a quantity."""
    return _TIME if quantity.is_time else _AMOUNT

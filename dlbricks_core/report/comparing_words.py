"""Words for comparing a quantity: a time is fast and long, any other quantity little and much."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_core.facts import Quantity


@dataclass(frozen=True)
class ComparingWords:
    """Words for comparing values of which less is better.

    Attributes:
        least: Word for the least value: ``fastest``.
        times: Words after a ratio: ``as long``.
    """

    least: str
    times: str


_TIME = ComparingWords("fastest", "as long")

_AMOUNT = ComparingWords("least", "as much")


def words_for(quantity: Quantity) -> ComparingWords:
    """Words for values of a quantity."""
    return _TIME if quantity.is_time else _AMOUNT

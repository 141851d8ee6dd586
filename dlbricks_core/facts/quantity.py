"""Quantities: what can be asked about a brick or a model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Composition(StrEnum):
    """How a model's quantity follows from those of its bricks."""

    SUM = "sum"
    """The bricks' values add up, each as often as the brick occurs."""

    PEAK = "peak"
    """What bricks keep adds up; of what they need only while they run, the largest counts."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """Something that is measured.

    Attributes:
        name: As the user types it, such as ``load-time``.
        unit: Of its values, such as ``ms``.
        composition: How a model's value follows from those of its bricks.
        meaning: One line for people.
    """

    name: str
    unit: str
    composition: Composition
    meaning: str = ""


LATENCY = Quantity("latency", "ms", Composition.SUM, "time of one inference")

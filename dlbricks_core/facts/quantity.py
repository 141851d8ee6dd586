"""Quantities: what can be measured of a brick or a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from dlbricks_core.facts.checks import text


class Composition(StrEnum):
    """How a model's value follows from those of its bricks."""

    SUM = "sum"
    """The bricks' values add up, each as often as the brick occurs."""

    PEAK = "peak"
    """Kept parts of bricks add up; of the parts needed only during a run, the largest counts."""

    ONCE = "once"
    """The value belongs to the process, independently of its networks: it counts once."""

    LOAD = "load"
    """Values are those of a load, such as latencies of its queries. They are not repetitions of
    one value, and are not composed."""


_TIMES = frozenset({"ns", "us", "ms", "s"})
"""Units of time."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """Something that is measured. Name and unit identify it.

    Attributes:
        name: Identifier such as ``load-time``.
        unit: Unit of all its values, such as ``ms``.
        composition: How a model's value follows from those of its bricks.
        meaning: One line for people.
    """

    name: str
    unit: str
    composition: Composition = field(compare=False)
    meaning: str = field(compare=False)

    @property
    def is_time(self) -> bool:
        """Whether it is a time, which is longer while others use the machine."""
        return self.unit in _TIMES

    @property
    def adds_up(self) -> bool:
        """Whether a model's value is the sum of those of its bricks."""
        return self.composition is Composition.SUM

    def to_dict(self) -> dict[str, str]:
        """The quantity as plain data for JSON."""
        return {**asdict(self), "composition": self.composition.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is invalid.
        """
        texts = {name: text(data[name], name) for name in ("name", "unit", "meaning")}
        return cls(**texts, composition=Composition(data["composition"]))


LATENCY = Quantity("latency", "ms", Composition.SUM, "time of one inference")

SCENARIO_LATENCY = Quantity(
    "scenario-latency", "ms", Composition.LOAD, "time from a query's arrival to its last result"
)
SCENARIO_THROUGHPUT = Quantity(
    "scenario-throughput", "1/s", Composition.LOAD, "samples or queries that instances serve"
)


def latency_beside(others: int) -> Quantity:
    """Latency of one inference right after another, while other instances do the same.

    Args:
        others: Number of the others, 0 or more.
    """
    meaning = f"time of one inference right after another{_while(others)}"
    return Quantity(f"latency-beside-{others}", "ms", Composition.SUM, meaning)


def pass_beside(others: int) -> Quantity:
    """Time of one pass over a model's bricks, which shows how much latencies scatter.

    Args:
        others: Number of other instances that do the same, 0 or more.
    """
    meaning = f"time of all bricks of a model, one right after another{_while(others)}"
    return Quantity(f"pass-beside-{others}", "ms", Composition.SUM, meaning)


def _while(others: int) -> str:
    if not others:
        return ""
    return f", while {others} other instance{' does' if others == 1 else 's do'} the same"

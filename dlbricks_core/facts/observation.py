"""Observations: values that were taken together, and measurements, which collect them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from dlbricks_core.facts.checks import (
    LARGEST,
    LARGEST_COUNT,
    SMALLEST,
    TINIEST,
    checked,
    moment,
    number,
    number_if_known,
    text,
)
from dlbricks_core.facts.question import Question

DISTURBED_LOAD = 0.10
"""Share of the CPUs that others use above which samples count as disturbed."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Raw values of one round or of one hot loop.

    Attributes:
        session: Id of the :class:`~dlbricks_core.facts.Session` that took the values.
        round: Number of the round within the session, from 0.
        values: Values in the quantity's unit, in the order in which they were taken.
        overhead: Share of each value that is due to measuring, in the same unit: for latency, the
            time of an empty call of the timer. ``None`` where it was not measured.
        flags: Disturbances of the machine while the values were taken.
        taken_at: Time of measuring, with time zone.
        spent_s: Seconds for taking the values, including the work around the timed runs.
        loading_s: Seconds that it took to load the network, if that came right before.
        load: Share of the CPUs that others used meanwhile, from 0 to 1; ``None`` if unknown.
    """

    session: str
    round: int
    values: tuple[float, ...]
    overhead: float | None = None
    flags: tuple[str, ...] = ()
    taken_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    spent_s: float | None = None
    loading_s: float | None = None
    load: float | None = None

    def __post_init__(self) -> None:
        if not self.values or not all(
            value == 0 or TINIEST <= value <= LARGEST for value in self.values
        ):
            raise ValueError(
                f"values must be finite, and 0 or from {TINIEST} to {LARGEST}: {self.values!s:.60}"
            )
        if self.taken_at.tzinfo is None:
            raise ValueError("taken_at needs a time zone")
        if not 0 <= self.round <= LARGEST_COUNT:
            raise ValueError(f"round is {self.round}")

    def to_dict(self) -> dict[str, Any]:
        """The observation as plain data for JSON."""
        return {
            # Not asdict(), which takes ten times as long: a store has many observations.
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "values": list(self.values),
            "flags": list(self.flags),
            "taken_at": self.taken_at.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is invalid.
        """
        return cls(
            session=text(data["session"], "session"),
            round=checked(data["round"], int, "round"),
            values=tuple(
                number(value, "value", least=SMALLEST) for value in checked(data["values"], list)
            ),
            overhead=number_if_known(data["overhead"], "overhead"),
            flags=tuple(checked(each, str) for each in checked(data["flags"], list)),
            taken_at=moment(data["taken_at"]),
            spent_s=number_if_known(data.get("spent_s"), "spent_s"),
            loading_s=number_if_known(data.get("loading_s"), "loading_s"),
            load=number_if_known(data.get("load"), "load", most=1.0),
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """All observations of one question.

    Attributes:
        question: Question that the observations answer.
        layers: Operator names of the network, for people.
        observations: Observations in the order in which they were added; none if the network
            failed at once.
        failure: Why measuring failed; ``None`` if it did not. Observations from before stay.
        unsupported: Whether it failed because the backend does not support a layer.
    """

    question: Question
    layers: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    failure: str | None = None
    unsupported: bool = False

    @property
    def values(self) -> tuple[float, ...]:
        """All values, in the order in which they were taken."""
        return tuple(value for each in self.observations for value in each.values)

    @property
    def overheads(self) -> tuple[float, ...]:
        """Overheads of the observations, where they were measured."""
        return tuple(each.overhead for each in self.observations if each.overhead is not None)

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of all observations, each once."""
        return tuple(dict.fromkeys(text for each in self.observations for text in each.flags))


@dataclass(frozen=True, slots=True)
class Sampled:
    """All values of one question, reduced to the fields for statistics over many questions.

    Attributes:
        question: Question that the values answer.
        values: Values of each observation, in the quantity's unit.
        overheads: Overhead of each observation, as in :class:`Observation`.
        disturbed: Whether the machine was disturbed during each observation.
        sessions: Ids of the sessions that took the values.
        begin: Time of the first observation, as ISO 8601.
        end: Time of the last observation.
    """

    question: Question
    values: tuple[tuple[float, ...], ...]
    overheads: tuple[float | None, ...]
    disturbed: tuple[bool, ...]
    sessions: tuple[str, ...]
    begin: str
    end: str

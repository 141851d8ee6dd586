"""What a measurement is: the data that the store keeps and the rooms above share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeVar

KindT = TypeVar("KindT")

SHORTEST, LONGEST = 1e-9, 1e15
"""Limits of latencies in milliseconds; what was stored and lies outside is damage."""

Kind = Literal["brick", "model", "native"]
"""A brick, a whole model as the backend lowers it, or as its own framework runs it."""


def canonical_json(options: Mapping[str, Any]) -> str:
    """The one text that equal options have, whatever their order.

    >>> canonical_json({"b": "2", "a": "1"})
    '{"a":"1","b":"2"}'
    """
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True, order=True)
class MeasurementKey:
    """The identity of a measurement: only what agrees in all of it may be mixed.

    Attributes:
        signature: Of the brick, or of the whole model.
        kind: A brick and a whole model are timed side by side, even where a model is
            so short that it is its only brick.
        backend: Name of the backend.
        backend_version: Version of its framework.
        settings: The backend's options as :func:`canonical_json`.
        system: Fingerprint of the system.
        threads: Number of threads that computed one operator.
        protocol: Canonical text of how it was timed, such as
            ``interleaved:rounds=30,sweep``.
    """

    signature: str
    kind: Kind
    backend: str
    backend_version: str
    settings: str
    system: str
    threads: int
    protocol: str


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Raw latencies that were taken together: one round, or one hot loop.

    Attributes:
        session: Identifies the run of DLBricks that took them.
        round: Counts within the session.
        samples_ms: Latencies in milliseconds, in the order in which they were taken.
        call_ms: What the timer itself cost a call at that time, if it was measured.
        warnings: What disturbed the machine at that time.
        taken_at: With time zone.
        spent_s: Seconds that taking them took, with everything around the timed runs.
        loading_s: Seconds that loading the network took, if that came right before.
    """

    session: str
    round: int
    samples_ms: tuple[float, ...]
    call_ms: float | None = None
    warnings: tuple[str, ...] = ()
    taken_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    spent_s: float | None = None
    loading_s: float | None = None

    def __post_init__(self) -> None:
        if not self.samples_ms or not all(0 <= ms <= LONGEST for ms in self.samples_ms):
            raise ValueError(f"latencies must be finite and not negative: {self.samples_ms!s:.60}")
        if self.taken_at.tzinfo is None:
            raise ValueError("taken_at needs a time zone")
        if self.round < 0:
            raise ValueError(f"round is {self.round}")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data for JSON."""
        plain = {"samples_ms": list(self.samples_ms), "warnings": list(self.warnings)}
        return {**asdict(self), **plain, "taken_at": self.taken_at.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`."""
        return cls(
            session=checked(data["session"], str, "session"),
            round=checked(data["round"], int, "round"),
            samples_ms=tuple(
                number(ms, "latency", least=SHORTEST) for ms in checked(data["samples_ms"], list)
            ),
            call_ms=_known(data["call_ms"], "call_ms"),
            warnings=tuple(checked(text, str) for text in checked(data["warnings"], list)),
            taken_at=moment(data["taken_at"]),
            spent_s=_known(data.get("spent_s"), "spent_s"),
            loading_s=_known(data.get("loading_s"), "loading_s"),
        )


def checked(value: Any, kind: type[KindT] | tuple[type[KindT], ...], name: str = "value") -> KindT:
    """The value, if it is of that kind.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r:.40}")
    return value


def number(value: Any, name: str, least: float = 0.0, most: float = LONGEST) -> float:
    """The value, if it is a number within these limits.

    Raises:
        TypeError: If it is no number.
        ValueError: If it is another.
    """
    if not least <= checked(value, (int, float), name) <= most:
        raise ValueError(f"{name} is {value!r:.40}")
    return float(value)


def moment(value: Any) -> datetime:
    """The time that a text tells.

    Raises:
        TypeError: If it is no text.
        ValueError: If it tells no time, or one without a time zone.
    """
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return found


def _known(value: Any, name: str) -> float | None:
    return None if value is None else number(value, name)


@dataclass(frozen=True, slots=True)
class Measurement:
    """All that is known about one key.

    Attributes:
        key: Its identity.
        layers: Operator names, for people.
        samples: In the order in which they were added; none if it failed at once.
        failure: Why it could not be measured (further), if so.
    """

    key: MeasurementKey
    layers: tuple[str, ...] = ()
    samples: tuple[SampleSet, ...] = ()
    failure: str | None = None

    @property
    def samples_ms(self) -> tuple[float, ...]:
        """All latencies, in the order in which they were taken."""
        return tuple(ms for taken in self.samples for ms in taken.samples_ms)

    @property
    def calls_ms(self) -> tuple[float, ...]:
        """What the timer itself cost a call, each time that it was measured."""
        return tuple(taken.call_ms for taken in self.samples if taken.call_ms is not None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Every warning once."""
        return tuple(dict.fromkeys(text for taken in self.samples for text in taken.warnings))

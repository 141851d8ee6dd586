"""Sessions: who measured when, and how busy the machine was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from dlbricks_core.facts.checks import moment, number, text


@dataclass(frozen=True, slots=True)
class Session:
    """One run of DLBricks that measured.

    Attributes:
        id: Unique text, which the session's observations name.
        host: Hash that separates machines of one fingerprint; empty if unknown.
            It is neither a network name nor an address.
        system: Fingerprint of the system.
        version: Version of DLBricks.
        started_at: Start of measuring, with time zone.
        load: Share of the processors' time that other programs used during the session, from 0 to
            1; ``None`` if the session did not end, or the system does not report it.
    """

    id: str
    host: str
    system: str
    version: str
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float | None = None

    def __post_init__(self) -> None:
        if self.started_at.tzinfo is None:
            raise ValueError("started_at needs a time zone")
        if self.load is not None and not 0 <= self.load <= 1:
            raise ValueError(f"load is {self.load}")

    def to_dict(self) -> dict[str, Any]:
        """The session as plain data for JSON."""
        return {**asdict(self), "started_at": self.started_at.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is invalid.
        """
        load = data["load"]
        return cls(
            **{name: text(data[name], name) for name in _TEXTS},
            started_at=moment(data["started_at"]),
            load=None if load is None else number(load, "load", most=1.0),
        )


_TEXTS = ("id", "host", "system", "version")

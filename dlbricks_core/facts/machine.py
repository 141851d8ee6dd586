"""Machines of one fingerprint, separated by names that their owners chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from dlbricks_core.facts.checks import moment, text


@dataclass(frozen=True, slots=True)
class MachineName:
    """Name that an owner gave to one host of a system.

    Attributes:
        system: Fingerprint of the system.
        host: Host as in :class:`~dlbricks_core.facts.Session`; empty for observations of an unknown
            host.
        name: Name of the machine. Several hosts may share it, because each restart of a container
            creates another host.
        named_at: Time at which the name was given, with time zone. The latest name counts.
    """

    system: str
    host: str
    name: str
    named_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_dict(self) -> dict[str, Any]:
        """The name as plain data for JSON."""
        return {**asdict(self), "named_at": self.named_at.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`.

        Raises:
            KeyError: If something is missing.
            TypeError: If something has another structure.
            ValueError: If a value is invalid.
        """
        texts = {name: text(data[name], name) for name in ("system", "host", "name")}
        return cls(**texts, named_at=moment(data["named_at"]))


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine whose measurements a store holds: some or all hosts of a system.

    Attributes:
        system: Fingerprint of the system.
        name: Name that its owner gave it; empty if none did.
        hosts: Its hosts.
        alone: Whether the store knows no other hosts of the system.
    """

    system: str
    name: str
    hosts: frozenset[str]
    alone: bool = True

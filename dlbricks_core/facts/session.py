"""Sessions: who measured when, and how busy the machine was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Session:
    """One run of DLBricks that measured.

    Attributes:
        id: Unique text.
        host: Name that the machine's owner chose, or a hash that tells equal machines apart;
            empty where it is not known. Never a network name or an address.
        system: Fingerprint of the system.
        version: Of DLBricks.
        started_at: With time zone.
        load: Share of the processors' time that others used meanwhile, from 0 to 1; ``None``
            where the session did not end, or the system does not tell.
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

"""Checks of stores: intact and damaged rows of each table, and the numbers of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from dlbricks_core.store import ResultStore, locate
from dlbricks_core.store.database import Damage, Database, patiently
from dlbricks_core.store.opened import again_when_lost
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import measurements, observations, systems


@dataclass(frozen=True)
class StoreCheck:
    """Intact and damaged rows of a store.

    Attributes:
        location: Path of the store's file, or URL of the database without password and options.
        rows: Number of rows that can be read, by table.
        damage: Rows that cannot be read.
        findings: Damage of the file's pages and indices, as SQLite describes it.
    """

    location: str
    rows: Mapping[str, int]
    damage: Damage
    findings: Sequence[str]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not (self.damage.counts or self.findings)


@dataclass(frozen=True)
class StoreInfo:
    """Counts of a store's records.

    Attributes:
        location: Path of the store's file, or URL of the database without password and options.
        size: Size in bytes: of the file, or of the tables on a server.
        systems: Number of systems.
        measurements: Number of measurements, including failures.
        failures: Number of measurements that failed.
        observations: Number of observations in all measurements.
    """

    location: str
    size: int
    systems: int
    measurements: int
    failures: int
    observations: int


def _checked(place: Database) -> StoreCheck:
    """Readable and damaged rows of a store."""
    engine, damage = place.inspected()
    try:
        with place.transaction(engine, writes=False) as connection:
            reader = Reader(connection, place, damage=damage)
            rows = reader.counts()
    finally:
        engine.dispose()
    return StoreCheck(str(place), rows, damage, place.findings())


def check(location: str | Path | None = None) -> StoreCheck:
    """Reads every row of a store, without changes, and names damaged rows.

    Args:
        location: Location of the store, as for :meth:`ResultStore.open`.

    Raises:
        StoreError: If there is no store, or no part of it can be read.
    """
    place = locate(location)
    patiently(place, place.check_exists)
    return patiently(place, lambda: _checked(place))


@again_when_lost
def info(store: ResultStore) -> StoreInfo:
    """Counts of a store's records."""
    with store.reading() as connection:
        failed = measurements.c.failure.is_not(None)
        counts = {
            "systems": select(func.count()).select_from(systems),
            "measurements": select(func.count()).select_from(measurements),
            "failures": select(func.count()).select_from(measurements).where(failed),
            "observations": select(func.count()).select_from(observations),
        }
        found = {name: connection.scalar(query) or 0 for name, query in counts.items()}
        size = store.place.size(connection)
    return StoreInfo(location=str(store.place), size=size, **found)

"""The result store: all measurements, each committed at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import func, select

from dlbricks_core.facts import Machine
from dlbricks_core.store.database import Damage, Database, patiently
from dlbricks_core.store.described import DerivedStore, Described, Inventory, inventory_of
from dlbricks_core.store.measured import MeasurementStore
from dlbricks_core.store.merging import Merged, Merger
from dlbricks_core.store.opened import again_when_lost, locate
from dlbricks_core.store.pruning import Pruned, prune
from dlbricks_core.store.records import Record, selected
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import measurements, observations, systems
from dlbricks_core.store.selection import EVERYTHING, Selection, measured_by_no_other


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


class _RehearsedError(Exception):
    """Ends a transaction whose changes are discarded."""


class ResultStore(MeasurementStore, Described, DerivedStore):
    """Results of all runs on one or many systems, in a SQLite file or a PostgreSQL database.

    Every change is committed before its method returns, so that a killed process loses only its
    current measurement. Several processes can write to one store. Where a row is damaged, it is
    left out, and a warning names it. If a server is lost, methods wait for it, and repeat changes
    that it has not kept.

    Args:
        place: Where the store is kept.
        writes: Whether results will be added.

    Attributes:
        place: Where the store is kept. Its text, for people, holds no password.
        only: Machine without whose equals the store is seen; ``None`` for all of them.

    Example:
        >>> with ResultStore.open("results.db") as store:  # doctest: +SKIP
        ...     store.add_samples(question, Observation(session, 0, (1.25,)), layers=["Conv"])
        ...     store.get([question])[question].values
        (1.25,)
    """

    only: Machine | None = None

    @again_when_lost
    def merge(self, records: Iterable[Record]) -> Merged:
        """Adds records of another store, all or none; see :class:`Merger`.

        Args:
            records: Records of another store.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        with self._writing() as connection:
            merger = Merger(connection, self.place)
            merger.add(records)
            return merger.merged

    def records(self, selection: Selection = EVERYTHING) -> Generator[Record, None, None]:
        """All records of the store, or selected records with the records that they refer to.

        Args:
            selection: Machines and backends whose measurements are requested.
        """
        with self._reading() as connection:
            yield from selected(connection, self.place, selection)

    @classmethod
    def check(cls, location: str | Path | None = None) -> StoreCheck:
        """Reads every row of a store, without changes, and names damaged rows.

        Args:
            location: Location of the store, as for :meth:`open`.

        Raises:
            StoreError: If there is no store, or no part of it can be read.
        """
        place = locate(location)
        patiently(place, place.check_exists)
        return patiently(place, lambda: _checked(place))

    def within(self, machine: Machine) -> Self:
        """This store without measurements of other machines with the same fingerprint.

        It uses the same connections: close the original.
        """
        narrowed = copy(self)
        narrowed._taken = None if machine.alone else measured_by_no_other(machine)
        narrowed.only = machine
        return narrowed

    @again_when_lost
    def inventory(self) -> Inventory:
        """Inventory of the store, by machine and setup."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return inventory_of(connection, reader)

    @again_when_lost
    def prune(self, selection: Selection, *, rehearse: bool = False) -> Pruned:
        """Deletes a part of the store, with records that no remaining measurement needs.

        Args:
            selection: What is deleted.
            rehearse: Whether to only count the records, without deleting them.
        """
        pruned = Pruned()
        with suppress(_RehearsedError), self._writing() as connection:
            pruned = prune(connection, self.place, selection)
            if rehearse:
                raise _RehearsedError
        return pruned

    @again_when_lost
    def compact(self) -> int:
        """Returns unused space to the file system.

        Returns:
            Bytes that were freed.
        """
        return self.place.compact(self._engine)

    @again_when_lost
    def info(self) -> StoreInfo:
        """Counts of the store's records."""
        with self._reading() as connection:
            failed = measurements.c.failure.is_not(None)
            counts = {
                "systems": select(func.count()).select_from(systems),
                "measurements": select(func.count()).select_from(measurements),
                "failures": select(func.count()).select_from(measurements).where(failed),
                "observations": select(func.count()).select_from(observations),
            }
            found = {name: connection.scalar(query) or 0 for name, query in counts.items()}
            size = self.place.size(connection)
        return StoreInfo(location=str(self.place), size=size, **found)

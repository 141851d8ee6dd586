"""Selections: the part of a store that a user names, as conditions of queries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from packaging.version import InvalidVersion, Version
from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    Table,
    and_,
    cast,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
)

from dlbricks_core.facts import Machine
from dlbricks_core.facts.observation import DISTURBED_LOAD
from dlbricks_core.store.questions import OBSERVED, measured_by, owners, readable
from dlbricks_core.store.schema import measurements, observations, sessions


@dataclass(frozen=True)
class Selection:
    """Selection of records that match all of its fields. An empty field matches everything.

    Attributes:
        machines: Machines that measured.
        backends: Names of backends.
        outdated: Whether only versions of a framework count that are not the newest of its backend
            on their system.
        before: Time before which a session began, with time zone.
        failures: Whether only failures count.
        disturbed: Whether to select only observations that were taken while other programs ran, or
            during another disturbance.
        quantities: Names of quantities, which include the parts that their metrics observe.
    """

    machines: tuple[Machine, ...] = ()
    backends: tuple[str, ...] = ()
    outdated: bool = False
    before: datetime | None = None
    failures: bool = False
    quantities: tuple[str, ...] = ()
    disturbed: bool = False

    @property
    def whole_machines(self) -> bool:
        """Whether all that the named machines have measured is selected."""
        return bool(self.machines) and self == Selection(self.machines)

    @property
    def whole_measurements(self) -> bool:
        """Whether the selection includes all observations of its measurements."""
        return (
            self.before is None
            and not self.failures
            and not self.disturbed
            and all(machine.alone for machine in self.machines)
        )

    @property
    def whole_setups(self) -> bool:
        """Whether the selection includes all measurements of its setups."""
        return self.whole_measurements and not self.quantities

    def measured(self, connection: Connection) -> ColumnElement[bool]:
        """Condition for rows of measurements."""
        setups = self.setups(connection, measurements)
        if not self.quantities:
            return setups
        pairs = [pair for pair, owner in owners(connection).items() if owner in self.quantities]
        return setups & tuple_(*OBSERVED).in_(pairs)

    def setups(self, connection: Connection, table: Table) -> ColumnElement[bool]:
        """Condition for rows of a table that has columns for backend, version and system."""
        found: list[ColumnElement[bool]] = [true()]
        if self.machines:
            found.append(table.c.system.in_([each.system for each in self.machines]))
        if self.backends:
            found.append(table.c.backend.in_(self.backends))
        if self.outdated:
            found.append(_outdated(connection, table))
        return and_(*found)

    def taken(self) -> ColumnElement[bool]:
        """Condition for observations, beside that for their measurements."""
        found: list[ColumnElement[bool]] = [true()]
        if self.machines:
            found.append(or_(*map(measured_by, self.machines)))
        if self.before is not None:
            # All times in a store are of one zone, so that their texts sort as they do.
            begin = func.min(observations.c.taken_at)
            query = select(observations.c.session).group_by(observations.c.session)
            text = self.before.astimezone(UTC).isoformat()
            found.append(observations.c.session.in_(query.having(begin < text)))
        if self.disturbed:
            found.append(_disturbed())
        return and_(*found)


EVERYTHING = Selection()


def _disturbed() -> ColumnElement[bool]:
    """Condition for disturbed observations.

    Observations of earlier versions are disturbed if their session is.
    """
    busy = select(sessions.c.id).where(sessions.c.load > DISTURBED_LOAD)
    flagged = cast(observations.c.flags, String) != "[]"
    return or_(flagged, and_(observations.c.load.is_(None), observations.c.session.in_(busy)))


def _outdated(connection: Connection, table: Table) -> ColumnElement[bool]:
    """Condition for rows of versions that are not the newest of their backend and system."""
    columns = (measurements.c.system, measurements.c.backend, measurements.c.version)
    versions = defaultdict(set)
    for row in filter(readable, connection.execute(select(*columns).distinct())):
        system, backend, version = row
        versions[system, backend].add(version)
    found = [
        and_(
            table.c.system == system,
            table.c.backend == backend,
            table.c.version.in_(every - {max(every, key=_order)}),
        )
        for (system, backend), every in versions.items()
        if len(every) > 1
    ]
    return or_(*found) if found else false()


def _order(version: str) -> tuple[Version, str]:
    """Key by which versions sort; texts that are no version come first."""
    try:
        return Version(version), version
    except InvalidVersion:
        return Version("0.dev0"), version

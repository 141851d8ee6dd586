"""Selections: the part of a store that a user names, as conditions of queries."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar, get_args

from packaging.version import InvalidVersion, Version
from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    Table,
    and_,
    bindparam,
    cast,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
)

from dlbricks_core.facts import Machine, Quantity, Question, Setup, Subject
from dlbricks_core.facts.checks import LARGEST_COUNT, checked, flat, text
from dlbricks_core.facts.observation import DISTURBED_LOAD, Kind
from dlbricks_core.store.schema import measurements, observations, sessions

# Key columns of questions, and conditions for rows of a few questions out of many.

ItemT = TypeVar("ItemT", bound=Hashable)

BATCH = 500
"""Questions, or rows, of one query; SQLite limits the variables of a statement."""


KEY = (
    *(each.name for each in fields(Subject)),
    "quantity",
    *(each.name for each in fields(Setup)),
    "system",
)
"""Names of a question's key columns."""


def columns_of(question: Question) -> dict[str, Any]:
    """Values of a question's key columns; the quantity goes by its name."""
    return {
        **flat(question.subject),
        "quantity": question.quantity.name,
        **flat(question.setup),
        "system": question.system,
    }


def question_of(columns: Mapping[str, Any], quantities: Mapping[str, Quantity]) -> Question:
    """Reverses :func:`columns_of`.

    Args:
        columns: Values of the key columns; there may be others.
        quantities: Quantities by name.

    Raises:
        KeyError: If a column is missing, or the quantity is none of those.
        TypeError: If a value is of another kind.
        ValueError: If a value is invalid.
    """
    found = key_of({name: columns[name] for name in KEY})
    setup = Setup(**{each.name: found[each.name] for each in fields(Setup)})
    subject = Subject(found["signature"], found["kind"])
    return Question(subject, quantities[found["quantity"]], setup, found["system"])


def key_of(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Values of key columns, which are checked: threads, options, and other texts.

    Raises:
        TypeError: If a value is of another kind.
        ValueError: If a value is invalid.
    """
    return {
        name: _CHECKS[name](value) if name in _CHECKS else text(value, name)
        for name, value in columns.items()
    }


def is_key(columns: Mapping[str, Any]) -> bool:
    """Whether values of key columns are as they were written."""
    try:
        key_of(columns)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def readable(values: Iterable[Any]) -> bool:
    """Whether all values of a row are texts that UTF-8 can express."""
    try:
        for each in values:
            text(each)
    except (TypeError, ValueError):
        return False
    return True


def _threads(value: Any) -> int:
    if not 1 <= checked(value, int, "threads") <= LARGEST_COUNT:
        raise ValueError(f"threads is {value}")
    return int(value)


def _options(value: Any) -> str:
    return _checked_options(text(value, "options"))


@lru_cache
def _checked_options(options: str) -> str:
    """The text of a backend's options, which few rows differ in."""
    for name, value in checked(json.loads(options), dict, "options").items():
        if not isinstance(value, str | int | float | bool | None):
            raise TypeError(f"the option {name:.40} is {value!r:.40}")
    return options


def _kind(value: Any) -> str:
    if value not in get_args(Kind):
        raise ValueError(f"kind is {value!r:.40}")
    return str(value)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "threads": _threads,
    "options": _options,
    "kind": _kind,
}
"""Function that checks a column of a key which is not just a text, by its name."""


def all_equal(table: Table, columns: Mapping[str, Any]) -> ColumnElement[bool]:
    """Condition for rows that have these values."""
    return and_(true(), *(table.c[name] == value for name, value in columns.items()))


def all_given(table: Table, names: Iterable[str]) -> ColumnElement[bool]:
    """Condition for rows whose values are parameters of the statement, named like the columns.

    Making a statement takes several times as long as executing it, so one statement is made for all
    samples.
    """
    return and_(*(table.c[name] == bindparam(name) for name in names))


def batches(items: Iterable[ItemT]) -> Iterator[list[ItemT]]:
    """Signatures, or other values, in one statement, without duplicates."""
    every = list(dict.fromkeys(items))
    return (every[start : start + BATCH] for start in range(0, len(every), BATCH))


def conditions(questions: Iterable[Question]) -> Iterator[ColumnElement[bool]]:
    """A few conditions that together select the rows of exactly these questions."""
    for batch in batches(questions):
        yield all_among(measurements, list(map(columns_of, batch)))


def all_among(table: Table, rows: Sequence[Mapping[str, Any]]) -> ColumnElement[bool]:
    """Condition for rows that have all values of one of these rows, of at most one batch."""
    differ = _differing(rows)
    # The first alone as well, because SQLite searches no index for a tuple.
    found = near(table, rows)
    if len(differ) > 1:
        columns = tuple_(*(table.c[name] for name in differ))
        found &= columns.in_([tuple(each[name] for name in differ) for each in rows])
    return found


def near(table: Table, rows: Sequence[Mapping[str, Any]]) -> ColumnElement[bool]:
    """Condition for few rows more than :func:`all_among` selects, which takes less time to state.

    They have what all of these rows share, and the first value in which these differ.
    """
    first, differ = rows[0], _differing(rows)
    found = all_equal(table, {name: first[name] for name in first if name not in differ})
    if differ:
        found &= table.c[differ[0]].in_(list(dict.fromkeys(each[differ[0]] for each in rows)))
    return found


def _differing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns in which rows differ."""
    first, *others = rows
    return [name for name in first if any(each[name] != first[name] for each in others)]


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
        return setups & tuple_(*_OBSERVED).in_(pairs)

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


def measured_by(machine: Machine) -> ColumnElement[bool]:
    """Condition for observations of a machine, joined with their measurements."""
    system = measurements.c.system == machine.system
    return system if machine.alone else and_(system, _on_hosts(machine.hosts))


def measured_by_no_other(machine: Machine) -> ColumnElement[bool]:
    """Condition for observations that excludes other machines with the same fingerprint."""
    return or_(measurements.c.system != machine.system, _on_hosts(machine.hosts))


def _on_hosts(hosts: frozenset[str]) -> ColumnElement[bool]:
    """Condition for observations of these hosts; that of a session without a record is empty."""
    recorded = select(sessions.c.id)
    there = observations.c.session.in_(recorded.where(sessions.c.host.in_(hosts)))
    return or_(there, observations.c.session.not_in(recorded)) if "" in hosts else there


_OBSERVED = measurements.c.quantity, measurements.c.protocol


def owners(connection: Connection) -> dict[tuple[str, str], str]:
    """Name of the observed quantity, by observed quantity and protocol.

    The protocol of a metric has the name of its quantity. Other quantities under the same protocol
    are parts of it.
    """
    every = connection.execute(select(*_OBSERVED).distinct())
    found = [row for row in every if readable(row)]
    names = {quantity for quantity, _ in found}
    askers = {protocol: protocol.partition("/")[0] for _, protocol in found}
    return {
        (quantity, protocol): askers[protocol] if askers[protocol] in names else quantity
        for quantity, protocol in found
    }


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

"""Pruning: deletes selected measurements, and records that no other measurement needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    delete,
    false,
    select,
    true,
    tuple_,
    update,
)

from dlbricks_core.facts import Machine
from dlbricks_core.store import ResultStore
from dlbricks_core.store.opened import again_when_lost
from dlbricks_core.store.questions import batches
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import (
    calibrations,
    machines,
    measurements,
    networks,
    observations,
    rewrites,
    sessions,
    systems,
)
from dlbricks_records.contents.records import fits
from dlbricks_records.contents.selection import Selection


@dataclass(frozen=True)
class Pruned:
    """Numbers of deleted records.

    Attributes:
        systems: Number of systems.
        sessions: Number of sessions.
        measurements: Number of measurements without remaining observations.
        observations: Number of observations.
        failures: Number of failures.
        networks: Number of networks with features.
        calibrations: Number of calibrations.
        rewrites: Number of graphs that backends made of models.
    """

    systems: int = 0
    sessions: int = 0
    measurements: int = 0
    observations: int = 0
    failures: int = 0
    networks: int = 0
    calibrations: int = 0
    rewrites: int = 0

    @property
    def nothing(self) -> bool:
        """Whether nothing was deleted."""
        return self == Pruned()


class _RehearsedError(Exception):
    """Ends a transaction whose changes are discarded."""


@again_when_lost
def prune(store: ResultStore, selection: Selection, *, rehearse: bool = False) -> Pruned:
    """Deletes a part of a store, with records that no remaining measurement needs.

    Args:
        store: The store.
        selection: What is deleted.
        rehearse: Whether to only count the records, without deleting them.
    """
    pruned = Pruned()
    with suppress(_RehearsedError), store.writing() as connection:
        pruned = _prune(connection, store.place, selection)
        if rehearse:
            raise _RehearsedError
    return pruned


def _prune(connection: Connection, place: object, selection: Selection) -> Pruned:
    """Deletes the selected measurements.

    Measurements without remaining observations are deleted as well, and so are sessions and
    features of networks without remaining measurements. Where only failures are selected,
    observations stay.

    Args:
        connection: To the database, in a transaction.
        place: Where the store is kept, for warnings.
        selection: What is deleted.
    """
    chosen = selection.measured(connection)
    outdated = selection.setups(connection, rewrites)
    failed = chosen & measurements.c.failure.is_not(None)
    if selection.failures:
        return _forget_failures(connection, failed)
    before = _setups(connection, chosen)
    taken = select(observations.c.id, observations.c.measurement_id, observations.c.session)
    doomed = connection.execute(taken.join(measurements).where(chosen, selection.taken())).all()
    touched = {row.measurement_id for row in doomed}
    if selection.whole_measurements:
        touched |= set(_ids(connection, measurements.c.id, chosen))
    failures = touched & set(_ids(connection, measurements.c.id, failed))
    _delete(connection, observations.c.id, [row.id for row in doomed])
    empty, signatures = _delete_empty(connection, touched)
    gone = before - _setups(connection, true())
    left = set(_ids(connection, measurements.c.id, measurements.c.failure.is_not(None)))
    return Pruned(
        measurements=empty,
        observations=len(doomed),
        failures=len(failures - left),
        networks=_delete_unused(connection, networks.c.signature, _MEASURED, signatures),
        **_delete_setups(connection, place, selection, outdated, gone),
        **_delete_sessions(connection, selection, {row.session for row in doomed}),
    )


def _forget_failures(connection: Connection, failed: ColumnElement[bool]) -> Pruned:
    """Deletes failures, and measurements that are nothing else."""
    failures = _ids(connection, measurements.c.id, failed)
    for batch in batches(failures):
        same = measurements.c.id.in_(batch)
        connection.execute(update(measurements).where(same).values(failure=None, unsupported=False))
    gone, signatures = _delete_empty(connection, failures)
    described = _delete_unused(connection, networks.c.signature, _MEASURED, signatures)
    return Pruned(measurements=gone, failures=len(failures), networks=described)


_SETUP = ("system", "backend", "version")

_FITTED = (*_SETUP, "quantity")

_MEASURED, _OBSERVED = measurements.c.signature, observations.c.session


def _ids(connection: Connection, column: Column[Any], condition: ColumnElement[bool]) -> list[Any]:
    return list(connection.scalars(select(column).where(condition)))


def _delete(connection: Connection, column: Column[Any], values: Iterable[Any]) -> int:
    """Deletes the rows that have one of these values, and counts them."""
    number = 0
    for batch in batches(values):
        number += connection.execute(delete(column.table).where(column.in_(batch))).rowcount
    return number


def _delete_empty(connection: Connection, identifiers: Iterable[int]) -> tuple[int, list[str]]:
    """Deletes measurements without observations among some; returns their number and signatures."""
    observed = select(observations.c.measurement_id)
    empty, signatures = [], []
    for batch in batches(identifiers):
        same = measurements.c.id.in_(batch) & measurements.c.id.not_in(observed)
        for row in connection.execute(select(measurements.c.id, _MEASURED).where(same)):
            empty.append(row.id)
            signatures.append(row.signature)
    return _delete(connection, measurements.c.id, empty), signatures


def _delete_unused(
    connection: Connection, column: Column[Any], used: Column[Any], values: Iterable[Any]
) -> int:
    """Deletes the rows that have one of these values, unless another table has it too."""
    unused = []
    for batch in batches(values):
        still = set(_ids(connection, used, used.in_(batch)))
        unused += [value for value in batch if value not in still]
    return _delete(connection, column, unused)


def _setups(
    connection: Connection, condition: ColumnElement[bool], names: Sequence[str] = _SETUP
) -> set[tuple[str, ...]]:
    """Distinct setups of the measurements for which a condition holds.

    Args:
        connection: Connection to the database.
        condition: Condition on rows of measurements.
        names: Columns to select; by default system, backend and version.
    """
    query = select(*(measurements.c[name] for name in names)).where(condition)
    return {tuple(row) for row in connection.execute(query.distinct())}


def _delete_setups(
    connection: Connection,
    place: object,
    selection: Selection,
    chosen: ColumnElement[bool],
    gone: set[tuple[str, ...]],
) -> dict[str, int]:
    """Deletes the calibrations and rewrites of setups.

    Args:
        connection: To the database.
        place: Where the store is kept, for warnings.
        selection: What is deleted.
        chosen: Condition for rewrites of the setups that are selected.
        gone: System, backend and version of which no measurement is left.
    """
    whole = chosen if selection.whole_setups else false()
    same = tuple_(*(rewrites.c[name] for name in _SETUP)).in_(list(gone))
    rewritten = connection.execute(delete(rewrites).where(whole | same)).rowcount
    left = _setups(connection, true(), _FITTED)
    keys = []
    with Reader(connection, place) as reader:
        for each in reader.calibrations():
            setup = (each.key.system, each.key.setup.backend, each.key.setup.version)
            is_left = (*setup, each.key.quantity.name) in left
            named = selection.whole_measurements and fits(each, selection) and not is_left
            if named or setup in gone:
                keys.append(each.key.text)
    return {
        "rewrites": rewritten,
        "calibrations": _delete(connection, calibrations.c.key, keys),
    }


def _delete_sessions(
    connection: Connection, selection: Selection, touched: set[str]
) -> dict[str, int]:
    """Deletes sessions without remaining measurements, and completely selected systems."""
    number = _delete_unused(connection, sessions.c.id, _OBSERVED, touched)
    if not selection.whole_machines:
        return {"sessions": number}
    for machine in selection.machines:
        number += connection.execute(delete(sessions).where(_of(machine, sessions))).rowcount
        connection.execute(delete(machines).where(_of(machine, machines)))
    fingerprints = [machine.system for machine in selection.machines if machine.alone]
    return {"sessions": number, "systems": _delete(connection, systems.c.fingerprint, fingerprints)}


def _of(machine: Machine, table: Table) -> ColumnElement[bool]:
    same = table.c.system == machine.system
    return same if machine.alone else same & table.c.host.in_(machine.hosts)

"""Merging of other stores: adds records that a store does not have yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, type_coerce, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import NullType

from dlbricks_core.facts import (
    Calibration,
    CalibrationKey,
    MachineName,
    Measurement,
    NetworkFeatures,
    Quantity,
    Rewrite,
    Session,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.store.database import Database
from dlbricks_core.store.opened import again_when_lost
from dlbricks_core.store.questions import BATCH, KEY, all_among, batches, columns_of, near
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
from dlbricks_core.store.written import (
    calibration_row,
    introduce,
    network_row,
    rewrite_row,
    storable,
)
from dlbricks_records.contents.records import KnownSystem, Record

_Key = tuple[Any, ...]
"""Values of a question's key columns, in the order of :data:`KEY`."""


@dataclass
class Merged:
    """Number of new records of each kind.

    Attributes:
        systems: Number of systems.
        sessions: Number of sessions.
        measurements: Number of new questions.
        observations: Number of observations.
        networks: Number of networks with features.
        calibrations: Number of calibrations, including replacements of older calibrations.
        rewrites: Number of graphs that backends made of models.
        machines: Number of names of machines.
    """

    systems: int = 0
    sessions: int = 0
    measurements: int = 0
    observations: int = 0
    networks: int = 0
    calibrations: int = 0
    rewrites: int = 0
    machines: int = 0


@again_when_lost
def merge(store: ResultStore, records: Iterable[Record]) -> Merged:
    """Adds records of another store, all or none; see :class:`Merger`.

    Args:
        store: The store.
        records: Records of another store.

    Raises:
        StoreError: If the store holds one of the quantities in another unit.
    """
    with store.writing() as connection:
        merger = Merger(connection, store.place)
        merger.add(records)
        return merger.merged


@dataclass
class Merger:
    """Adds records through one connection, in batches of one kind.

    Where a store and a record disagree, the outcome is the same in whichever order stores are
    merged: observations win over a failure, the later calibration and name over the earlier, a
    load that is known over none. Facts about a system, which change with each update of its
    kernel, stay as they are.

    Args:
        connection: To the database, in a transaction.
        place: Where the store is kept, for messages.

    Attributes:
        merged: Number of new records so far.
    """

    connection: Connection
    place: Database
    merged: Merged = field(default_factory=Merged)

    def add(self, records: Iterable[Record]) -> None:
        """Adds records.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        for kind, batch in _of_one_kind(records):
            _ADDERS[kind](self, batch)

    def introduce(self, wanted: Iterable[Quantity]) -> None:
        """Adds the quantities that the store does not have yet."""
        introduce(self.connection, self.place, wanted)

    def systems(self, batch: Sequence[KnownSystem]) -> None:
        """Adds systems that are new."""
        rows = ({"fingerprint": each.fingerprint, "facts": dict(each.facts)} for each in batch)
        self.merged.systems += self._insert_new(systems, rows)

    def machines(self, batch: Sequence[MachineName]) -> None:
        """Adds names; of two names of a host, the later one counts."""
        with Reader(self.connection, self.place) as reader:
            own = machines.c.host.in_({each.host for each in batch})
            known = {(each.system, each.host): each for each in reader.machines(own)}
        changed: dict[tuple[str, str], MachineName] = {}
        for each in batch:
            key = each.system, each.host
            before = known.get(key)
            if before is None or _rank(before) < _rank(each):
                known[key] = changed[key] = each
                self.merged.machines += 1
        self._replace(machines, ("system", "host"), [each.to_dict() for each in changed.values()])

    def sessions(self, batch: Sequence[Session]) -> None:
        """Adds sessions that are new; where only what their end brings is new, it is filled in."""
        rows = [each.to_dict() for each in batch]
        self.merged.sessions += self._insert_new(sessions, rows)
        ended = [
            {f"{name}_": each[name] for name in _END} for each in rows if each["load"] is not None
        ]
        if ended:
            self.connection.execute(_ENDED, ended)

    def measurements(self, batch: Sequence[Measurement]) -> None:
        """Adds new measurements, and new observations of known measurements."""
        self.introduce(each.question.quantity for each in batch)
        keyed = [(tuple(columns_of(each.question).values()), each) for each in batch]
        known = self._rows([key for key, _ in keyed])
        new = {
            key: _measurement_row(key, each) for key, each in reversed(keyed) if key not in known
        }
        self.merged.measurements += self._insert(measurements, reversed(new.values()))
        taken = self._observed(identifier for identifier, _ in known.values())
        known |= self._rows(list(new))
        rows = []
        for key, each in keyed:
            identifier, before = known[key]
            later = _later_failure(before, each)
            if later != before:
                change = update(measurements).where(measurements.c.id == identifier)
                self.connection.execute(change.values(_failure_columns(later)))
                known[key] = identifier, later
            for observation in each.observations:
                round_of_session = (observation.session, observation.round)
                if round_of_session not in taken[identifier]:
                    taken[identifier].add(round_of_session)
                    rows.append({"measurement_id": identifier, **observation.to_dict()})
        self.merged.observations += self._insert(observations, rows)

    def networks(self, batch: Sequence[NetworkFeatures]) -> None:
        """Adds features that are new, or of a later version; groups add up."""
        new = {each.signature: each for each in batch}
        condition = networks.c.signature.in_(new)
        with Reader(self.connection, self.place) as reader:
            known = reader.networks(condition)
        joined = {
            signature: _joined(known.get(signature, network), network)
            for signature, network in new.items()
        }
        changed = [each for name, each in joined.items() if each != known.get(name)]
        same = networks.c.signature.in_([each.signature for each in changed])
        self.connection.execute(delete(networks).where(same))
        self._insert(networks, map(network_row, changed))
        self.merged.networks += len(joined.keys() - known.keys())

    def calibrations(self, batch: Sequence[Calibration]) -> None:
        """Adds calibrations that are new, or later than the stored calibration of the same key."""
        self.introduce(each.key.quantity for each in batch)
        with Reader(self.connection, self.place) as reader:
            known = reader.calibrations_of([each.key for each in batch])
        changed: dict[CalibrationKey, Calibration] = {}
        for each in batch:
            before = known.get(each.key)
            if before is None or before.taken_at < each.taken_at:
                known[each.key] = changed[each.key] = each
                self.merged.calibrations += 1
        self._replace(calibrations, ("key",), list(map(calibration_row, changed.values())))

    def rewrites(self, batch: Sequence[Rewrite]) -> None:
        """Adds graphs that are new."""
        self.merged.rewrites += self._insert_new(rewrites, map(rewrite_row, batch))

    def _rows(self, keys: Sequence[_Key]) -> dict[_Key, tuple[int, _Failure | None]]:
        """Id and failure of the measurements that the store holds, of at most one batch."""
        if not keys:
            return {}
        c = measurements.c
        # As the database has it: a conversion would end the query where the row is damaged.
        unsupported = type_coerce(c.unsupported, NullType())
        query = select(c.id, c.failure, unsupported, *(c[name] for name in KEY))
        query = query.where(
            near(measurements, [dict(zip(KEY, each, strict=True)) for each in keys])
        )
        asked = set(keys)
        return {
            key: (identifier, _failure_of(failure, unsupported))
            for identifier, failure, unsupported, *columns in self.connection.execute(query)
            if (key := tuple(columns)) in asked
        }

    def _observed(self, identifiers: Iterable[int]) -> defaultdict[int, set[tuple[str, int]]]:
        """Session and round of all observations, by the id of their measurement."""
        found: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        columns = (observations.c.measurement_id, observations.c.session, observations.c.round)
        for batch in batches(identifiers):
            query = select(*columns).where(observations.c.measurement_id.in_(batch))
            for identifier, session, number in self.connection.execute(query):
                found[identifier].add((session, number))
        return found

    def _replace(self, table: Table, key: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Inserts rows of at most one batch, in place of those with the same keys."""
        if rows:
            same = all_among(table, [{name: each[name] for name in key} for each in rows])
            self.connection.execute(delete(table).where(same))
            self._insert(table, rows)

    def _insert_new(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> int:
        """Inserts the rows whose keys are new, and counts them."""
        new = _INSERTS[self.connection.dialect.name](table).on_conflict_do_nothing()
        found = self.connection.execute(new, list(rows), execution_options=_COUNTED)
        return found.rowcount

    def _insert(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> int:
        """Inserts rows and counts them."""
        rows = list(rows)
        if rows:
            self.connection.execute(insert(table), rows)
        return len(rows)


_ADDERS: dict[type, Callable[[Merger, Any], None]] = {
    KnownSystem: Merger.systems,
    MachineName: Merger.machines,
    Session: Merger.sessions,
    Quantity: Merger.introduce,
    Measurement: Merger.measurements,
    NetworkFeatures: Merger.networks,
    Calibration: Merger.calibrations,
    Rewrite: Merger.rewrites,
}

_INSERTS: Mapping[str, Callable[[Table], Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
"""Statement that can pass over rows whose keys a table has, by dialect."""

_COUNTED = {"preserve_rowcount": True}

_END = ("id", "load", "pulse_ms", "pulse_spread")
"""Key of a session, and what its end brings."""

_ENDED = (
    update(sessions)
    .where(sessions.c.id == bindparam("id_"), sessions.c.load.is_(None))
    .values({name: bindparam(f"{name}_") for name in _END[1:]})
)


def _measurement_row(key: _Key, measurement: Measurement) -> dict[str, Any]:
    """Row of a measurement."""
    failure = _failure_of(measurement.failure, measurement.unsupported)
    layers = {"layers": list(measurement.layers)}
    return {**dict(zip(KEY, key, strict=True)), **layers, **_failure_columns(failure)}


def _of_one_kind(records: Iterable[Record]) -> Iterator[tuple[type, list[Any]]]:
    """Batches of successive records of one kind."""
    batch: list[Record] = []
    every = iter(records)
    while taken := list(islice(every, BATCH)):
        for each in taken:
            if batch and type(batch[0]) is not type(each):
                yield type(batch[0]), batch
                batch = []
            batch.append(each)
        yield type(batch[0]), batch
        batch = []


class _Failure(NamedTuple):
    """Why a measurement failed.

    Attributes:
        other: Whether it failed for another reason than that the backend lacks a layer.
        reason: The reason in words.
    """

    other: bool
    reason: str


def _failure_of(reason: object, unsupported: object) -> _Failure | None:
    return None if reason is None else _Failure(unsupported != 1, storable(reason))


def _failure_columns(failure: _Failure | None) -> dict[str, Any]:
    if failure is None:
        return {"failure": None, "unsupported": False}
    return {"failure": failure.reason, "unsupported": not failure.other}


def _later_failure(known: _Failure | None, found: Measurement) -> _Failure | None:
    """Failure of a measurement in two stores; none if one of the stores has observations.

    Of two failures, the one that lasts wins: that the backend does not support a layer.
    """
    new = _failure_of(found.failure, found.unsupported)
    return None if known is None or new is None else min(known, new)


def _joined(known: NetworkFeatures, new: NetworkFeatures) -> NetworkFeatures:
    """Features of the later version, with the groups of both."""
    later = max(known, new, key=lambda each: each.version)
    return replace(later, groups=known.groups | new.groups)


def _rank(named: MachineName) -> tuple[Any, ...]:
    return named.named_at, named.name

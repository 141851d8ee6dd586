"""The result store: everything that was ever measured, committed as soon as it is known."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    Calibration,
    CalibrationKey,
    Measurement,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Sampled,
    Session,
    Setup,
)
from dlbricks_core.store.database import Database, patiently
from dlbricks_core.store.location import locate
from dlbricks_core.store.rows import Reader, columns_of
from dlbricks_core.store.schema import (
    calibrations,
    measurements,
    networks,
    observations,
    quantities,
    rewrites,
    sessions,
    systems,
)
from dlbricks_core.wording import argument

BATCH = 500
"""Questions, or rows, of one query; SQLite limits the variables of a statement."""


ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")


def again_when_lost(
    method: Callable[Concatenate[ResultStore, ArgumentsT], ResultT],
) -> Callable[Concatenate[ResultStore, ArgumentsT], ResultT]:
    """Makes a method of the store wait for a server that was lost.

    It is called again then, so it must be one transaction, and change nothing more when it is done
    twice: the server may have committed it before it was lost.
    """

    @wraps(method)
    def repeated(
        store: ResultStore, /, *given: ArgumentsT.args, **named: ArgumentsT.kwargs
    ) -> ResultT:
        positions: Any = map(_reusable, given)
        names: Any = zip(named, map(_reusable, named.values()), strict=True)
        positions, names = tuple(positions), dict(names)
        return patiently(store.place, lambda: method(store, *positions, **names))

    return repeated


def _reusable(argument: object) -> object:
    """The argument; where it can be read only once, a tuple of what it gives."""
    return tuple(argument) if isinstance(argument, Iterator) else argument


@dataclass(frozen=True)
class StoreInfo:
    """Counts of what a store holds.

    Attributes:
        location: Path of the store's file, or URL of the database without password and options.
        size: Size in bytes: of the file, or of the tables on a server.
        systems: Number of systems.
        measurements: Number of measurements, failed ones included.
        failures: Number of measurements that failed.
        observations: Number of observations in all measurements.
    """

    location: str
    size: int
    systems: int
    measurements: int
    failures: int
    observations: int


class ResultStore:
    """Results of all runs on one or many systems, in a SQLite file or a PostgreSQL database.

    Every change is committed before its method returns, so that a killed process loses
    nothing but what it was measuring. Several processes can write to one store. Where a row is
    damaged, it is left out, and a warning names it. Where a server was lost, methods wait for it,
    and do again what it has not kept.

    Args:
        place: Where the store is kept.
        writes: Whether results will be added.

    Attributes:
        place: Where the store is kept. Its text, for people, holds no password.

    Example:
        >>> with ResultStore.open("results.db") as store:  # doctest: +SKIP
        ...     store.add_samples(question, Observation(session, 0, (1.25,)), layers=["Conv"])
        ...     store.get([question])[question].values
        (1.25,)
    """

    def __init__(self, place: Database, *, writes: bool = True) -> None:
        self.place = place
        self._engine = patiently(place, place.connect if writes else place.snapshot)
        # The pool keeps the connection: while it is open, no other file gets this one's identity.
        with place.translated():
            self._engine.connect().close()
        self._identity = place.identity() if writes else None

    @classmethod
    def open(cls, location: str | Path | None = None, *, writes: bool = True) -> Self:
        """Opens a store, creating it if there is none and upgrading an older one.

        Args:
            location: Path, or URL of a SQLite file or a PostgreSQL database; ``None`` for the
                file in the user's data folder.
            writes: Whether results will be added. If not, no right to write is needed, and no
                store is created. A file is read as it is now.

        Raises:
            StoreError: If the database cannot be used; it is left as it was.
        """
        return cls(locate(location), writes=writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_exception: object) -> None:
        self.close()
        if error is None:
            self._check_kept()

    def close(self) -> None:
        """Closes the connection. Everything is committed already."""
        self._engine.dispose()

    def add_samples(
        self, question: Question, observation: Observation, layers: Sequence[str] = ()
    ) -> None:
        """Adds an observation to a measurement, which is created when it is new.

        Args:
            question: Identity of the measurement.
            observation: Values that were taken together; the measurement must not have any of
                the same session and round.
            layers: Operator names, for people; only used for a new measurement.
        """
        self.add_all([(question, observation, layers)])

    @again_when_lost
    def add_all(
        self,
        taken: Iterable[tuple[Question, Observation, Sequence[str]]],
        instead_of: Iterable[Question] = (),
    ) -> None:
        """Adds observations to several measurements, all or none of them.

        The very same observations are added once, however often this is called.

        Args:
            taken: Arguments of :meth:`add_samples` for each observation.
            instead_of: Measurements that are removed first, in the same step.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        taken = list(taken)
        with self._writing() as connection:
            if taken and _has(connection, *taken[0][:2]):
                return  # a server that was lost had committed all of them
            for condition in _conditions(instead_of):
                connection.execute(delete(measurements).where(condition))
            self._introduce(connection, (question for question, _, _ in taken))
            rows = [
                {
                    "measurement_id": _identify(connection, question, layers),
                    **observation.to_dict(),
                }
                for question, observation, layers in taken
            ]
            connection.execute(insert(observations), rows)

    @again_when_lost
    def record_failure(self, question: Question, reason: str, layers: Sequence[str] = ()) -> None:
        """Notes why a measurement failed; its observations stay."""
        with self._writing() as connection:
            self._introduce(connection, [question])
            found = measurements.c.id == _identify(connection, question, layers)
            connection.execute(update(measurements).where(found).values(failure=_storable(reason)))

    @again_when_lost
    def get(self, questions: Iterable[Question]) -> dict[Question, Measurement]:
        """Measurements of these questions, failed ones included; others have no entry.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        questions = list(questions)
        with self._reading() as connection, Reader(connection, self.place) as reader:
            self._unknown(connection, questions)
            return {
                found.question: found
                for condition in _conditions(questions)
                for found in reader.measurements(condition)
            }

    def measurements(self) -> Iterator[Measurement]:
        """All measurements, oldest first; they are read in batches."""
        last: int | None = 0
        while last is not None:
            loaded, last = self._next_batch(last)
            yield from loaded

    @again_when_lost
    def _next_batch(self, last: int) -> tuple[list[Measurement], int | None]:
        """Measurements after the one of this id, and the last one's id, if there may be more."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            after = select(measurements.c.id).where(measurements.c.id > last)
            ids = connection.scalars(after.order_by(measurements.c.id).limit(BATCH)).all()
            if not ids:
                return [], None
            return reader.measurements(measurements.c.id.between(ids[0], ids[-1])), ids[-1]

    @again_when_lost
    def setups(self, backend: str) -> list[tuple[Setup, str]]:
        """Setups of a backend under which networks were measured, each with a system's fingerprint.

        Those of which the store holds most come first.
        """
        columns = [measurements.c[each.name] for each in fields(Setup)]
        query = select(*columns, measurements.c.system).where(measurements.c.backend == backend)
        query = query.group_by(*columns, measurements.c.system).order_by(func.count().desc())
        with self._reading() as connection:
            return [(Setup(*row[:-1]), row[-1]) for row in connection.execute(query)]

    @again_when_lost
    def sampled(self, quantity: Quantity, backend: str | None = None) -> list[Sampled]:
        """Values of a quantity, of all networks that have some, oldest first.

        Args:
            quantity: What was measured.
            backend: Name of the backend; ``None`` for every one.
        """
        condition = measurements.c.quantity == quantity.name
        if backend is not None:
            condition &= measurements.c.backend == backend
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.sampled(condition)

    @again_when_lost
    def keep_networks(self, described: Iterable[NetworkFeatures]) -> None:
        """Keeps features of networks, in place of those of other versions; groups add up."""
        new = {each.signature: each for each in described}
        with self._writing() as connection, Reader(connection, self.place) as reader:
            for signatures in _batches(new):
                same = networks.c.signature.in_(signatures)
                known = reader.networks(same)
                connection.execute(delete(networks).where(same))
                connection.execute(
                    insert(networks),
                    [_network_row(new[s], known.get(s, new[s]).groups) for s in signatures],
                )

    @again_when_lost
    def networks(
        self, version: str, signatures: Iterable[str] | None = None
    ) -> dict[str, NetworkFeatures]:
        """Features of networks, by signature.

        Args:
            version: Version of the features; others are left out.
            signatures: Networks that are asked for; ``None`` for all.
        """
        condition = networks.c.version == version
        with self._reading() as connection, Reader(connection, self.place) as reader:
            if signatures is None:
                return reader.networks(condition)
            found: dict[str, NetworkFeatures] = {}
            for each in _batches(signatures):
                found |= reader.networks(condition & networks.c.signature.in_(each))
            return found

    @again_when_lost
    def remember_system(self, fingerprint: str, facts: Mapping[str, Any]) -> None:
        """Keeps facts about a system, in place of those that the store has."""
        with self._writing() as connection:
            connection.execute(delete(systems).where(systems.c.fingerprint == fingerprint))
            connection.execute(insert(systems), {"fingerprint": fingerprint, "facts": dict(facts)})

    @again_when_lost
    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.systems()

    @again_when_lost
    def keep_session(self, session: Session) -> None:
        """Keeps a session, in place of an earlier record with the same id."""
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session.id))
            connection.execute(insert(sessions), session.to_dict())

    @again_when_lost
    def sessions(self) -> list[Session]:
        """Sessions, oldest first; DLBricks did not record them before version 0004 of the store."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.sessions()

    @again_when_lost
    def keep_calibration(self, calibration: Calibration) -> None:
        """Keeps a calibration, in place of an earlier one with the same key."""
        key = calibration.key.text
        with self._writing() as connection:
            connection.execute(delete(calibrations).where(calibrations.c.key == key))
            connection.execute(insert(calibrations), {"key": key, "found": calibration.to_dict()})

    @again_when_lost
    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """Calibration of this key; ``None`` if there is none."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.calibration(key)

    @again_when_lost
    def forget_calibration(self, key: CalibrationKey) -> bool:
        """Removes the calibration of this key.

        Returns:
            Whether there was one.
        """
        with self._writing() as connection:
            same = calibrations.c.key == key.text
            return bool(connection.execute(delete(calibrations).where(same)).rowcount)

    @again_when_lost
    def keep_rewrite(self, signature: str, setup: Setup, system: str, graph: bytes) -> None:
        """Keeps the graph that a backend makes of a model, in place of an earlier one.

        Args:
            signature: Signature of the whole model.
            setup: How the model would run; its protocol makes no difference.
            system: Fingerprint of the system that the backend ran on; frameworks choose layouts
                by the processor.
            graph: Serialized graph. The store compresses it.
        """
        key = _rewrite_key(signature, setup, system)
        with self._writing() as connection:
            connection.execute(delete(rewrites).where(_all_equal(rewrites, key)))
            connection.execute(insert(rewrites), {**key, "graph": zlib.compress(graph)})

    @again_when_lost
    def rewrite(self, signature: str, setup: Setup, system: str) -> bytes | None:
        """Serialized graph that :meth:`keep_rewrite` got for the same; ``None`` if it got none."""
        key = _rewrite_key(signature, setup, system)
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.rewrite(_all_equal(rewrites, key))

    @again_when_lost
    def merge(
        self,
        others: Iterable[Measurement],
        from_systems: Mapping[str, Mapping[str, Any]] | None = None,
        in_sessions: Iterable[Session] = (),
    ) -> int:
        """Adds what was measured elsewhere; what the store has stays as it is.

        Args:
            others: Measurements.
            from_systems: Facts about the systems that they were made on, by fingerprint.
            in_sessions: Sessions that they were made in.

        Returns:
            Number of observations that were new.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        others, added = list(others), 0
        with self._writing() as connection:
            self._introduce(connection, (other.question for other in others))
            known = set(connection.scalars(select(systems.c.fingerprint)))
            for fingerprint, facts in (from_systems or {}).items():
                if fingerprint not in known:
                    row = {"fingerprint": fingerprint, "facts": dict(facts)}
                    connection.execute(insert(systems), row)
            known = set(connection.scalars(select(sessions.c.id)))
            for session in in_sessions:
                if session.id not in known:
                    connection.execute(insert(sessions), session.to_dict())
            for other in others:
                added += _add_missing(connection, other)
        return added

    @again_when_lost
    def info(self) -> StoreInfo:
        """Counts of what the store holds."""
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

    def _introduce(self, connection: Connection, questions: Iterable[Question]) -> None:
        """Adds the quantities that the store does not have yet."""
        if unknown := self._unknown(connection, questions):
            connection.execute(insert(quantities), [each.to_dict() for each in unknown])

    def _unknown(self, connection: Connection, questions: Iterable[Question]) -> list[Quantity]:
        """Quantities that the store does not have yet.

        Raises:
            StoreError: If it has one in another unit.
        """
        units = {row.name: row.unit for row in connection.execute(select(quantities))}
        wanted = {question.quantity for question in questions}
        for each in wanted:
            if units.get(each.name, each.unit) != each.unit:
                raise StoreError(
                    f"{self.place}: the result store holds {each.name} in {units[each.name]}, "
                    f"and not in {each.unit}",
                    f"choose another {self.place.noun} with {argument('store')}",
                )
        return sorted(each for each in wanted if each.name not in units)

    def _check_kept(self) -> None:
        """Raises an error if another file, or none, has taken the place of the one opened."""
        if self._identity is not None and self.place.identity() != self._identity:
            raise StoreError(
                f"{self.place}: the result store was deleted or replaced during the run",
                "what was measured since is lost; run it again",
            )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Connection with one consistent view of the store."""
        self._check_kept()
        with self.place.transaction(self._engine, writes=False) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Connection whose changes are committed together; no other process writes meanwhile."""
        self._check_kept()
        with self.place.transaction(self._engine, writes=True) as connection:
            yield connection


def _identify(
    connection: Connection,
    question: Question,
    layers: Sequence[str],
    failure: str | None = None,
) -> int:
    """Id of a measurement's row, which is created when it is new."""
    columns = columns_of(question)
    same = _all_equal(measurements, columns)
    found = connection.scalar(select(measurements.c.id).where(same))
    if found is not None:
        return int(found)
    row = {**columns, "layers": list(layers), "failure": failure and _storable(failure)}
    created = connection.execute(insert(measurements).values(row)).inserted_primary_key
    assert created is not None
    return int(created[0])


def _has(connection: Connection, question: Question, observation: Observation) -> bool:
    """Whether the store has the very observation, and not only one of its session and round."""
    row = observation.to_dict()
    known = {name: row[name] for name in ("session", "round", "taken_at")}
    query = select(observations.c.id).join(measurements)
    query = query.where(_all_equal(measurements, columns_of(question)))
    found = connection.scalar(query.where(_all_equal(observations, known)))
    return found is not None


def _add_missing(connection: Connection, other: Measurement) -> int:
    """Number of observations that the store lacked of a measurement; they are added."""
    identifier = _identify(connection, other.question, other.layers, other.failure)
    owned = observations.c.measurement_id == identifier
    query = select(observations.c.session, observations.c.round).where(owned)
    known = {(row.session, row.round) for row in connection.execute(query)}
    rows = [
        {"measurement_id": identifier, **each.to_dict()}
        for each in other.observations
        if (each.session, each.round) not in known
    ]
    if rows:
        connection.execute(insert(observations), rows)
    return len(rows)


def _rewrite_key(signature: str, setup: Setup, system: str) -> dict[str, Any]:
    """Values of the key columns of a rewritten graph."""
    key = {"signature": signature, **asdict(setup), "system": system}
    del key["protocol"]
    return key


def _all_equal(table: Table, columns: Mapping[str, Any]) -> ColumnElement[bool]:
    """Condition for rows that have these values."""
    return and_(*(table.c[name] == value for name, value in columns.items()))


def _storable(text: str) -> str:
    """The text as databases hold it: bytes that are no UTF-8, and NUL, become escapes."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _network_row(network: NetworkFeatures, groups: frozenset[str]) -> dict[str, Any]:
    return {
        "signature": network.signature,
        "version": network.version,
        "kinds": list(network.kinds),
        "numbers": zlib.compress(network.numbers),
        "groups": sorted(network.groups | groups),
    }


def _batches(signatures: Iterable[str]) -> Iterator[list[str]]:
    """Signatures that one statement takes, each once."""
    every = list(dict.fromkeys(signatures))
    return (every[start : start + BATCH] for start in range(0, len(every), BATCH))


def _conditions(questions: Iterable[Question]) -> Iterator[ColumnElement[bool]]:
    """A few conditions that together select the rows of exactly these questions."""
    signatures = defaultdict(list)
    for question in dict.fromkeys(questions):
        columns = columns_of(question)
        signature = columns.pop("signature")
        signatures[tuple(columns.items())].append(signature)
    for columns_in_common, group in signatures.items():
        same = [measurements.c[name] == value for name, value in columns_in_common]
        for batch in _batches(group):
            yield and_(*same, measurements.c.signature.in_(batch))

"""The result store: everything that was ever measured, committed as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    func,
    insert,
    select,
    true,
    update,
)

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    Calibration,
    CalibrationKey,
    Machine,
    MachineName,
    Measurement,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Rewrite,
    Sampled,
    Session,
    Setup,
)
from dlbricks_core.store.columns import BATCH, all_equal, batches, columns_of, conditions
from dlbricks_core.store.contents import selected
from dlbricks_core.store.database import Database, patiently
from dlbricks_core.store.inventory import Inventory, inventory_of, machines_of
from dlbricks_core.store.location import locate
from dlbricks_core.store.merging import (
    Merged,
    Merger,
    keep_calibration,
    network_row,
    rewrite_row,
    storable,
    unknown_quantities,
)
from dlbricks_core.store.pruning import Pruned, prune
from dlbricks_core.store.records import Record
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import (
    calibrations,
    measurements,
    networks,
    observations,
    rewrites,
    sessions,
    systems,
)
from dlbricks_core.store.selection import EVERYTHING, Selection, measured_by_no_other

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
        if store.place.file is not None:
            return method(store, *given, **named)  # nobody loses a file
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


class _RehearsedError(Exception):
    """Ends a transaction whose changes are not to be kept."""


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
        self._taken: ColumnElement[bool] | None = None

    @classmethod
    def open(
        cls, location: str | Path | None = None, *, writes: bool = True, create: bool = True
    ) -> Self:
        """Opens a store, creating it if there is none and upgrading an older one.

        Args:
            location: Path, or URL of a SQLite file or a PostgreSQL database; ``None`` for the
                file in the user's data folder.
            writes: Whether results will be added. If not, no right to write is needed, and no
                store is created. A file is read as it is now.
            create: Whether a store that is not there is taken for an empty one.

        Raises:
            StoreError: If the database cannot be used; it is left as it was.
        """
        place = locate(location)
        if not create:
            patiently(place, place.check_exists)
        return cls(place, writes=writes)

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
            for condition in conditions(instead_of):
                connection.execute(delete(measurements).where(condition))
            _introduce(connection, self.place, (question for question, _, _ in taken))
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
            _introduce(connection, self.place, [question])
            found = measurements.c.id == _identify(connection, question, layers)
            connection.execute(update(measurements).where(found).values(failure=storable(reason)))

    @again_when_lost
    def get(self, questions: Iterable[Question]) -> dict[Question, Measurement]:
        """Measurements of these questions, failed ones included; others have no entry.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        questions = list(questions)
        with self._reading() as connection, self._reader(connection) as reader:
            unknown_quantities(connection, self.place, (each.quantity for each in questions))
            return {
                found.question: found
                for condition in conditions(questions)
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
        with self._reading() as connection, self._reader(connection) as reader:
            after = select(measurements.c.id).where(measurements.c.id > last)
            ids = connection.scalars(after.order_by(measurements.c.id).limit(BATCH)).all()
            if not ids:
                return [], None
            return reader.measurements(measurements.c.id.between(ids[0], ids[-1])), ids[-1]

    @again_when_lost
    def outlines(self) -> list[Measurement]:
        """All measurements without their observations, oldest first."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.outlines()

    @again_when_lost
    def model_names(self) -> dict[str, str]:
        """Names of whole models by signature, as far as calibrations tell them."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.model_names()

    @again_when_lost
    def backends(self) -> list[str]:
        """Names of the backends that networks were measured with."""
        query = select(measurements.c.backend).distinct().order_by(measurements.c.backend)
        with self._reading() as connection:
            return list(connection.scalars(query))

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
        with self._reading() as connection, self._reader(connection) as reader:
            return reader.sampled(condition)

    @again_when_lost
    def keep_networks(self, described: Iterable[NetworkFeatures]) -> None:
        """Keeps features of networks, in place of those of other versions; groups add up."""
        new = {each.signature: each for each in described}
        with self._writing() as connection, Reader(connection, self.place) as reader:
            for signatures in batches(new):
                same = networks.c.signature.in_(signatures)
                known = reader.networks(same)
                connection.execute(delete(networks).where(same))
                connection.execute(
                    insert(networks),
                    [
                        network_row(replace(new[s], groups=new[s].groups | known[s].groups))
                        if s in known
                        else network_row(new[s])
                        for s in signatures
                    ],
                )

    @again_when_lost
    def networks(
        self, version: str | None, signatures: Iterable[str] | None = None
    ) -> dict[str, NetworkFeatures]:
        """Features of networks, by signature.

        Args:
            version: Version of the features; others are left out. ``None`` for any.
            signatures: Networks that are asked for; ``None`` for all.
        """
        condition = true() if version is None else networks.c.version == version
        with self._reading() as connection, Reader(connection, self.place) as reader:
            if signatures is None:
                return reader.networks(condition)
            found: dict[str, NetworkFeatures] = {}
            for each in batches(signatures):
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
        with self._writing() as connection:
            keep_calibration(connection, calibration)

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
            connection.execute(delete(rewrites).where(all_equal(rewrites, key)))
            connection.execute(insert(rewrites), rewrite_row(Rewrite(**key, graph=graph)))

    @again_when_lost
    def rewrite(self, signature: str, setup: Setup, system: str) -> bytes | None:
        """Serialized graph that :meth:`keep_rewrite` got for the same; ``None`` if it got none."""
        key = _rewrite_key(signature, setup, system)
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return next((each.graph for each in reader.rewrites(all_equal(rewrites, key))), None)

    @again_when_lost
    def rewritten(self) -> list[tuple[str, Setup, str]]:
        """Arguments of :meth:`rewrite` for every graph that is kept; the protocol is empty."""
        names = [each.name for each in fields(Setup) if each.name != "protocol"]
        columns = [rewrites.c[name] for name in names]
        query = select(rewrites.c.signature, rewrites.c.system, *columns)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(*rewrites.primary_key)).all()
        return [
            (row.signature, Setup(**{n: row._mapping[n] for n in names}, protocol=""), row.system)
            for row in rows
        ]

    @again_when_lost
    def merge(self, records: Iterable[Record]) -> Merged:
        """Adds what was measured elsewhere, all or none of it; see :class:`Merger`.

        Args:
            records: What another store holds.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        with self._writing() as connection:
            merger = Merger(connection, self.place)
            merger.add(records)
            return merger.merged

    def records(self, selection: Selection = EVERYTHING) -> Iterator[Record]:
        """All that the store holds, or a part of it, with what belongs to that.

        Args:
            selection: Machines and backends whose measurements are asked for.
        """
        with self._reading() as connection:
            yield from selected(connection, self.place, selection)

    def within(self, machine: Machine) -> Self:
        """This store without what other machines of the same fingerprint measured.

        It uses the same connections: close the original.
        """
        narrowed = copy(self)
        narrowed._taken = measured_by_no_other(machine)
        return narrowed

    @again_when_lost
    def inventory(self) -> Inventory:
        """What the store holds, by machine and setup."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return inventory_of(connection, reader)

    @again_when_lost
    def machines(self) -> list[Machine]:
        """Machines that measured, by fingerprint and name."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return machines_of(connection, reader)

    @again_when_lost
    def name_machine(self, machine: Machine, name: str) -> None:
        """Gives a machine a name, in place of the one that it had."""
        named = [MachineName(machine.system, host, name) for host in sorted(machine.hosts)]
        with self._writing() as connection:
            Merger(connection, self.place).add(named)

    @again_when_lost
    def prune(self, selection: Selection, *, rehearse: bool = False) -> Pruned:
        """Deletes a part of the store, with what nothing else needs then.

        Args:
            selection: What is deleted.
            rehearse: Whether to delete nothing, and only tell what would be.
        """
        pruned = Pruned()
        with suppress(_RehearsedError), self._writing() as connection:
            pruned = prune(connection, self.place, selection)
            if rehearse:
                raise _RehearsedError
        return pruned

    @again_when_lost
    def compact(self) -> int:
        """Gives space that nothing needs back to the file system.

        Returns:
            Bytes that were freed.
        """
        return self.place.compact(self._engine)

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

    def _reader(self, connection: Connection) -> Reader:
        return Reader(connection, self.place, self._taken)

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


def _introduce(connection: Connection, place: Database, questions: Iterable[Question]) -> None:
    """Adds the quantities that the store does not have yet."""
    Merger(connection, place).introduce(question.quantity for question in questions)


def _identify(
    connection: Connection,
    question: Question,
    layers: Sequence[str],
) -> int:
    """Id of a measurement's row, which is created when it is new."""
    columns = columns_of(question)
    same = all_equal(measurements, columns)
    found = connection.scalar(select(measurements.c.id).where(same))
    if found is not None:
        return int(found)
    row = {**columns, "layers": list(layers), "failure": None}
    created = connection.execute(insert(measurements).values(row)).inserted_primary_key
    assert created is not None
    return int(created[0])


def _has(connection: Connection, question: Question, observation: Observation) -> bool:
    """Whether the store has the very observation, and not only one of its session and round."""
    row = observation.to_dict()
    known = {name: row[name] for name in ("session", "round", "taken_at")}
    query = select(observations.c.id).join(measurements)
    query = query.where(all_equal(measurements, columns_of(question)))
    found = connection.scalar(query.where(all_equal(observations, known)))
    return found is not None


def _rewrite_key(signature: str, setup: Setup, system: str) -> dict[str, Any]:
    """Values of the key columns of a rewritten graph."""
    key = {"signature": signature, **asdict(setup), "system": system}
    del key["protocol"]
    return key

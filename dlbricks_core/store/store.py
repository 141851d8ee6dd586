"""The result store: everything that was ever measured, committed as soon as it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
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
from dlbricks_core.store import database
from dlbricks_core.store.columns import BATCH, all_equal, batches, columns_of, conditions
from dlbricks_core.store.contents import selected
from dlbricks_core.store.inventory import Inventory, inventory_of, machines_of
from dlbricks_core.store.merging import (
    Merged,
    Merger,
    keep_calibration,
    network_row,
    rewrite_row,
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


@dataclass(frozen=True)
class StoreInfo:
    """Counts of what a store holds.

    Attributes:
        location: Path of the store's file.
        size: Size of the file in bytes.
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
    """Results of all runs on one or many systems, in a SQLite file.

    Every change is committed before its method returns, so that a killed process loses
    nothing but what it was measuring. Several processes can write to one store. Where a row is
    damaged, it is left out, and a warning names it.

    Args:
        path: Path of the file.
        writes: Whether results will be added.

    Attributes:
        path: Path of the file.

    Example:
        >>> with ResultStore.open("results.db") as store:  # doctest: +SKIP
        ...     store.add_samples(question, Observation(session, 0, (1.25,)), layers=["Conv"])
        ...     store.get([question])[question].values
        (1.25,)
    """

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self.path = path
        self._engine = database.connect(path) if writes else database.snapshot(path)
        # The pool keeps the connection: while it is open, no other file gets this one's identity.
        with database.translated(path):
            self._engine.connect().close()
        self._file = database.identity(path) if writes else None
        self._taken: ColumnElement[bool] | None = None

    @classmethod
    def open(
        cls, location: str | Path | None = None, *, writes: bool = True, create: bool = True
    ) -> Self:
        """Opens a store, creating it if there is none and upgrading an older one.

        Args:
            location: Path or SQLite URL; ``None`` for the store in the user's data folder.
            writes: Whether results will be added. If not, the store is read as it is now: no
                right to write is needed, and no file is created.
            create: Whether a store that is not there is taken for an empty one.

        Raises:
            StoreError: If the file cannot be used; it is left as it was.
        """
        path = database.locate(location)
        if not create:
            database.check_exists(path)
        return cls(path, writes=writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_exception: object) -> None:
        self.close()
        if error is None:
            self._check_kept()

    def close(self) -> None:
        """Closes the file. Everything is committed already."""
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

    def add_all(
        self,
        taken: Iterable[tuple[Question, Observation, Sequence[str]]],
        instead_of: Iterable[Question] = (),
    ) -> None:
        """Adds observations to several measurements, all or none of them.

        Args:
            taken: Arguments of :meth:`add_samples` for each observation.
            instead_of: Measurements that are removed first, in the same step.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        taken = list(taken)
        with self._writing() as connection:
            for condition in conditions(instead_of):
                connection.execute(delete(measurements).where(condition))
            _introduce(connection, self.path, (question for question, _, _ in taken))
            rows = [
                {
                    "measurement_id": _identify(connection, question, layers),
                    **observation.to_dict(),
                }
                for question, observation, layers in taken
            ]
            connection.execute(insert(observations), rows)

    def record_failure(self, question: Question, reason: str, layers: Sequence[str] = ()) -> None:
        """Notes why a measurement failed; its observations stay."""
        with self._writing() as connection:
            _introduce(connection, self.path, [question])
            found = measurements.c.id == _identify(connection, question, layers)
            connection.execute(update(measurements).where(found).values(failure=_storable(reason)))

    def get(self, questions: Iterable[Question]) -> dict[Question, Measurement]:
        """Measurements of these questions, failed ones included; others have no entry.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        questions = list(questions)
        with self._reading() as connection, self._reader(connection) as reader:
            unknown_quantities(connection, self.path, (each.quantity for each in questions))
            return {
                found.question: found
                for condition in conditions(questions)
                for found in reader.measurements(condition)
            }

    def measurements(self) -> Iterator[Measurement]:
        """All measurements, oldest first; they are read in batches."""
        last = 0
        while True:
            with self._reading() as connection:
                after = select(measurements.c.id).where(measurements.c.id > last)
                ids = connection.scalars(after.order_by(measurements.c.id).limit(BATCH)).all()
                if not ids:
                    return
                with self._reader(connection) as reader:
                    loaded = reader.measurements(measurements.c.id.between(ids[0], ids[-1]))
            yield from loaded
            last = ids[-1]

    def setups(self, backend: str) -> list[tuple[Setup, str]]:
        """Setups of a backend under which networks were measured, each with a system's fingerprint.

        Those of which the store holds most come first.
        """
        columns = [measurements.c[each.name] for each in fields(Setup)]
        query = select(*columns, measurements.c.system).where(measurements.c.backend == backend)
        query = query.group_by(*columns, measurements.c.system).order_by(func.count().desc())
        with self._reading() as connection:
            return [(Setup(*row[:-1]), row[-1]) for row in connection.execute(query)]

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

    def keep_networks(self, described: Iterable[NetworkFeatures]) -> None:
        """Keeps features of networks, in place of those of other versions; groups add up."""
        new = {each.signature: each for each in described}
        with self._writing() as connection, Reader(connection, self.path) as reader:
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

    def networks(
        self, version: str, signatures: Iterable[str] | None = None
    ) -> dict[str, NetworkFeatures]:
        """Features of networks, by signature.

        Args:
            version: Version of the features; others are left out.
            signatures: Networks that are asked for; ``None`` for all.
        """
        condition = networks.c.version == version
        with self._reading() as connection, Reader(connection, self.path) as reader:
            if signatures is None:
                return reader.networks(condition)
            found: dict[str, NetworkFeatures] = {}
            for each in batches(signatures):
                found |= reader.networks(condition & networks.c.signature.in_(each))
            return found

    def remember_system(self, fingerprint: str, facts: Mapping[str, Any]) -> None:
        """Keeps facts about a system, in place of those that the store has."""
        with self._writing() as connection:
            connection.execute(delete(systems).where(systems.c.fingerprint == fingerprint))
            connection.execute(insert(systems), {"fingerprint": fingerprint, "facts": dict(facts)})

    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        with self._reading() as connection, Reader(connection, self.path) as reader:
            return reader.systems()

    def keep_session(self, session: Session) -> None:
        """Keeps a session, in place of an earlier record with the same id."""
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session.id))
            connection.execute(insert(sessions), session.to_dict())

    def sessions(self) -> list[Session]:
        """Sessions, oldest first; DLBricks did not record them before version 0004 of the store."""
        with self._reading() as connection, Reader(connection, self.path) as reader:
            return reader.sessions()

    def keep_calibration(self, calibration: Calibration) -> None:
        """Keeps a calibration, in place of an earlier one with the same key."""
        with self._writing() as connection:
            keep_calibration(connection, calibration)

    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """Calibration of this key; ``None`` if there is none."""
        with self._reading() as connection, Reader(connection, self.path) as reader:
            return reader.calibration(key)

    def forget_calibration(self, key: CalibrationKey) -> bool:
        """Removes the calibration of this key.

        Returns:
            Whether there was one.
        """
        with self._writing() as connection:
            same = calibrations.c.key == key.text
            return bool(connection.execute(delete(calibrations).where(same)).rowcount)

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

    def rewrite(self, signature: str, setup: Setup, system: str) -> bytes | None:
        """Serialized graph that :meth:`keep_rewrite` got for the same; ``None`` if it got none."""
        key = _rewrite_key(signature, setup, system)
        with self._reading() as connection, Reader(connection, self.path) as reader:
            return next((each.graph for each in reader.rewrites(all_equal(rewrites, key))), None)

    def merge(self, records: Iterable[Record]) -> Merged:
        """Adds what was measured elsewhere, all or none of it; see :class:`Merger`.

        Args:
            records: What another store holds.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        with self._writing() as connection:
            merger = Merger(connection, self.path)
            merger.add(records)
            return merger.merged

    def records(self, selection: Selection = EVERYTHING) -> Iterator[Record]:
        """All that the store holds, or a part of it, with what belongs to that.

        Args:
            selection: Machines and backends whose measurements are asked for.
        """
        with self._reading() as connection:
            yield from selected(connection, self.path, selection)

    def within(self, machine: Machine) -> Self:
        """This store without what other machines of the same fingerprint measured.

        It uses the same connections: close the original.
        """
        narrowed = copy(self)
        narrowed._taken = measured_by_no_other(machine)
        return narrowed

    def inventory(self) -> Inventory:
        """What the store holds, by machine and setup."""
        with self._reading() as connection, Reader(connection, self.path) as reader:
            return inventory_of(connection, reader)

    def machines(self) -> list[Machine]:
        """Machines that measured, by fingerprint and name."""
        with self._reading() as connection, Reader(connection, self.path) as reader:
            return machines_of(connection, reader)

    def name_machine(self, machine: Machine, name: str) -> None:
        """Gives a machine a name, in place of the one that it had."""
        named = [MachineName(machine.system, host, name) for host in sorted(machine.hosts)]
        with self._writing() as connection:
            Merger(connection, self.path).add(named)

    def prune(self, selection: Selection, *, rehearse: bool = False) -> Pruned:
        """Deletes a part of the store, with what nothing else needs then.

        Args:
            selection: What is deleted.
            rehearse: Whether to delete nothing, and only tell what would be.
        """
        engine = self._engine.execution_options(writes=True)
        self._check_kept()
        with database.translated(self.path), engine.connect() as connection:
            transaction = connection.begin()
            pruned = prune(connection, self.path, selection)
            transaction.rollback() if rehearse else transaction.commit()
        return pruned

    def compact(self) -> int:
        """Gives space that nothing needs back to the file system.

        Returns:
            Bytes that were freed.
        """
        with database.translated(self.path):
            return database.compact(self._engine, self.path)

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
        return StoreInfo(location=str(self.path), size=self.path.stat().st_size, **found)

    def _reader(self, connection: Connection) -> Reader:
        return Reader(connection, self.path, self._taken)

    def _check_kept(self) -> None:
        """Raises an error if another file, or none, has taken the place of the one opened."""
        if self._file is not None and database.identity(self.path) != self._file:
            raise StoreError(
                f"{self.path}: the result store was deleted or replaced during the run",
                "what was measured since is lost; run it again",
            )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Connection with one consistent view of the store."""
        self._check_kept()
        with database.translated(self.path), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Connection whose changes are committed together; no other process writes meanwhile."""
        self._check_kept()
        engine = self._engine.execution_options(writes=True)
        with database.translated(self.path), engine.begin() as connection:
            yield connection


def _introduce(connection: Connection, path: Path, questions: Iterable[Question]) -> None:
    """Adds the quantities that the store does not have yet."""
    Merger(connection, path).introduce(question.quantity for question in questions)


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


def _rewrite_key(signature: str, setup: Setup, system: str) -> dict[str, Any]:
    """Values of the key columns of a rewritten graph."""
    key = {"signature": signature, **asdict(setup), "system": system}
    del key["protocol"]
    return key


def _storable(text: str) -> str:
    """The text as UTF-8 can hold it: other bytes, as in names of files, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")

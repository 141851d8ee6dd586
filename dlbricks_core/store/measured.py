"""Measurements with their observations and failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    delete,
    func,
    insert,
    select,
    type_coerce,
    update,
)

from dlbricks_core.facts import Measurement, Observation, Quantity, Question, Sampled, Setup
from dlbricks_core.limits import parsed
from dlbricks_core.store.opened import OpenStore, again_when_lost
from dlbricks_core.store.questions import (
    BATCH,
    KEY,
    all_equal,
    all_given,
    batches,
    columns_of,
    conditions,
    is_key,
    owners,
    readable,
)
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import measurements, observations
from dlbricks_core.store.written import introduce, storable, unknown_quantities


class MeasurementStore(OpenStore):
    """The part of a store that holds measurements."""

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
        with self.writing() as connection:
            if taken and _has(connection, *taken[0][:2]):
                return  # a server that was lost had committed all of them
            for condition in conditions(instead_of):
                connection.execute(delete(measurements).where(condition))
            introduce(connection, self.place, (question.quantity for question, _, _ in taken))
            rows = [
                {
                    "measurement_id": _identify(connection, question, layers),
                    **observation.to_dict(),
                }
                for question, observation, layers in taken
            ]
            connection.execute(insert(observations), rows)

    @again_when_lost
    def mark(self, questions: Iterable[Question], flag: str) -> None:
        """Flags all observations of some questions, so that they are used for no other network.

        Args:
            questions: The questions; questions without observations have no effect.
            flag: The flag.
        """
        with self.writing() as connection:
            for condition in conditions(questions):
                flags_text = type_coerce(observations.c.flags, String).label("flags")
                rows = select(observations.c.id, flags_text).join(measurements)
                for row in connection.execute(rows.where(condition)).all():
                    flags = list(dict.fromkeys((*parsed(row.flags), flag)))
                    same = observations.c.id == row.id
                    connection.execute(update(observations).where(same).values(flags=flags))

    @again_when_lost
    def record_failure(
        self,
        question: Question,
        reason: str,
        layers: Sequence[str] = (),
        *,
        unsupported: bool = False,
    ) -> None:
        """Notes why a measurement failed; its observations stay.

        Args:
            question: Identity of the measurement.
            reason: Why it failed.
            layers: Operator names, for people; only used for a new measurement.
            unsupported: Whether the backend does not support a layer.
        """
        with self.writing() as connection:
            introduce(connection, self.place, [question.quantity])
            found = measurements.c.id == _identify(connection, question, layers)
            told = {"failure": storable(reason), "unsupported": unsupported}
            connection.execute(update(measurements).where(found).values(told))

    @again_when_lost
    def get(self, questions: Iterable[Question]) -> dict[Question, Measurement]:
        """Measurements of these questions, including failures; other questions have no entry.

        Raises:
            StoreError: If the store holds one of the quantities in another unit.
        """
        questions = list(questions)
        with self.reading() as connection, self._reader(connection) as reader:
            unknown_quantities(connection, self.place, (each.quantity for each in questions))
            return {
                found.question: found
                for condition in conditions(questions)
                for found in reader.measurements(condition)
            }

    @again_when_lost
    def refused(self, setup: Setup, system: str) -> dict[str, str]:
        """Reason for each brick and model that the backend does not support, by its signature.

        Support of a network depends neither on threads nor on the measured quantity, so all of its
        measurements are used. One that succeeded counts more than any refusal.

        Args:
            setup: Backend with its versions and options.
            system: Fingerprint of the system.
        """
        c = measurements.c
        same = _same_support(setup, system)
        able = select(c.signature).where(same, c.failure.is_(None))
        query = select(c.signature, func.min(c.failure)).group_by(c.signature)
        query = query.where(same, c.unsupported, c.signature.not_in(able))
        with self.reading() as connection:
            return dict(tuple(row) for row in connection.execute(query) if readable(row))

    @again_when_lost
    def accept(self, setup: Setup, system: str, signatures: Iterable[str]) -> None:
        """Removes the failures that :meth:`refused` returns for networks.

        Args:
            setup: Backend with its versions and options.
            system: Fingerprint of the system.
            signatures: Signatures of the networks.
        """
        refused = _same_support(setup, system) & measurements.c.unsupported
        with self.writing() as connection:
            for batch in batches(signatures):
                named = measurements.c.signature.in_(batch)
                connection.execute(delete(measurements).where(refused & named))

    def measurements(self) -> Iterator[Measurement]:
        """All measurements, oldest first; they are read in batches."""
        last: int | None = 0
        while last is not None:
            loaded, last = self._next_batch(last)
            yield from loaded

    @again_when_lost
    def _next_batch(self, last: int) -> tuple[list[Measurement], int | None]:
        """Measurements after this id, and the last measurement's id if there may be more."""
        with self.reading() as connection, self._reader(connection) as reader:
            after = select(measurements.c.id).where(measurements.c.id > last)
            ids = connection.scalars(after.order_by(measurements.c.id).limit(BATCH)).all()
            if not ids:
                return [], None
            return reader.measurements(measurements.c.id.between(ids[0], ids[-1])), ids[-1]

    @again_when_lost
    def outlines(self) -> list[Measurement]:
        """All measurements without their observations, oldest first."""
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return reader.outlines()

    @again_when_lost
    def backends(self) -> list[str]:
        """Names of the backends that networks were measured with."""
        query = select(measurements.c.backend).distinct().order_by(measurements.c.backend)
        with self.reading() as connection:
            return [each for each in connection.scalars(query) if readable([each])]

    @again_when_lost
    def quantities(self) -> list[str]:
        """Names of the measured quantities, without parts of other quantities."""
        with self.reading() as connection:
            return sorted(set(owners(connection).values()))

    @again_when_lost
    def setups(self, backend: str) -> list[tuple[Setup, str]]:
        """Setups of a backend under which networks were measured, each with a system's fingerprint.

        Places with most measurements come first. Places with failures only are included, unless the
        store is limited to one of several equal machines: failures do not record their machine.
        """
        columns = [measurements.c[each.name] for each in fields(Setup)]
        query = select(*columns, measurements.c.system).where(measurements.c.backend == backend)
        if self._taken is not None:
            taken = select(observations.c.measurement_id).join(measurements).where(self._taken)
            query = query.where(measurements.c.id.in_(taken))
        query = query.group_by(*columns, measurements.c.system).order_by(func.count().desc())
        with self.reading() as connection:
            return [
                (Setup(*row[:-1]), row[-1])
                for row in connection.execute(query)
                if is_key(row._asdict())
            ]

    @again_when_lost
    def sampled(
        self, quantity: Quantity, backend: str | None = None, system: str | None = None
    ) -> list[Sampled]:
        """Values of a quantity, of all networks that have some, oldest first.

        Args:
            quantity: Measured question.
            backend: Name of the backend; ``None`` for every one.
            system: Fingerprint of the system; ``None`` for every one.
        """
        condition = measurements.c.quantity == quantity.name
        if system is not None:
            condition &= measurements.c.system == system
        if backend is not None:
            condition &= measurements.c.backend == backend
        with self.reading() as connection, self._reader(connection) as reader:
            return reader.sampled(condition)


_VERY_OBSERVATION = ("session", "round", "taken_at")

_MEASUREMENT = select(measurements.c.id).where(all_given(measurements, KEY))
_OBSERVATION = (
    select(observations.c.id)
    .join(measurements)
    .where(all_given(measurements, KEY), all_given(observations, _VERY_OBSERVATION))
)


def _same_support(setup: Setup, system: str) -> ColumnElement[bool]:
    """Condition for measurements of what a backend supports if it does in a setup."""
    names = ("backend", "version", "plugin", "options")
    columns = {name: getattr(setup, name) for name in names}
    return all_equal(measurements, columns | {"system": system}) & (measurements.c.kind != "native")


def _identify(
    connection: Connection,
    question: Question,
    layers: Sequence[str],
) -> int:
    """Id of a measurement's row, which is created when it is new."""
    columns = columns_of(question)
    found = connection.scalar(_MEASUREMENT, columns)
    if found is not None:
        return int(found)
    row = {**columns, "layers": list(layers), "failure": None}
    # Values apart from the statement: SQLAlchemy compiles it once.
    created = connection.execute(insert(measurements), row).inserted_primary_key
    assert created is not None
    return int(created[0])


def _has(connection: Connection, question: Question, observation: Observation) -> bool:
    """Whether the store has the very observation, and not only one of its session and round."""
    row = observation.to_dict()
    known = {name: row[name] for name in _VERY_OBSERVATION}
    return connection.scalar(_OBSERVATION, columns_of(question) | known) is not None

"""Rows of the database as records; damaged rows are left out and named."""

from __future__ import annotations

import warnings
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    Table,
    cast,
    func,
    select,
    true,
)
from sqlalchemy import type_coerce as coerced
from sqlalchemy.types import NullType

from dlbricks_core.facts import (
    LATENCY,
    SCENARIO_LATENCY,
    SCENARIO_THROUGHPUT,
    Calibration,
    CalibrationKey,
    MachineName,
    Measurement,
    NetworkFeatures,
    Observation,
    Pulse,
    Quantity,
    Rewrite,
    Sampled,
    Session,
    System,
)
from dlbricks_core.facts.checks import LARGEST, SMALLEST, TINIEST, checked, moment, text
from dlbricks_core.facts.observation import DISTURBED_LOAD
from dlbricks_core.limits import STORE, parsed, unpacked
from dlbricks_core.store.database import Damage
from dlbricks_core.store.questions import batches, key_of, question_of
from dlbricks_core.store.schema import (
    Bytewise,
    JoinedTexts,
    calibrations,
    machines,
    measurements,
    networks,
    observations,
    quantities,
    rewrites,
    sessions,
    systems,
)

KindT = TypeVar("KindT")

_NO_VALUES = {"layers", "failure", "unsupported"}
"""Columns of measurements that statistics over values do without."""

_OWN_QUANTITIES = {each.name: each for each in (LATENCY, SCENARIO_LATENCY, SCENARIO_THROUGHPUT)}

_WRONG = (ValueError, TypeError, AttributeError, RecursionError, OverflowError, zlib.error)
"""Errors that a row leads to in which something is not as it was written."""


class Reader:
    """Reads records through one connection.

    Args:
        connection: To the database.
        place: Where the store is kept, for warnings.
        taken: Condition for observations, joined with their measurements; others are passed over.
        damage: Damage that is known before.

    Attributes:
        damage: Damaged rows that were left out so far.
    """

    def __init__(
        self,
        connection: Connection,
        place: object,
        taken: ColumnElement[bool] | None = None,
        damage: Damage | None = None,
    ) -> None:
        self._taken = true() if taken is None else taken
        self._connection = connection
        self._place = place
        self._left = STORE.most * 2**20  # bytes that may still be unpacked
        self._known = dict(_OWN_QUANTITIES)
        self._looked_up: set[object] = set()  # names of quantities, which the store may lack
        self.damage = damage or Damage()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.damage.counts:
            left_out = f"damaged rows are left out: {self.damage.words}"
            warnings.warn(f"{self._place}: {left_out}", stacklevel=2)

    def counts(self) -> dict[str, int]:
        """Number of intact rows of each table, all of which are read."""
        counts = {
            systems: len(self.systems()),
            sessions: len(self.sessions()),
            machines: len(self.machines()),
            quantities: len(self.quantities()),
            measurements: len(self.asked()),
            observations: sum(1 for _ in self._observations(true())),
            networks: len(self.networks(true())),
            calibrations: len(self.calibrations()),
            rewrites: sum(1 for _ in self.rewrites(true())),
        }
        orphan = observations.c.measurement_id.not_in(select(measurements.c.id))
        for row in self._connection.execute(select(observations.c.id).where(orphan)):
            self.damage.add(observations.name, row.id, "its measurement is missing")
        return {table.name: count for table, count in counts.items()}

    def measurements(self, condition: ColumnElement[bool]) -> list[Measurement]:
        """Measurements for which the condition holds, oldest first."""
        taken: dict[int, list[Observation]] = defaultdict(list)
        for identifier, observation in self._observations(condition):
            taken[identifier].append(observation)
        found = []
        query = _raw(measurements).where(condition).order_by(measurements.c.id)
        rows = self._connection.execute(query).all()
        known = self._quantities_named({each.quantity for each in rows})
        for row in rows:
            with self._intact(measurements, row.id):
                found.append(_measurement(row, known, taken[row.id]))
        # Damage may have left a measurement without any observation.
        return [each for each in found if each.observations or each.failure]

    def _observations(self, condition: ColumnElement[bool]) -> Iterator[tuple[int, Observation]]:
        """Observations with the ids of their measurements, for which the condition holds."""
        query = _raw(observations).add_columns(measurements.c.quantity).join(measurements)
        query = query.where(condition, self._taken).order_by(observations.c.id)
        for row in self._connection.execute(query):
            found = None
            with self._intact(observations, row.id):
                found = _observation(row)
            if found is not None:
                yield row.measurement_id, found

    def outlines(self) -> list[Measurement]:
        """All measurements without their observations, oldest first."""
        return list(self.asked().values())

    def asked(self) -> dict[int, Measurement]:
        """All measurements without their observations by id, oldest first."""
        known = self.known_quantities()
        found = {}
        for row in self._connection.execute(_raw(measurements).order_by(measurements.c.id)):
            with self._intact(measurements, row.id):
                found[row.id] = _measurement(row, known, [])
        return found

    def model_names(self) -> dict[str, str]:
        """Names of whole models by signature, from calibrations."""
        found = {}
        for row in self._connection.execute(_raw(calibrations)):
            with self._intact(calibrations, row.key):
                for each in _json(row.found, dict, "found")["models"]:
                    signature = checked(each["signature"], str, "signature")
                    found[signature] = checked(each["name"], str, "name")
        return found

    def sampled(self, condition: ColumnElement[bool]) -> list[Sampled]:
        """Values of the questions for which the condition holds, oldest first.

        Questions with a damaged observation come last, with their intact observations. The database
        joins the observations of each question: where there are many questions, that is ten times
        as fast as :meth:`measurements`.
        """
        known = self.known_quantities()
        lists = {
            "values": coerced(observations.c["values"], String),
            "overheads": func.coalesce(cast(observations.c.overhead, String), "null"),
            "flags": coerced(observations.c.flags, String),
            "loads": func.coalesce(cast(observations.c.load, String), "null"),
            "sessions": observations.c.session,
        }
        columns: list[ColumnElement[Any]] = [
            *(JoinedTexts(each, observations.c.id).label(name) for name, each in lists.items()),
            func.min(observations.c.taken_at).label("begin"),
            func.max(observations.c.taken_at).label("end"),
            *(column for column in measurements.c if column.name not in _NO_VALUES),
        ]
        query = select(*columns).join_from(observations, measurements)
        query = query.where(condition, self._taken)
        query = query.group_by(measurements.c.id)
        query = query.order_by(measurements.c.id)
        busy = select(sessions.c.id).where(sessions.c.load > DISTURBED_LOAD)
        disturbed = frozenset(self._connection.scalars(busy))
        found, damaged = [], []
        for row in self._connection.execute(query):
            try:
                found.append(_sampled(row, known, disturbed))
            except (KeyError, *_WRONG):
                damaged.append(row.id)
        for batch in batches(damaged):
            # Row by row, so that intact rows of a question are used.
            rest = self.measurements(measurements.c.id.in_(batch))
            found += (_of_intact(each, disturbed) for each in rest if each.observations)
        return found

    def sizes(self) -> Iterator[tuple[int, str, str, int]]:
        """Measurement's id, session, time and number of values of each observation."""
        columns = _raw(observations).join(measurements).where(self._taken)
        for row in self._connection.execute(columns):
            number = 0
            with self._intact(observations, row.id):
                text(row.session, "session")
                moment(row.taken_at)
                number = len(_json(row._mapping["values"], list, "values"))
            if number:
                yield row.measurement_id, row.session, row.taken_at, number

    def machines(self, condition: ColumnElement[bool] | None = None) -> list[MachineName]:
        """Names of machines for which the condition holds, by system and host."""
        found = []
        query = _raw(machines).where(true() if condition is None else condition)
        query = query.order_by(*_in_order(machines))
        for row in self._connection.execute(query):
            with self._intact(machines, row.host):
                found.append(MachineName.from_dict(_columns(row)))
        return found

    def networks(self, condition: ColumnElement[bool]) -> dict[str, NetworkFeatures]:
        """Features of the networks for which the condition holds, by signature."""
        found = {}
        query = _raw(networks).where(condition).order_by(*_in_order(networks))
        for row in self._connection.execute(query):
            with self._intact(networks, row.signature):
                found[row.signature] = NetworkFeatures(
                    text(row.signature, "signature"),
                    text(row.version, "version"),
                    _texts(row.kinds),
                    unpacked(checked(row.numbers, bytes, "numbers"), self._left),
                    frozenset(_texts(row.groups)),
                )
                self._left -= len(found[row.signature].numbers)
        return found

    def quantities(self, condition: ColumnElement[bool] | None = None) -> dict[str, Quantity]:
        """Quantities that the store has values of, by name."""
        found = {}
        query = _raw(quantities).where(true() if condition is None else condition)
        for row in self._connection.execute(query.order_by(*_in_order(quantities))):
            with self._intact(quantities, row.name):
                found[row.name] = Quantity.from_dict(_columns(row))
        return found

    def known_quantities(self) -> dict[str, Quantity]:
        """Quantities of the store and of DLBricks itself, by name.

        A lost row must not make all measurements unreadable.
        """
        return {**_OWN_QUANTITIES, **self.quantities()}

    def _quantities_named(self, names: set[object]) -> Mapping[str, Quantity]:
        """Quantities of measurements: a store may have as many quantities as rows of any table."""
        new = [each for each in names - self._looked_up if isinstance(each, str)]
        self._looked_up.update(new)
        for batch in batches(new):
            self._known |= self.quantities(quantities.c.name.in_(batch))
        return self._known

    def sessions(self) -> list[Session]:
        """Sessions, oldest first."""
        found = []
        for row in self._connection.execute(
            _raw(sessions).order_by(Bytewise(sessions.c.started_at), *_in_order(sessions))
        ):
            with self._intact(sessions, row.id):
                found.append(Session.from_dict(_columns(row)))
        return found

    def pulses(self, host: str, *, without: str) -> list[Pulse]:
        """Pulses of a machine, as :meth:`.Described.pulses` has them."""
        quiet = (sessions.c.host == host) & (sessions.c.load <= DISTURBED_LOAD)
        quiet &= sessions.c.id != without
        quiet &= sessions.c.pulse_ms > 0
        pulses = select(sessions.c.pulse_ms, sessions.c.pulse_spread).where(quiet)
        return [Pulse(*row) for row in self._connection.execute(pulses.order_by(sessions.c.id))]

    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        found = {}
        for row in self._connection.execute(_raw(systems).order_by(*_in_order(systems))):
            with self._intact(systems, row.fingerprint):
                fingerprint = text(row.fingerprint, "fingerprint")
                facts = _json(row.facts, dict, "facts")
                System.from_dict(fingerprint, facts)  # damage is noticed here
                found[fingerprint] = facts
        return found

    def calibrations_of(self, keys: Sequence[CalibrationKey]) -> dict[CalibrationKey, Calibration]:
        """Calibrations of these keys, of at most one batch; damaged ones are left out."""
        by_text = {each.text: each for each in keys}
        found = {}
        for row in self._connection.execute(
            _raw(calibrations).where(calibrations.c.key.in_(by_text))
        ):
            key = by_text[row.key]
            with self._intact(calibrations, key.composer):
                found[key] = Calibration.from_dict(key, _json(row.found, dict, "found"))
        return found

    def calibrations(self) -> list[Calibration]:
        """All calibrations, by their keys."""
        known, found = self.known_quantities(), []
        for row in self._connection.execute(_raw(calibrations).order_by(*_in_order(calibrations))):
            with self._intact(calibrations, row.key):
                key = CalibrationKey.from_text(text(row.key, "key"), known)
                found.append(Calibration.from_dict(key, _json(row.found, dict, "found")))
        return found

    def rewrites(self, condition: ColumnElement[bool]) -> Iterator[Rewrite]:
        """Graphs that backends made of models, by their keys."""
        query = _raw(rewrites).where(condition).order_by(*_in_order(rewrites))
        for row in self._connection.execute(query):
            found = None
            with self._intact(rewrites, row.signature):
                graph = unpacked(checked(row.graph, bytes, "graph"))
                key = {name: value for name, value in _columns(row).items() if name != "graph"}
                found = Rewrite(**key_of(key), graph=graph)
            if found is not None:
                yield found

    @contextmanager
    def _intact(self, table: Table, row: object) -> Iterator[None]:
        """Notes a row as damaged if making a record of it fails.

        Args:
            table: The table.
            row: Key of the row.
        """
        try:
            yield
        except KeyError as error:
            self.damage.add(table.name, row, f"{error} is missing")
        except _WRONG as error:
            self.damage.add(table.name, row, str(error))


def _raw(table: Table) -> Select[Any]:
    """Query for all of a table, with values as the database has them.

    JSON comes as text. Columns of SQLite may contain values of any type, and an exception of a
    conversion would end the query.
    """
    return select(*(_plain(column).label(column.name) for column in table.columns))


def _columns(row: Row[Any]) -> dict[str, Any]:
    """Values of a row by column, in a third of the time that ``_asdict`` takes."""
    return dict(zip(row._fields, row, strict=True))


def _plain(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return coerced(column, String() if isinstance(column.type, JSON) else NullType())


def _in_order(table: Table) -> list[ColumnElement[Any]]:
    """Columns of a table's key, to order rows by."""
    return [
        Bytewise(column) if isinstance(column.type, String) else column
        for column in table.primary_key
    ]


def _observation(row: Row[Any]) -> Observation:
    lists = {name: _json(row._mapping[name], list, name) for name in ("values", "flags")}
    found = Observation.from_dict({**_columns(row), **lists})
    if row.quantity == LATENCY.name and not all(found.values):
        raise ValueError(f"a {LATENCY.name} is 0")
    return found


def _sampled(
    row: Row[Any], quantities: Mapping[str, Quantity], disturbed: Collection[str]
) -> Sampled:
    values, overheads, flags, loads = (
        parsed(b"[%b]" % each) for each in (row.values, row.overheads, row.flags, row.loads)
    )
    taken_in = row.sessions.decode().split(",")
    if not len(values) == len(overheads) == len(flags) == len(loads) == len(taken_in):
        raise ValueError("observations are incomplete")
    every = [value for each in values for value in checked(each, list)]
    _check_numbers([*every, *(each for each in overheads if each is not None)])
    if row.quantity == LATENCY.name and not all(every):
        raise ValueError(f"a {LATENCY.name} is 0")
    for each in (row.begin, row.end):
        moment(each)
    return Sampled(
        question_of(_columns(row), quantities),
        tuple(map(tuple, values)),
        tuple(overheads),
        tuple(
            _is_disturbed(checked(each, list, "flags"), load, session in disturbed)
            for each, load, session in zip(flags, loads, taken_in, strict=True)
        ),
        tuple(dict.fromkeys(taken_in)),
        row.begin,
        row.end,
    )


def _is_disturbed(flags: Sequence[Any], load: float | None, is_session: bool) -> bool:
    """Whether an observation is disturbed. That of earlier versions is if its session is."""
    return bool(flags) or (load is None and is_session)


def _check_numbers(found: Sequence[Any]) -> None:
    """Raises an error unless all are numbers as values may be; many are checked at once."""
    if not {float, int}.issuperset(map(type, found)):
        raise TypeError(f"no numbers: {found!s:.60}")
    least = min(filter(None, found), default=1)
    if not (least >= TINIEST and min(found, default=0) >= SMALLEST and sum(found) <= LARGEST):
        # Or one of them is not a number.
        raise ValueError(f"values are out of range: {found!s:.60}")


def _of_intact(found: Measurement, disturbed: Collection[str]) -> Sampled:
    """Values of a measurement's observations."""
    taken = found.observations
    times = sorted(each.taken_at for each in taken)
    return Sampled(
        found.question,
        tuple(each.values for each in taken),
        tuple(each.overhead for each in taken),
        tuple(_is_disturbed(each.flags, each.load, each.session in disturbed) for each in taken),
        tuple(dict.fromkeys(each.session for each in taken)),
        times[0].isoformat(),
        times[-1].isoformat(),
    )


def _json(cell: Any, kind: type[KindT], name: str) -> KindT:
    """Value of a JSON text, which must be of a certain kind."""
    return checked(parsed(text(cell, name)), kind, name)


def _texts(cell: Any) -> tuple[str, ...]:
    """Texts of a list in JSON."""
    return tuple(checked(each, str) for each in _json(cell, list, "texts"))


def _measurement(
    row: Row[Any], quantities: Mapping[str, Quantity], taken: list[Observation]
) -> Measurement:
    return Measurement(
        question=question_of(_columns(row), quantities),
        layers=_texts(row.layers),
        observations=tuple(taken),
        failure=None if row.failure is None else text(row.failure, "failure"),
        unsupported=_truth(row.unsupported),
    )


def _truth(value: Any) -> bool:
    """A truth value, which SQLite has as 0 or 1."""
    if value not in (0, 1):
        raise ValueError(f"unsupported is {value!r:.40}")
    return bool(value)

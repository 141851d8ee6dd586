"""Rows of the database as records; damaged rows are left out and named."""

from __future__ import annotations

import json
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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

from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    MachineName,
    Measurement,
    NetworkFeatures,
    Observation,
    Quantity,
    Rewrite,
    Sampled,
    Session,
    System,
)
from dlbricks_core.facts.checks import LARGEST, SMALLEST, checked, moment
from dlbricks_core.store.columns import question_of
from dlbricks_core.store.dialects import Bytewise, Joined
from dlbricks_core.store.schema import (
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

_NO_VALUES = {"layers", "failure", "unsupported"}
"""Columns of measurements that statistics over values do without."""

_NAMED = 3
"""Damaged rows that a warning names; it counts the others."""


class Reader:
    """Reads records through one connection.

    Args:
        connection: To the database.
        place: Where the store is kept, for warnings.
        taken: Condition for observations, joined with their measurements; others are passed over.
    """

    def __init__(
        self, connection: Connection, place: object, taken: ColumnElement[bool] | None = None
    ) -> None:
        self._taken = true() if taken is None else taken
        self._connection = connection
        self._place = place
        self._damage: list[str] = []

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._damage:
            more = len(self._damage) - _NAMED
            named = "; ".join(self._damage[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
            warnings.warn(f"{self._place}: damaged rows are left out: {named}", stacklevel=2)

    def measurements(self, condition: ColumnElement[bool]) -> list[Measurement]:
        """Measurements for which the condition holds, oldest first."""
        known = self.quantities()
        taken: dict[int, list[Observation]] = defaultdict(list)
        query = _raw(observations).add_columns(measurements.c.quantity).join(measurements)
        query = query.where(condition, self._taken).order_by(observations.c.id)
        for row in self._connection.execute(query):
            with self._intact(f"row {row.id} of {observations.name}"):
                taken[row.measurement_id].append(_observation(row))
        found = []
        query = _raw(measurements).where(condition).order_by(measurements.c.id)
        for row in self._connection.execute(query):
            with self._intact(f"row {row.id} of {measurements.name}"):
                found.append(_measurement(row, known, taken[row.id]))
        # Damage may have left a measurement without any observation.
        return [each for each in found if each.observations or each.failure]

    def outlines(self) -> list[Measurement]:
        """All measurements without their observations, oldest first."""
        known = self.quantities()
        found = []
        for row in self._connection.execute(_raw(measurements).order_by(measurements.c.id)):
            with self._intact(f"row {row.id} of {measurements.name}"):
                found.append(_measurement(row, known, []))
        return found

    def model_names(self) -> dict[str, str]:
        """Names of whole models by signature, as far as calibrations tell them."""
        found = {}
        for row in self._connection.execute(_raw(calibrations)):
            with self._intact(f"a row of {calibrations.name}"):
                for each in json.loads(row.found)["models"]:
                    signature = checked(each["signature"], str, "signature")
                    found[signature] = checked(each["name"], str, "name")
        return found

    def sampled(self, condition: ColumnElement[bool]) -> list[Sampled]:
        """Values of the questions for which the condition holds, oldest first.

        The database joins the observations of each question: where there are many questions, that
        is ten times as fast as :meth:`measurements`.
        """
        known = self.quantities()
        lists = {
            "values": coerced(observations.c["values"], String),
            "overheads": func.coalesce(cast(observations.c.overhead, String), "null"),
            "flags": coerced(observations.c.flags, String),
            "sessions": observations.c.session,
        }
        columns: list[ColumnElement[Any]] = [
            *(Joined(each, observations.c.id).label(name) for name, each in lists.items()),
            func.min(observations.c.taken_at).label("begin"),
            func.max(observations.c.taken_at).label("end"),
            *(column for column in measurements.c if column.name not in _NO_VALUES),
        ]
        query = select(*columns).join_from(observations, measurements)
        query = query.where(condition, self._taken)
        query = query.group_by(measurements.c.id)
        query = query.order_by(measurements.c.id)
        found = []
        for row in self._connection.execute(query):
            with self._intact(f"what is observed of row {row.id} of {measurements.name}"):
                found.append(_sampled(row, known))
        return found

    def sizes(self) -> Iterator[tuple[int, str, str, int]]:
        """Measurement's id, session, time and number of values of each observation."""
        columns = _raw(observations).join(measurements).where(self._taken)
        for row in self._connection.execute(columns):
            number = 0
            with self._intact(f"row {row.id} of {observations.name}"):
                number = len(checked(json.loads(row._mapping["values"]), list, "values"))
            if number:
                yield row.measurement_id, row.session, row.taken_at, number

    def machines(self) -> list[MachineName]:
        """Names of machines, by system and host."""
        found = []
        query = _raw(machines).order_by(*_in_order(machines))
        for row in self._connection.execute(query):
            with self._intact(f"row {row.name} of {machines.name}"):
                found.append(MachineName.from_dict(row._asdict()))
        return found

    def networks(self, condition: ColumnElement[bool]) -> dict[str, NetworkFeatures]:
        """Features of the networks for which the condition holds, by signature."""
        found = {}
        query = _raw(networks).where(condition).order_by(*_in_order(networks))
        for row in self._connection.execute(query):
            with self._intact(f"the row of {row.signature} in {networks.name}"):
                found[row.signature] = NetworkFeatures(
                    checked(row.signature, str, "signature"),
                    checked(row.version, str, "version"),
                    _texts(row.kinds),
                    zlib.decompress(checked(row.numbers, bytes, "numbers")),
                    frozenset(_texts(row.groups)),
                )
        return found

    def quantities(self) -> dict[str, Quantity]:
        """Quantities that the store has values of, by name."""
        found = {}
        for row in self._connection.execute(_raw(quantities).order_by(*_in_order(quantities))):
            with self._intact(f"row {row.name} of {quantities.name}"):
                found[row.name] = Quantity.from_dict(row._asdict())
        return found

    def sessions(self) -> list[Session]:
        """Sessions, oldest first."""
        found = []
        for row in self._connection.execute(
            _raw(sessions).order_by(Bytewise(sessions.c.started_at), *_in_order(sessions))
        ):
            with self._intact(f"row {row.id} of {sessions.name}"):
                found.append(Session.from_dict(row._asdict()))
        return found

    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        found = {}
        for row in self._connection.execute(_raw(systems).order_by(*_in_order(systems))):
            with self._intact(f"row {row.fingerprint} of {systems.name}"):
                fingerprint = checked(row.fingerprint, str, "fingerprint")
                facts = checked(json.loads(row.facts), dict, "facts")
                System.from_dict(fingerprint, facts)  # damage is noticed here
                found[fingerprint] = facts
        return found

    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """Calibration of this key; ``None`` if there is none, or it is damaged."""
        query = _raw(calibrations).where(calibrations.c.key == key.text)
        for row in self._connection.execute(query):
            with self._intact(f"the row of {key.composer} in {calibrations.name}"):
                return Calibration.from_dict(key, json.loads(row.found))
        return None

    def calibrations(self) -> list[Calibration]:
        """All calibrations, by their keys."""
        known, found = self.quantities(), []
        for row in self._connection.execute(_raw(calibrations).order_by(*_in_order(calibrations))):
            with self._intact(f"a row of {calibrations.name}"):
                key = CalibrationKey.from_text(row.key, known)
                found.append(Calibration.from_dict(key, json.loads(row.found)))
        return found

    def rewrites(self, condition: ColumnElement[bool]) -> Iterator[Rewrite]:
        """Graphs that backends made of models, by their keys."""
        query = _raw(rewrites).where(condition).order_by(*_in_order(rewrites))
        for row in self._connection.execute(query):
            found = None
            with self._intact(f"the row of {row.signature} in {rewrites.name}"):
                graph = zlib.decompress(checked(row.graph, bytes, "graph"))
                found = Rewrite(**{**row._mapping, "graph": graph})
            if found is not None:
                yield found

    @contextmanager
    def _intact(self, row: str) -> Iterator[None]:
        """Notes a row as damaged if making a record of it fails."""
        try:
            yield
        except KeyError as error:
            self._damage.append(f"{row} ({error} is missing)")
        except (ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
            self._damage.append(f"{row} ({error})")


def _raw(table: Table) -> Select[Any]:
    """Query for all of a table, JSON as text: damaged JSON must not end the query."""
    return select(
        *(
            coerced(column, String).label(column.name) if isinstance(column.type, JSON) else column
            for column in table.columns
        )
    )


def _in_order(table: Table) -> list[ColumnElement[Any]]:
    """Columns of a table's key, to order rows by."""
    return [
        Bytewise(column) if isinstance(column.type, String) else column
        for column in table.primary_key
    ]


def _observation(row: Row[Any]) -> Observation:
    lists = {name: json.loads(row._mapping[name]) for name in ("values", "flags")}
    found = Observation.from_dict({**row._mapping, **lists})
    if row.quantity == LATENCY.name and not all(found.values):
        raise ValueError(f"a {LATENCY.name} is 0")
    return found


def _sampled(row: Row[Any], quantities: Mapping[str, Quantity]) -> Sampled:
    values, overheads, flags = (
        json.loads(b"[%b]" % text) for text in (row.values, row.overheads, row.flags)
    )
    if not len(values) == len(overheads) == len(flags):
        raise ValueError("observations are incomplete")
    every = [value for each in values for value in checked(each, list)]
    _check_numbers([*every, *(each for each in overheads if each is not None)])
    if row.quantity == LATENCY.name and not all(every):
        raise ValueError(f"a {LATENCY.name} is 0")
    for each in (row.begin, row.end):
        moment(each)
    return Sampled(
        question_of(row._asdict(), quantities),
        tuple(map(tuple, values)),
        tuple(overheads),
        tuple(bool(checked(each, list, "flags")) for each in flags),
        tuple(dict.fromkeys(row.sessions.decode().split(","))),
        row.begin,
        row.end,
    )


def _check_numbers(found: Sequence[Any]) -> None:
    """Raises an error unless all are numbers as values may be; many are checked at once."""
    if not {float, int}.issuperset(map(type, found)):
        raise TypeError(f"no numbers: {found!s:.60}")
    if not (min(found, default=0) >= SMALLEST and sum(found) <= LARGEST):  # or not a number
        raise ValueError(f"values are out of range: {found!s:.60}")


def _texts(text: str) -> tuple[str, ...]:
    """Texts of a list in JSON."""
    return tuple(checked(each, str) for each in checked(json.loads(text), list))


def _measurement(
    row: Row[Any], quantities: Mapping[str, Quantity], taken: list[Observation]
) -> Measurement:
    return Measurement(
        question=question_of(row._asdict(), quantities),
        layers=_texts(row.layers),
        observations=tuple(taken),
        failure=None if row.failure is None else checked(row.failure, str, "failure"),
        unsupported=row.unsupported,
    )

"""Rows of the database as records; one that others damaged is left out, and named."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Row, Select, String, Table, select
from sqlalchemy import type_coerce as coerced

from dlbricks_core.facts import (
    Calibration,
    CalibrationKey,
    Measurement,
    Observation,
    Question,
    Setup,
    Subject,
)
from dlbricks_core.facts.checks import checked
from dlbricks_core.store.schema import (
    calibrations,
    measurements,
    sample_sets,
    systems,
)

_NAMED = 3

_COLUMNS = {"values": "samples_ms", "overhead": "call_ms", "flags": "warnings"}
"""Columns that have another name than the field of an observation. Exported files use them too."""


class Reader:
    """Reads records through one connection.

    Args:
        connection: To the database.
        path: Of the file, for people.
    """

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._damage: list[str] = []

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._damage:
            more = len(self._damage) - _NAMED
            named = "; ".join(self._damage[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
            warnings.warn(f"{self._path}: damaged rows are left out: {named}", stacklevel=2)

    def measurements(self, condition: ColumnElement[bool]) -> list[Measurement]:
        """Those for which it holds, oldest first."""
        samples: dict[int, list[Observation]] = defaultdict(list)
        query = _raw(sample_sets).join(measurements).where(condition).order_by(sample_sets.c.id)
        for row in self._connection.execute(query):
            with self._intact(f"row {row.id} of {sample_sets.name}"):
                samples[row.measurement_id].append(_sample_set(row))
        found = []
        query = _raw(measurements).where(condition).order_by(measurements.c.id)
        for row in self._connection.execute(query):
            with self._intact(f"row {row.id} of {measurements.name}"):
                found.append(_measurement(row, samples[row.id]))
        # Of some, damage has left nothing.
        return [each for each in found if each.observations or each.failure]

    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        found = {}
        for row in self._connection.execute(_raw(systems).order_by(systems.c.fingerprint)):
            with self._intact(f"row {row.fingerprint} of {systems.name}"):
                fingerprint = checked(row.fingerprint, str, "fingerprint")
                found[fingerprint] = checked(json.loads(row.facts), dict, "facts")
        return found

    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """The fitted numbers that there are for this."""
        query = _raw(calibrations).where(calibrations.c.key == key.text)
        for row in self._connection.execute(query):
            with self._intact(f"the row of {key.composer} in {calibrations.name}"):
                return Calibration.from_dict(key, json.loads(row.found))
        return None

    @contextmanager
    def _intact(self, row: str) -> Iterator[None]:
        """Notes the row if what is made of it cannot be."""
        try:
            yield
        except KeyError as error:
            self._damage.append(f"{row} ({error} is missing)")
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            self._damage.append(f"{row} ({error})")


def columns_of(question: Question) -> dict[str, Any]:
    """Values of the key's columns."""
    setup = question.setup
    return {
        "signature": question.subject.signature,
        "kind": question.subject.kind,
        "backend": setup.backend,
        "backend_version": setup.version,
        "settings": setup.options,
        "system": question.system,
        "threads": setup.threads,
        "protocol": setup.protocol,
    }


def observation_columns(taken: Observation) -> dict[str, Any]:
    """Values of an observation's columns."""
    return {_COLUMNS.get(name, name): value for name, value in taken.to_dict().items()}


def observation_of(columns: Mapping[str, Any]) -> Observation:
    """Reverses :func:`observation_columns`.

    Raises:
        KeyError: If a column is missing.
        TypeError: If a value has another structure.
        ValueError: If a value is not what it should be.
    """
    renamed = {name: columns[column] for name, column in _COLUMNS.items()}
    return Observation.from_dict({**columns, **renamed})


def question_of(columns: Mapping[str, Any]) -> Question:
    """Reverses :func:`columns_of`."""
    setup = Setup(
        columns["backend"],
        columns["backend_version"],
        columns["settings"],
        columns["threads"],
        columns["protocol"],
    )
    return Question(Subject(columns["signature"], columns["kind"]), setup, columns["system"])


def _raw(table: Table) -> Select[Any]:
    """Everything in a table, JSON as text: what is none must not end the query."""
    return select(
        *(
            coerced(column, String).label(column.name) if isinstance(column.type, JSON) else column
            for column in table.columns
        )
    )


def _sample_set(row: Row[Any]) -> Observation:
    lists = {name: json.loads(row._mapping[name]) for name in ("samples_ms", "warnings")}
    return observation_of({**row._mapping, **lists})


def _measurement(row: Row[Any], samples: list[Observation]) -> Measurement:
    return Measurement(
        question=question_of(row._asdict()),
        layers=tuple(checked(name, str) for name in checked(json.loads(row.layers), list)),
        observations=tuple(samples),
        failure=None if row.failure is None else checked(row.failure, str, "failure"),
    )

"""Questions as key columns of rows, and conditions that select the rows of a few of many."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar, get_args

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, or_, select, true, tuple_

from dlbricks_core.facts import Machine, Quantity, Question, Setup, Subject
from dlbricks_core.facts.checks import LARGEST_COUNT, checked, flat, text
from dlbricks_core.facts.observation import Kind
from dlbricks_core.store.schema import measurements, observations, sessions

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


OBSERVED = measurements.c.quantity, measurements.c.protocol
"""Columns of the observed quantity and of the protocol, which says what it is a part of."""


def owners(connection: Connection) -> dict[tuple[str, str], str]:
    """Name of the observed quantity, by observed quantity and protocol.

    The protocol of a metric has the name of its quantity. Other quantities under the same protocol
    are parts of it.
    """
    every = connection.execute(select(*OBSERVED).distinct())
    found = [row for row in every if readable(row)]
    names = {quantity for quantity, _ in found}
    askers = {protocol: protocol.partition("/")[0] for _, protocol in found}
    return {
        (quantity, protocol): askers[protocol] if askers[protocol] in names else quantity
        for quantity, protocol in found
    }

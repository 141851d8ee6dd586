"""Key columns of questions, and conditions for rows of a few questions out of many."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any, TypeVar, get_args

from sqlalchemy import ColumnElement, Table, and_, bindparam

from dlbricks_core.facts import Quantity, Question, Setup, Subject
from dlbricks_core.facts.checks import LARGEST_COUNT, checked, text
from dlbricks_core.facts.question import Kind
from dlbricks_core.store.schema import measurements

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
        **asdict(question.subject),
        "quantity": question.quantity.name,
        **asdict(question.setup),
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
    return and_(*(table.c[name] == value for name, value in columns.items()))


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
    signatures = defaultdict(list)
    for question in dict.fromkeys(questions):
        columns = columns_of(question)
        signature = columns.pop("signature")
        signatures[tuple(columns.items())].append(signature)
    for columns_in_common, group in signatures.items():
        same = [measurements.c[name] == value for name, value in columns_in_common]
        for batch in batches(group):
            yield and_(*same, measurements.c.signature.in_(batch))

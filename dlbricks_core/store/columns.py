"""Key columns of questions, and conditions for rows of a few questions out of many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Table, and_, bindparam

from dlbricks_core.facts import Quantity, Question, Setup, Subject
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
    """
    setup = Setup(**{each.name: columns[each.name] for each in fields(Setup)})
    subject = Subject(columns["signature"], columns["kind"])
    return Question(subject, quantities[columns["quantity"]], setup, columns["system"])


def all_equal(table: Table, columns: Mapping[str, Any]) -> ColumnElement[bool]:
    """Condition for rows that have these values."""
    return and_(*(table.c[name] == value for name, value in columns.items()))


def all_given(table: Table, names: Iterable[str]) -> ColumnElement[bool]:
    """Condition for rows whose values are parameters of the statement, named like the columns.

    A statement that is made once and executed for each sample takes a fraction of the time that
    making it takes.
    """
    return and_(*(table.c[name] == bindparam(name) for name in names))


def batches(items: Iterable[ItemT]) -> Iterator[list[ItemT]]:
    """Signatures, or other values, that one statement takes; each once."""
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

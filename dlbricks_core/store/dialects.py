"""Differences between SQLite and PostgreSQL: aggregation of texts, and their order."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class JoinedTexts(FunctionElement[bytes]):
    """Texts of the rows of a group with commas between, as UTF-8.

    They come as bytes because a text that is no UTF-8, which damage leaves in a SQLite file, would
    end the query.

    Args:
        each: The text of a row.
        order: What rows are ordered by.
    """

    type = LargeBinary()
    inherit_cache = True

    def __init__(self, each: ColumnElement[Any], order: ColumnElement[Any]) -> None:
        super().__init__(each, order)


@compiles(JoinedTexts, "sqlite")
def _on_sqlite(element: JoinedTexts, compiler: Any, **how: Any) -> str:
    each, _ = element.clauses
    # Rows come in the order of their ids, and older versions take no other.
    return f"CAST(group_concat({compiler.process(each, **how)}) AS BLOB)"


@compiles(JoinedTexts, "postgresql")
def _on_postgresql(element: JoinedTexts, compiler: Any, **how: Any) -> str:
    each, order = (compiler.process(part, **how) for part in element.clauses)
    return f"convert_to(string_agg(CAST({each} AS TEXT), ',' ORDER BY {order}), 'UTF8')"


class Bytewise(FunctionElement[str]):
    """A text that orders rows byte by byte, independently of the language of the database.

    Args:
        text: The text.
    """

    type = String()
    inherit_cache = True

    def __init__(self, text: ColumnElement[Any]) -> None:
        super().__init__(text)


@compiles(Bytewise, "sqlite")
def _as_it_is(element: Bytewise, compiler: Any, **how: Any) -> str:
    (text,) = element.clauses
    return str(compiler.process(text, **how))


@compiles(Bytewise, "postgresql")
def _collated(element: Bytewise, compiler: Any, **how: Any) -> str:
    (text,) = element.clauses
    return f'{compiler.process(text, **how)} COLLATE "C"'

"""Tables of a page: one description for wide screens, phones and print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: Heading.
        is_text: Whether its cells hold words, which are aligned left, rather than numbers.
    """

    title: str
    is_text: bool = False


@dataclass(frozen=True)
class Cell:
    """A table cell that is more than plain text.

    Attributes:
        text: Text of the cell.
        marks: Classes of the style sheet: ``best``, ``code``, ``again``.
        style: Inline style, such as a background.
        link: Target of a link on the text.
        key: Sort key of the cell; the text if empty.
    """

    text: str
    marks: str = ""
    style: str = ""
    link: str = ""
    key: str | float = ""


Row = Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows; on a phone, each row becomes a card.

    Attributes:
        columns: Columns from left to right.
        rows: Rows from top to bottom, with a cell for each column.
        caption: Meaning and unit of the figures.
        names_wrap: Whether names of rows may take several lines; names of models may not.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str = ""
    names_wrap: bool = False


def table(
    columns: Iterable[str | Column],
    rows: Iterable[Iterable[str | Cell]],
    caption: str = "",
    *,
    names_wrap: bool = False,
) -> Table:
    """A table from plain texts and cells; the first column is text.

    Args:
        columns: Headings; those of numbers as plain text.
        rows: A text or a cell for each column.
        caption: As in :class:`Table`.
        names_wrap: As in :class:`Table`.
    """
    first, *others = (c if isinstance(c, Column) else Column(c) for c in columns)
    found = [[c if isinstance(c, Cell) else Cell(c) for c in row] for row in rows]
    return Table([Column(first.title, is_text=True), *others], found, caption, names_wrap)

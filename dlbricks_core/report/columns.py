"""Columns of tables of models: columns of DLBricks and of other distributions."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from dlbricks_core.errors import DLBricksError, PluginError
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import PLUGIN, note
from dlbricks_core.plugins import Plugin, attempt, discover

if TYPE_CHECKING:
    from dlbricks_core.estimation.model_result import ModelResult

Justification = Literal["left", "right"]


class Column(ABC):
    """A column of the table of results, with a cell for each model.

    Found through the entry-point group ``dlbricks.columns``.

    Example:
        >>> class Layers(Column):
        ...     name, heading = "layers", "Layers"
        ...     def cell(self, result):
        ...         return f"{self.value(result):,}"
        ...     def value(self, result):
        ...         return len(result.cut.model.layers)
    """

    #: Name of the column, equal to the entry point's; the key of its values in JSON.
    name: str
    #: Heading in tables, in few characters.
    heading: str
    #: Side on which cells are aligned: ``left`` for words, ``right`` for numbers.
    justification: Justification = "right"
    #: Whether tables show the column. JSON has the values of every column.
    is_shown: bool = True

    @abstractmethod
    def cell(self, result: ModelResult) -> str | None:
        """Text of the cell of a model; ``None`` for an empty cell."""

    def value(self, result: ModelResult) -> Any:
        """Value in JSON, with ``null`` if unknown: by default the text of the cell."""
        return self.cell(result)


RowT = TypeVar("RowT")


@dataclass(frozen=True)
class OwnColumn(Generic[RowT]):
    """A column of DLBricks, the same in terminals and on pages."""

    heading: str  #: Heading in tables.
    cell: Callable[[RowT], str | None]  #: Text for the subject of a row; ``None`` if unknown.
    justification: Justification = "right"  #: As in :class:`Column`.


@dataclass(frozen=True)
class FilledColumn:
    """A column with its cells, one for each model of a result."""

    name: str  #: Name of the column.
    heading: str = ""  #: Heading in tables.
    justification: Justification = "right"  #: As in :class:`Column`.
    is_shown: bool = False  #: As in :class:`Column`.
    cells: Sequence[str | None] = ()  #: Text for each model; ``None`` where there is none.
    values: Sequence[Any] = ()  #: JSON value for each model; ``None`` where it is unknown.
    #: Why cells are missing, in a sentence without a full stop; empty if none is.
    problem: str = ""


def own_columns(columns: Iterable[OwnColumn[RowT]], rows: Sequence[RowT]) -> list[FilledColumn]:
    """Columns of DLBricks, filled in."""
    return [
        FilledColumn(
            c.heading.lower(), c.heading, c.justification, True, [c.cell(each) for each in rows]
        )
        for c in columns
    ]


def added_columns(models: Sequence[ModelResult]) -> list[FilledColumn]:
    """Columns of other distributions, by name. A broken column has no cells, and has the reason.

    A column that fails for some models has the cells of the others.
    """
    return [_filled(plugin, models) for plugin in discover("column", Column)]


def shown_columns(columns: Iterable[FilledColumn]) -> list[FilledColumn]:
    """Columns that tables show, without empty columns."""
    return [each for each in columns if each.is_shown and any(each.cells)]


def column_values(columns: Iterable[FilledColumn], position: int) -> dict[str, Any]:
    """JSON values of a model, by the name of the column."""
    return {each.name: each.values[position] for each in columns if each.values}


def column_problems(columns: Iterable[FilledColumn]) -> list[Note]:
    """A note on each broken column."""
    broken = (each for each in columns if each.problem)
    return [note(PLUGIN, f"column {each.name!r}", text=each.problem) for each in broken]


def _filled(plugin: Plugin, models: Sequence[ModelResult]) -> FilledColumn:
    if plugin.problem:
        return FilledColumn(plugin.name, problem=_sentence(plugin.problem, plugin.cure))
    column = attempt(plugin, partial(_made, plugin))
    if isinstance(column, DLBricksError):
        return FilledColumn(plugin.name, problem=_sentence(column.message, column.hint))
    found = [attempt(plugin, partial(_entry, column, each)) for each in models]
    errors = [each for each in found if isinstance(each, DLBricksError)]
    entries = [_Entry() if isinstance(each, DLBricksError) else each for each in found]
    of = f" ({len(errors)} of {len(models)} models)" if len(models) > 1 else ""
    return FilledColumn(
        plugin.name,
        column.heading,
        column.justification,
        column.is_shown,
        [each.cell for each in entries],
        [each.value for each in entries],
        _sentence(f"{errors[0].message}{of}", errors[0].hint) if errors else "",
    )


def _sentence(reason: str, cure: str) -> str:
    return f"{reason}. {cure}".rstrip(". ")


def _made(plugin: Plugin) -> Column:
    """The checked column of a plugin.

    Raises:
        PluginError: If the heading is no text, or the justification is unknown.
    """
    column: Column = plugin.loaded()
    if not isinstance(column.heading, str) or column.justification not in get_args(Justification):
        raise PluginError(
            f"the heading {column.heading!r} must be a text, and the justification "
            f"{column.justification!r} left or right"
        )
    return column


@dataclass(frozen=True)
class _Entry:
    """Cell and JSON value of a model; none of either where the column failed."""

    cell: str | None = None
    value: Any = None


def _entry(column: Column, result: ModelResult) -> _Entry:
    """Cell and JSON value of a model, once they are checked.

    Raises:
        PluginError: If the cell is no text, or the value cannot be written as JSON.
    """
    entry = _Entry(column.cell(result), column.value(result))
    if not isinstance(entry.cell, str | None):
        raise PluginError(f"cell() returned {entry.cell!r} instead of a text")
    try:
        json.dumps(entry.value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PluginError(f"value() returned {entry.value!r}, which JSON does not have") from error
    return entry

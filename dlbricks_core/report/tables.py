"""Text and tables in terminals, and as files; the spelling of numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import rich.console
from rich import box
from rich.cells import cell_len
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from dlbricks_core.sanitize import cell, sanitized, shortened_words

if TYPE_CHECKING:
    from dlbricks_core.compose import Estimate
    from dlbricks_core.estimation.model_result import Compared
    from dlbricks_core.report.columns import FilledColumn


class Console(rich.console.Console):
    """A terminal that prints text literally, without markup and control characters.

    Of very long names, it prints the beginning and the end. Numbers of tables stay whole: where the
    terminal is too narrow for them, a table is wider than the terminal.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it is printed; every text passes through here, including tables."""
        return super().render_str(sanitized(shortened_words(text)), **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints texts and tables; the options are those of rich."""
        (alone,) = objects if len(objects) == 1 else (None,)
        if isinstance(alone, Table) and (least := self._least_width(alone)) > self.width:
            wide = self.render(alone, self.options.update(width=least))
            super().print(Segments(wide), **{**options, "crop": False})
        else:
            super().print(*objects, **options)

    def _least_width(self, found: Table) -> int:
        """Least width of a table whose columns of numbers are not cut off."""
        widths = [
            max(self.measure(cell).maximum for cell in (column.header, *column.cells))
            if column.no_wrap
            else column.min_width or 1
            for column in found.columns
        ]
        return sum(widths) + len(widths) + 1


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of texts, each with or without a style: ``("Note:", "yellow")``."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((sanitized(shortened_words(text)), style) for text, style in pairs))


def lines(*texts: str | Text) -> Text:
    """Several lines as one text, for a cell of a table."""
    return Text("\n").join(styled(text) if isinstance(text, str) else text for text in texts)


def print_lines(console: Console, *parts: str | Text | Table | None) -> None:
    """Prints texts and tables, without those that are empty."""
    for part in filter(None, parts):
        console.print(part)


_NAME_WIDTH = 12


def table(
    *columns: str, rows: Iterable[Sequence[str | Text]] = (), left: int = 1, caption: str = ""
) -> Table:
    """A table whose first ``left`` columns are text; the others are numbers."""
    result = _empty([(column, i < left) for i, column in enumerate(columns)])
    result.caption, result.caption_justify = caption or None, "left"
    for row in rows:
        result.add_row(*row)
    return result


def filled_table(columns: Sequence[FilledColumn]) -> Table:
    """A table of columns that are filled in."""
    result = _empty([(each.heading, each.justification == "left") for each in columns])
    for cells in zip(*(each.cells for each in columns), strict=True):
        result.add_row(*("-" if cell is None else cell for cell in cells))
    return result


def filled_tables(
    own: Sequence[FilledColumn], added: Iterable[FilledColumn], width: int
) -> list[Table]:
    """One table of all columns, or several where one is too wide: a terminal would cut figures.

    Each further table begins with the first column, too.

    Args:
        own: Columns of DLBricks.
        added: Columns of other distributions.
        width: Characters in a line.
    """
    parts = [[*own]]
    for each in added:
        if len(parts[-1]) > 1 and _width([*parts[-1], each]) > width:
            parts.append([own[0]])
        parts[-1].append(each)
    return [filled_table(part) for part in parts]


def _width(columns: Sequence[FilledColumn]) -> int:
    """Characters of the table's lines; names in the first column may wrap."""
    needed = [max(cell_len(text or "-") for text in (c.heading, *c.cells)) for c in columns]
    return _NAME_WIDTH + sum(needed[1:]) + len(columns) + 1


def _empty(columns: Sequence[tuple[str, bool]]) -> Table:
    """An empty table, from the heading of each column and whether it is text."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for i, (heading, is_text) in enumerate(columns):
        result.add_column(
            heading,
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
            min_width=_NAME_WIDTH if i == 0 else None,
        )
    return result


def ms(value: float) -> str:
    """A value in any unit, such as milliseconds, with at least three digits: ``52.9``."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def quantity(value: float) -> str:
    """A number with three significant digits and a decimal prefix: ``8.22 G``."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if value < 999.5 or prefix == "P":
            break
        value /= 1000
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} {prefix}" if prefix else f"{value:.0f}"


def size_text(nbytes: float) -> str:
    """A number of bytes with a decimal prefix: ``98.3 kB``."""
    return f"{quantity(nbytes)}B" if nbytes >= 1000 else f"{nbytes:.0f} B"


def compared_cells(compared: Compared) -> list[str]:
    """Cells for an estimate and a measurement: interval, both values, and their ratio."""
    return [
        estimate_text(compared.estimate),
        interval_text(compared.estimate.interval),
        value_text(compared.measured.value if compared.measured else None),
        ratio_text(compared.normalized) or "-",
    ]


def ratio_text(normalized: float | None) -> str | None:
    """Estimate over measurement: ``1.023``; ``None`` if it is unknown."""
    return None if normalized is None else f"{normalized:.3f}"


def value_text(value: float | None) -> str:
    """A value in any unit; a hyphen if it is unknown."""
    return "-" if value is None else ms(value)


def estimate_text(estimate: Estimate) -> str:
    """An estimate in the quantity's unit, marked where bricks are missing."""
    is_bound = estimate.partial and estimate.value is not None
    return f"{'>' if is_bound else ''}{value_text(estimate.value)}"


def interval_text(ends: tuple[float, float] | None) -> str:
    """An interval: ``49.3-57.0``."""
    return "-" if ends is None else "-".join(map(ms, ends))


Rows = Sequence[Sequence[str]]


def as_csv(table: Table) -> str:
    """A table as comma-separated values with a line of headings.

    The cell of an unknown value is empty. Names that a spreadsheet would run as formulas have a
    quote in front.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_headings(table))
    writer.writerows(["" if each == "-" else cell(each) for each in row] for row in _rows(table))
    return text.getvalue()


def as_markdown(table: Table) -> str:
    """A table in Markdown, with numbers on the right."""
    rules = ["--:" if column.justify == "right" else ":--" for column in table.columns]
    rows = [_headings(table), rules, *_rows(table)]
    lines = [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    lines[1] = f"|{'|'.join(rules)}|"
    return "\n".join([*lines, ""])


FORMS: Mapping[str, Callable[[Table], str]] = {"csv": as_csv, "markdown": as_markdown}
"""Form of a table -> function that writes one."""


def _headings(table: Table) -> list[str]:
    return [_plain(column.header) for column in table.columns]


def _rows(table: Table) -> Rows:
    return [*zip(*(map(_plain, column.cells) for column in table.columns), strict=True)]


def _plain(content: Any) -> str:
    """Text of a cell. Lines of a styled text stay apart."""
    lines = content.plain.split("\n") if isinstance(content, Text) else [str(content)]
    return "\n".join(map(sanitized, lines))


def _escaped(text: str) -> str:
    """The text as a cell in Markdown, where nothing of it is markup."""
    for sign in ("\\", "|", "<", "`", "*", "_", "["):
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", "<br>")

"""Fills the templates of pages and drawings, tables among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dlbricks_core.estimation.results import RunResult
from dlbricks_core.importers import LoadOptions
from dlbricks_core.passes.options import InputValue
from dlbricks_core.report import heading
from dlbricks_core.report.remarks import Effect, Remark
from dlbricks_core.sanitize import sanitized
from dlbricks_core.version import __version__
from dlbricks_core.wording import count

_PACKAGE = "dlbricks_pages"

if TYPE_CHECKING:
    from jinja2 import Environment

    from dlbricks_core.report.columns import FilledColumn


@dataclass(frozen=True)
class TableColumn:
    """A column of a table."""

    title: str  #: Heading.
    #: Whether its cells hold words, which are aligned left, rather than numbers.
    is_text: bool = False


@dataclass(frozen=True)
class Cell:
    """A table cell that is more than plain text."""

    text: str  #: Text of the cell.
    marks: str = ""  #: Classes of the style sheet: ``best``, ``code``, ``again``.
    style: str = ""  #: Inline style, such as a background.
    link: str = ""  #: Target of a link on the text.
    key: str | float = ""  #: Sort key of the cell; the text if empty.


Row = Sequence[Cell]


@dataclass(frozen=True)
class PageTable:
    """A table whose first column names the rows; on a phone, each row becomes a card."""

    columns: Sequence[TableColumn]  #: Columns from left to right.
    rows: Sequence[Row]  #: Rows from top to bottom, with a cell for each column.
    caption: str = ""  #: Meaning and unit of the figures.
    #: Whether names of rows may take several lines; names of models may not.
    names_wrap: bool = False


_HYPHEN = re.compile(r"(?<=\d)-(?=\d)")


def page_table(
    columns: Iterable[str],
    rows: Iterable[Iterable[str | Cell]],
    caption: str = "",
    *,
    words: Collection[str] = (),
    names_wrap: bool = False,
) -> PageTable:
    """A table from texts as terminals show them; pages have dashes in place of hyphens.

    Args:
        columns: Headings. The first column names the rows.
        rows: Texts and cells of each row; ``-`` stands for unknown.
        caption: Meaning and unit of the figures.
        words: Headings of further columns that hold words rather than numbers.
        names_wrap: As in :class:`PageTable`.
    """
    first, *others = columns
    headings = [TableColumn(first, True), *(TableColumn(each, each in words) for each in others)]
    cells = [
        [_cell(cell, column) for cell, column in zip(row, headings, strict=True)] for row in rows
    ]
    return PageTable(headings, cells, caption, names_wrap)


def _cell(content: str | Cell, column: TableColumn) -> Cell:
    cell = content if isinstance(content, Cell) else Cell(content)
    text = "–" if cell.text == "-" else cell.text
    return replace(cell, text=text if column.is_text else _HYPHEN.sub("–", text))


def filled_page_table(columns: Sequence[FilledColumn], caption: str) -> PageTable:
    """A table of columns that are filled in."""
    cells = zip(*(each.cells for each in columns), strict=True)
    words = [each.heading for each in columns if each.justification == "left"]
    rows = [["-" if cell is None else cell for cell in row] for row in cells]
    return page_table([each.heading for each in columns], rows, caption, words=words)


Fact = tuple[str, str]  #: A name, and a fact about how figures were made, in words.


def render(template: str, package: str = _PACKAGE, **values: Any) -> str:
    """A template filled with values; markup in them is escaped.

    Args:
        template: Path of the template in its package.
        package: The package. A template of another distribution may extend and import this one's.
        **values: Variables of the template.
    """
    return (
        _environment(package)
        .get_template(template)
        .render(
            version=__version__, written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), **values
        )
    )


@cache
def _environment(package: str) -> Environment:
    """Compiled templates: a site has many pages of one kind."""
    # Slow to import, and most commands write no page.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader(
            [PackageLoader(each, "") for each in dict.fromkeys((package, _PACKAGE))]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_sanitized,
    )


def _sanitized(value: Any) -> Any:
    return sanitized(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(
    template: str,
    *,
    title: str,
    answer: Sequence[str],
    facts: Sequence[Fact] = (),
    remarks: Sequence[Remark] = (),
    failures: Sequence[tuple[str, str]] = (),
    **values: Any,
) -> str:
    """A page in the common layout, which begins with the answer and doubts about it.

    Args:
        template: Path of the template, which fills the block ``results``.
        title: Subject of the page.
        answer: Sentences; the first is the answer itself.
        facts: Facts about how the figures were made.
        remarks: Remarks, the worst first; notes come below the figures.
        failures: Failures with their reasons.
        **values: Further variables of the template, and its package if that is another one.
    """
    return render(
        template,
        title=title,
        answer=answer,
        facts=facts,
        warnings=[remark for remark in remarks if remark.effect < Effect.NOTE],
        notes=[remark for remark in remarks if remark.effect == Effect.NOTE],
        failures=failures,
        **values,
    )


def run_facts(runs: Mapping[str, RunResult], load: LoadOptions | None) -> list[Fact]:
    """Facts about how runs were made."""
    run = next(iter(runs.values()))
    request, cut = run.request, run.cut_options
    found = []
    for name, each in runs.items():
        timer = ""
        if each.call_ms:
            timer = f"; timer {each.call_ms * 1e3:.1f} µs a call, taken off each brick"
        about = f"{name} {each.request.setup.version}{heading.options(each.request)}{timer}"
        found.append(("Backend", about))
    system = f"{heading.system(request)} (fingerprint {request.fingerprint})"
    found.append(("System", system))
    read = f"{reading_options(load)}; " if load else ""
    threads = count(request.settings.threads, "thread")
    measuring = f"{heading.protocol(request)}; {threads}; {read}seed {request.seed}"
    layers = count(cut.granularity, "layer")
    bricks = f"up to {layers}, split {cut.strategy}, composer {cut.composer}"
    found += [("Measuring", measuring), ("Bricks", bricks)]
    if run.calibration:
        found.append(("Calibrated", heading.calibrated_with(run.calibration)))
    return found


def reading_options(load: LoadOptions) -> str:
    """Sizes, values and element type that models were read with."""
    dims = [f"{name}={size}" for name, size in load.dims.items()]
    shapes = [f"{name}={'x'.join(map(str, shape))}" for name, shape in load.shapes.items()]
    values = [f"{name}={constant(number)}" for name, number in load.values.items()]
    outputs = [f"output {name}" for name in load.outputs]
    folded = ["batch normalization folded"] if load.fold_batchnorm else []
    converted = [f"converted to {load.dtype}"] if load.dtype else []
    size = f"batch {load.batch or 1}"
    return ", ".join([size, *dims, *shapes, *values, *outputs, *folded, *converted])


def constant(value: InputValue) -> str:
    """Constant value of an input, as users write it."""
    if value is None:
        return "none"
    return ",".join(f"{each:g}" for each in (value if isinstance(value, tuple) else (value,)))

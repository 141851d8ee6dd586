"""Output of commands: results, progress and remarks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from dlbricks_core import store as stores
from dlbricks_core.commands.options.progress import ProgressBar
from dlbricks_core.preferences import TEXT, preferred
from dlbricks_core.report.files import (
    check_folder,
    check_writable,
    to_standard_output,
    write_json,
    write_text,
)
from dlbricks_core.report.pages import check_pages
from dlbricks_core.report.tables import FORMS, Console

EXIT_PARTIAL = 3

_FILES = {
    "json_path": "--json",
    "html_path": "--html",
    "svg_path": "--output",
    "trace_path": "--output",
    "exported": "FILE",
}

_READ = ("record", "before", "after", "imported", "prices", "accuracies", "results")
"""Options and arguments of commands that name files which are read."""


class Output:
    """Writes results to standard output, progress and remarks to standard error.

    It should be created before anything is read or measured, because it rejects files that cannot
    be written.

    Args:
        values: The command's options, of which it reads ``json_path``, ``html_path``,
            ``table_format``, ``quiet`` and ``verbose``.

    Raises:
        DLBricksError: If a requested file cannot be written, or no distribution writes pages.
        UsageError: If two names on the command line refer to one file.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._json_path: Path | None = values.get("json_path")
        self._html_path: Path | None = values.get("html_path")
        given = click.get_current_context().params
        _check_files(given)
        if self._html_path is not None:
            check_pages()
        quiet = bool(values.get("quiet"))
        # Standard output must contain only the requested data.
        alone = any(to_standard_output(given.get(key)) for key in _FILES)
        self.errors = Console(stderr=True, quiet=quiet)
        form = values.get("table_format") or TEXT
        self.console = (
            Console(quiet=quiet or alone)
            if form == TEXT
            else TablesOnly(form, self.errors, quiet=quiet or alone)
        )
        self._verbose = bool(values.get("verbose"))

    def progress(self) -> ProgressBar:
        """A progress bar, if standard error is a terminal."""
        return ProgressBar(self.errors, verbose=self._verbose)

    def if_interrupted(self, kept: str) -> None:
        """Sets the message for an interruption from now on."""
        click.get_current_context().ensure_object(dict)["kept"] = kept

    def write_json(self, data: Mapping[str, Any]) -> None:
        """Writes the JSON file, if the user named one."""
        if self._json_path is not None:
            write_json(data, self._json_path)

    def write_record(self, data: Callable[[], Mapping[str, Any]]) -> None:
        """Writes the JSON file, if the user named one. The data are created only then."""
        if self._json_path is not None:
            write_json(data(), self._json_path)

    def write_html(self, page: Callable[[], str]) -> None:
        """Writes the HTML file, if the user named one. The page is created only then."""
        if self._html_path is not None:
            write_text(page(), self._html_path)


def _check_files(values: Mapping[str, Any]) -> None:
    """Rejects files that cannot be written, and files that would overwrite another."""
    folder: Path | None = values.get("folder")
    if folder is not None:
        check_folder(folder)
    named = list(_inputs(values))
    for key, option in _FILES.items():
        path: Path | None = values.get(key)
        if path is None:
            continue
        # A folder for the results is created before they are written.
        if folder is None or path.parent != folder or folder.exists():
            check_writable(path)
        for other, taken in named:
            if _same_file(path, taken):
                raise click.UsageError(f"{option} names the same file as {other}: {path}")
        named.append((option, path))


def _inputs(values: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Files that a command reads, and its store."""
    for model in (*values.get("models", ()), values.get("model")):
        if model is not None:
            yield f"the model {model}", Path(model)
    for name in _READ:
        found = values.get(name) or ()
        for path in found if isinstance(found, Sequence) else (found,):
            # An argument of the same name may be something else, such as a date.
            if isinstance(path, Path) and str(path) != "-":
                yield f"the file {path}", path
    if (bricks := values.get("bricks")) is not None:
        with suppress(OSError):
            yield from ((f"one of the files in {bricks}", path) for path in bricks.rglob("*"))
    typed = values.get("store")
    store = typed or preferred("store") if "store" in values else None
    if store and (file := stores.locate(store).file) is not None:
        yield "--store" if typed else "the store", file


def _same_file(first: Path, second: Path) -> bool:
    if os.path.realpath(first) != os.path.realpath(second):
        return first.is_file() and second.is_file() and first.samefile(second)
    return first.is_file() or not first.exists()


_WIDE = 100_000  #: Columns of a terminal in which every table has room.


class TablesOnly(Console):
    """Standard output with tables and nothing else. All other text goes to standard error.

    Args:
        form: Form of the tables: ``csv`` or ``markdown``.
        errors: Console of standard error.
        **options: Options of :class:`Console`.
    """

    def __init__(self, form: str, errors: Console, **options: Any) -> None:
        super().__init__(width=_WIDE, **options)
        self._write = FORMS[form]
        self._errors = errors
        self._tables = 0

    def print(self, *objects: Any, **options: Any) -> None:
        """Writes tables, with an empty line between two of them."""
        for each in objects:
            if not isinstance(each, Table):
                self._errors.print(each, **options)
            elif not self.quiet:
                self.file.write("\n" * bool(self._tables) + self._write(each))
                self._tables += 1

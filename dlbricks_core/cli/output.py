"""Where commands write to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from dlbricks_core.report import ProgressBar, write_json, write_text

EXIT_PARTIAL = 3


class Output:
    """Results to standard output, progress and remarks to standard error.

    Args:
        values: The command's options; reads ``json_path``, ``html_path``, ``quiet`` and
            ``verbose``.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._json_path: Path | None = values.get("json_path")
        self._html_path: Path | None = values.get("html_path")
        to_stdout = str(self._json_path) == "-"
        quiet = bool(values.get("quiet"))
        # JSON on standard output must be alone there.
        self.console = Console(quiet=quiet or to_stdout, highlight=False, soft_wrap=False)
        self.errors = Console(stderr=True, quiet=quiet, highlight=False)
        self._verbose = bool(values.get("verbose"))

    def progress(self) -> ProgressBar:
        """A progress bar, where standard error is a terminal."""
        return ProgressBar(self.errors, verbose=self._verbose)

    def write_json(self, data: dict[str, Any]) -> None:
        """Writes the JSON file, if one was asked for."""
        if self._json_path is not None:
            sys.stdout.flush()
            write_json(data, self._json_path)

    def write_html(self, page: Callable[[], str]) -> None:
        """Writes the HTML file, if one was asked for; only then the page is made."""
        if self._html_path is not None:
            write_text(page(), self._html_path)

"""Conformance suites of columns and commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, get_args

from dlbricks_core.commands import Command
from dlbricks_core.compose import Sequential
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.report.columns import Column, Justification, added_columns
from dlbricks_testing.models import cut, figures
from dlbricks_testing.suite import ConformanceSuite, fresh

# Conformance suite of columns.

_HEADING = 16
"""Maximum number of characters of a heading: several columns share 80."""


class ColumnConformance(ConformanceSuite):
    """Conformance suite of a column: heading, cells, and values in JSON. Nothing runs.

    Attributes:
        plugin: The :class:`~dlbricks_core.report.Column` class. Required.
    """

    plugin: ClassVar[type[Column]]
    framework_modules: ClassVar[tuple[str, ...]] = ()

    kind: ClassVar[str] = "column"
    required: ClassVar[tuple[str, ...]] = ("plugin",)

    def test_the_heading_is_short(self) -> None:
        """A heading is one line of few characters, and cells are aligned left or right."""
        column = self.plugin()
        assert 0 < len(column.heading) <= _HEADING
        assert "\n" not in column.heading
        assert column.justification in get_args(Justification)

    def test_cells_are_lines_of_text(self) -> None:
        """Cells are texts of one line, or ``None``, for any result: measured, partial, unknown."""
        for result in results():
            cell = self.plugin().cell(result)
            assert cell is None or (isinstance(cell, str) and cell and "\n" not in cell)

    def test_values_can_be_written_as_json(self) -> None:
        """Values are what JSON has; a number that is not finite or unknown is ``None``."""
        for result in results():
            assert json.dumps(self.plugin().value(result), allow_nan=False)

    def test_cells_are_the_same_each_time(self) -> None:
        """A column depends on nothing but the result."""
        for result in results():
            assert self.plugin().cell(result) == self.plugin().cell(result)
            assert self.plugin().value(result) == self.plugin().value(result)

    def test_a_table_has_the_column(self) -> None:
        """The installed column fills the table of several models without a problem."""
        (column,) = (each for each in added_columns(results()) if each.name == self.plugin.name)
        assert not column.problem
        assert len(column.cells) == len(column.values) == len(results())


@cache
def results() -> Sequence[ModelResult]:
    """Results of models in any state: measured, estimated, partial, and without any figure."""
    bricks = cut()
    known = figures(bricks.bricks)
    composer = Sequential()
    found = []
    for model in bricks.models:
        first = model.occurrences[0].signature
        for figures_of_bricks in (known, {first: known[first]}, {}):
            estimate = composer.compose(model, figures_of_bricks)
            missing = dict.fromkeys(estimate.missing, "out of memory")
            found.append(ModelResult(model, estimate, estimate, missing=missing))
        whole = composer.compose(model, known)
        measured = known[first]
        found.append(ModelResult(model, whole, whole, measured, origin={"measured": 1.0}))
        found.append(ModelResult(model, whole, whole, measured, is_measurement=True))
    return found


# Conformance suite of commands.

_WIDTH = 80
"""Columns of a terminal."""

_LISTED = """
import importlib, json, sys
module, _, name = sys.argv[1].partition(":")
known = getattr(importlib.import_module(module), name)
light = "click" not in sys.modules
known().load()
print(json.dumps({"light": light}))
"""


class CommandConformance(ConformanceSuite):
    """Conformance suite of a command: help, wrong usage, and imports."""

    plugin: ClassVar[type[Command]]
    framework_modules: ClassVar[tuple[str, ...]] = ()

    kind: ClassVar[str] = "command"
    required: ClassVar[tuple[str, ...]] = ("plugin",)

    def test_the_purpose_is_one_line(self) -> None:
        """The list of commands has a line for each."""
        assert self.plugin.purpose
        assert "\n" not in self.plugin.purpose
        assert self.plugin.purpose.endswith(".")

    def test_the_list_of_commands_does_not_import_it(self) -> None:
        """The list of commands needs none of their imports."""
        assert fresh(_LISTED, self.target())["light"]

    def test_help_fits_a_terminal(self) -> None:
        """The help text succeeds, and no line is longer than a terminal is wide."""
        done = self._called("-h")
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= _WIDTH

    def test_wrong_usage_is_told_in_a_line(self) -> None:
        """An option that does not exist ends with status 2, and without a traceback."""
        done = self._called("-@")
        assert done.returncode == 2, done.stderr
        assert "Error: No such option" in done.stderr
        assert "Traceback" not in done.stderr

    def _called(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = self.plugin.name.split(".")  # of an action: its command's first
        line = [sys.executable, "-m", "dlbricks_core.cli", *words, *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=False)

"""Conformance suite of commands."""

from __future__ import annotations

import subprocess
import sys
from typing import ClassVar

from dlbricks_core.commands import Command
from dlbricks_testing.suite import ConformanceSuite, fresh

_WIDTH = 80
"""Maximum characters of a line."""
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
        line = [sys.executable, "-m", "dlbricks_core.cli", self.plugin.name, *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=False)

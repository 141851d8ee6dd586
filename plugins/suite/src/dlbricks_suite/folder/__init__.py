"""Suites: networks packed to be timed on another machine, in a folder that is never trusted."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_suite.folder.manifest import Cut, Suite, SuiteBrick, SuiteModel
    from dlbricks_suite.folder.read import read_suite
    from dlbricks_suite.folder.write import check_unused, write_suite

__all__ = [
    "Cut",
    "Suite",
    "SuiteBrick",
    "SuiteModel",
    "check_unused",
    "read_suite",
    "write_suite",
]

lazy(__name__)

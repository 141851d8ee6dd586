"""Results of the API's functions for systems of a store, suites, and surveys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core.api.results import Result, Rows, listed
from dlbricks_core.commands.machine.survey_report import survey_data
from dlbricks_core.commands.machine.surveying import Survey
from dlbricks_core.commands.machine.systems_report import systems_data
from dlbricks_core.commands.suite.job import SuiteWriteJob, WrittenSuite
from dlbricks_core.commands.suite.writing import generated_data
from dlbricks_core.report.notes import text
from dlbricks_core.sanitize import sanitized
from dlbricks_core.store import Inventory
from dlbricks_core.suites import Suite


@dataclass(frozen=True, repr=False)
class Systems(Result):
    """The systems of a store.

    Attributes:
        inventory: Content of the store, as a :class:`dlbricks_core.store.Inventory`.
    """

    inventory: Inventory

    def to_dict(self) -> dict[str, Any]:
        """Systems and their numbers of measurements, as ``dlbricks machine list`` writes them."""
        return dict(systems_data(self.inventory))

    def rows(self) -> Rows:
        """One row for each machine."""
        rows: Rows = self.to_dict()["systems"]
        return rows

    def __repr__(self) -> str:
        return f"<Systems: {listed(row['reference'] for row in self.rows())}>"


@dataclass(frozen=True, repr=False)
class GeneratedSuite(Result):
    """A suite that was written.

    Attributes:
        written: The suite, and bricks that could not be written.
        job: How it was written.
    """

    written: WrittenSuite
    job: SuiteWriteJob

    @property
    def folder(self) -> Path:
        """Folder of the suite."""
        return self.job.folder

    @property
    def suite(self) -> Suite:
        """Content of the suite."""
        return self.written.suite

    @property
    def failures(self) -> list[dict[str, str]]:
        """Bricks that could not be written (``where``), and the reason (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    def to_dict(self) -> dict[str, Any]:
        """Models and bricks, as ``dlbricks suite write`` writes them."""
        return dict(generated_data(self.written, self.job))

    def rows(self) -> Rows:
        """One row for each brick."""
        return [{**each, "layers": ", ".join(each["layers"])} for each in self.to_dict()["bricks"]]

    def __repr__(self) -> str:
        return f"<GeneratedSuite: {len(self)} bricks, in {sanitized(str(self.folder))}>"


@dataclass(frozen=True, repr=False)
class Surveyed(Result):
    """Networks that were timed to predict latencies on this system.

    Attributes:
        survey: Result of the workflow.
    """

    survey: Survey

    @property
    def failures(self) -> list[dict[str, str]]:
        """Failures: networks that could not be timed (``where``), and the reason (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, such as a machine that was busy."""
        return [text(each) for each in self.survey.warnings]

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks machine survey``."""
        return dict(survey_data(self.survey))

    def rows(self) -> Rows:
        """One row for each family of networks."""
        return [
            {
                "family": each["name"],
                "networks": each["networks"],
                **{name: (each["predictions"] or {}).get(name) for name in _PREDICTED},
            }
            for each in self.to_dict()["families"]
        ]

    def __repr__(self) -> str:
        known, anew = self.survey.networks, self.survey.anew
        return f"<Surveyed: {known} networks known, {anew} of them timed now>"


_PREDICTED = ("error", "half_width", "coverage")
"""Figures on predictions of a family."""

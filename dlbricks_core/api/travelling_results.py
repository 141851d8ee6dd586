"""Results of the API's functions for what travels: systems of a store, suites, and surveys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core.api.results import Result, Rows, listed
from dlbricks_core.harmless import harmless
from dlbricks_core.report.generating import generated_data
from dlbricks_core.report.privacy import privacy_data
from dlbricks_core.report.survey import survey_data
from dlbricks_core.report.systems import systems_data
from dlbricks_core.store import Inventory
from dlbricks_core.suites import Suite
from dlbricks_core.workflows.privacy import Privacy
from dlbricks_core.workflows.private import Hidden
from dlbricks_core.workflows.survey import Survey


@dataclass(frozen=True, repr=False)
class Systems(Result):
    """The systems of a store.

    Attributes:
        inventory: What the store holds, as a :class:`dlbricks_core.store.Inventory`.
    """

    inventory: Inventory

    def to_dict(self) -> dict[str, Any]:
        """Systems and how much they measured, as ``dlbricks systems list`` writes them."""
        return systems_data(self.inventory)

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
        folder: Where it is.
        suite: What it holds.
        hidden: What decoys hide in a private suite.
        key: File of its key.
    """

    folder: Path
    suite: Suite
    hidden: Hidden | None = None
    key: Path | None = None

    @property
    def failures(self) -> list[dict[str, str]]:
        """Bricks that could not be written (``where``), and the reason (``reason``)."""
        return [dict(each) for each in self.to_dict()["failures"]]

    def to_dict(self) -> dict[str, Any]:
        """Models, bricks and numbers of decoys, as ``dlbricks generate`` writes them."""
        return generated_data(self.suite, self.folder, self.suite.omitted, self.hidden)

    def rows(self) -> Rows:
        """One row for each brick; none tells whether it is a decoy."""
        return [{**each, "layers": ", ".join(each["layers"])} for each in self.to_dict()["bricks"]]

    def __repr__(self) -> str:
        data = self.to_dict()
        hidden = f", {data['private']['decoys']} of them decoys" if data["private"] else ""
        return f"<GeneratedSuite: {len(self)} bricks{hidden}, in {harmless(str(self.folder))}>"


@dataclass(frozen=True, repr=False)
class Exposed(Result):
    """Exposure of a private suite to an attacker.

    Attributes:
        privacy: Result of the workflow.
    """

    privacy: Privacy

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks privacy``."""
        return privacy_data(self.privacy)

    def rows(self) -> Rows:
        """One row for each model."""
        rows: Rows = self.to_dict()["exposed"]
        return rows

    def __repr__(self) -> str:
        told = listed(
            f"{row['name']} is one of 10^{row['log10_candidates_left']:.0f}" for row in self.rows()
        )
        return f"<Exposed: {told}>"


@dataclass(frozen=True, repr=False)
class Surveyed(Result):
    """Networks that were timed so that a predictor knows this system.

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
        return list(self.survey.warnings)

    def to_dict(self) -> dict[str, Any]:
        """The whole result, in the JSON form of ``dlbricks survey``."""
        return survey_data(self.survey)

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

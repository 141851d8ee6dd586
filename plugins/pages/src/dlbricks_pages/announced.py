"""The command and the page, which the lists of commands and plugins import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.commands import Action, ActionCommand
from dlbricks_core.report import ResultPage

if TYPE_CHECKING:
    from dlbricks_core.estimation.results import RunResult
    from dlbricks_core.importers import LoadOptions


class PagesCommand(ActionCommand):
    """How do the results of a store look in a browser?"""

    name = "results.pages"
    purpose = "Write a store as pages for a browser."
    actions = (
        Action(
            "pages",
            purpose,
            "dlbricks_pages.command",
            "dlbricks_pages.pages:ResultsPagesData",
            predicts=True,
        ),
    )


class EstimatePage(ResultPage):
    """A run or an estimate."""

    name = "estimate"

    def html(self, result: RunResult, load: LoadOptions | None) -> str:
        """The whole page."""
        from dlbricks_pages.run import run_page

        return run_page(result, load)

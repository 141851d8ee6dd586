"""The command and its page, which the lists of commands and plugins import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.commands import Action, ActionCommand
from dlbricks_core.report import ResultPage

if TYPE_CHECKING:
    from dlbricks_accuracy.evaluation import Evaluation
    from dlbricks_core.importers import LoadOptions


class CheckCommand(ActionCommand):
    """How good are estimates here, and where does one go wrong?"""

    name = "check"
    grows = True
    purpose = "Compare estimates with measurements, and find where they deviate."
    actions = (
        Action(
            "accuracy",
            "Show errors, model by model.",
            "dlbricks_accuracy.command",
            "dlbricks_accuracy.report:CheckAccuracyData",
            resumes=True,
        ),
    )


class EvaluationPage(ResultPage):
    """Errors of estimates."""

    name = "evaluation"

    def html(self, result: Evaluation, load: LoadOptions | None) -> str:
        """The whole page, with the tables and plots of dlbricks-pages."""
        from dlbricks_accuracy.page import evaluation_page

        return evaluation_page(result, load)

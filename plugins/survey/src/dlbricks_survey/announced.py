"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class SurveyCommand(ActionCommand):
    """How fast does this machine compute what real models have?"""

    name = "machine.survey"
    purpose = "Time networks from which latencies of others are predicted."
    actions = (
        Action(
            "survey",
            purpose,
            "dlbricks_survey.command",
            "dlbricks_survey.report:MACHINE_SURVEY",
            predicts=True,
            resumes=True,
        ),
    )

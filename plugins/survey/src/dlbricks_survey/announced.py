"""Names and purposes of the commands, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class CalibrateCommand(ActionCommand):
    """Which numbers of a composer, and which speeds, has this machine?"""

    name = "machine.calibrate"
    purpose = "Fit a composer's few numbers to this system."
    actions = (
        Action(
            "calibrate",
            purpose,
            "dlbricks_survey.calibration_command:calibrate_command",
            "dlbricks_survey.calibration:MACHINE_CALIBRATE",
            predicts=True,
            resumes=True,
        ),
    )


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

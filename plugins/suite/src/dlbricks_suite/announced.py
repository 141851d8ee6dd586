"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class SuiteCommand(ActionCommand):
    """Which bricks has another machine to time?"""

    name = "suite"
    purpose = "Write bricks as a suite that another machine times."
    actions = (
        Action(
            "time",
            "Time a suite.",
            "dlbricks_suite.command:time_command",
            "dlbricks_core.commands.estimate.data:EstimateData",
            resumes=True,
        ),
        Action(
            "write",
            "Write a suite from models.",
            "dlbricks_suite.command:write_command",
            "dlbricks_suite.writing:SuiteWriteData",
        ),
    )

"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class OutputsCommand(ActionCommand):
    """Do frameworks compute the same?"""

    name = "compare.outputs"
    purpose = "Check that frameworks compute the same."
    actions = (
        Action(
            "outputs",
            purpose,
            "dlbricks_verify.command:outputs_command",
            "dlbricks_verify.report:CompareOutputsData",
        ),
    )

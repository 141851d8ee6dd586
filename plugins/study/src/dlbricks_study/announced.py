"""Names and purposes of the commands, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class StudyCommand(ActionCommand):
    """How do the paper's figures look for other models?"""

    name = "study"
    purpose = "Repeat the paper's evaluation on any models: a report with plots."
    actions = (
        Action(
            "corpus",
            purpose,
            "dlbricks_study.command",
            "dlbricks_study.data:StudyData",
            resumes=True,
        ),
    )


class RepeatsCommand(ActionCommand):
    """How do layers repeat?"""

    name = "show.repeats"
    purpose = "Show how layers repeat, within and across models."
    actions = (
        Action(
            "repeats",
            purpose,
            "dlbricks_study.show_repeats:repeats_command",
            "dlbricks_study.repeats:ShowRepeatsData",
        ),
    )

"""Name and purpose of the command, which the list of commands imports."""

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

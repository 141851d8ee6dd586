"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


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

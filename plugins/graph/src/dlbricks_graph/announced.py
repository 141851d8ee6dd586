"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from dlbricks_core.commands import Action, ActionCommand


class GraphCommand(ActionCommand):
    """How does the model look?"""

    name = "show.graph"
    purpose = "Draw a model."
    actions = (
        Action("graph", purpose, "dlbricks_graph.command", "dlbricks_graph.command:ShowGraphData"),
    )

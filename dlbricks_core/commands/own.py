"""Commands that come with DLBricks, one for each question of a user, in the order of the help."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.commands.command import Action, ActionCommand


class _CoreCommand(ActionCommand):
    """A command whose actions are named from their rooms in the core."""

    def __init_subclass__(cls) -> None:
        cls.actions = tuple(
            replace(
                each,
                module=f"dlbricks_core.commands.{each.module}",
                writes=f"dlbricks_core.{each.writes}",
            )
            for each in cls.actions
        )
        super().__init_subclass__()


class EstimateCommand(_CoreCommand):
    """How long does it take, how much does it need?"""

    name = "estimate"
    purpose = "Estimate models from stored and predicted figures, or with few runs."
    actions = (
        Action("models", purpose, "estimate.actions",
               "commands.estimate.data:EstimateData", predicts=True, resumes=True),
    )  # fmt: skip


class ShowCommand(_CoreCommand):
    """Which layers and bricks are in the model?"""

    name = "show"
    grows = True
    purpose = "Show a model: layers, bricks, repeats, a picture. Nothing runs."
    actions = (
        Action("layers", "Show layers and bricks.", "show.actions:layers_command",
               "commands.show.inspection:ShowLayersData"),
    )  # fmt: skip


class ListCommand(_CoreCommand):
    """Which models, plugins and backends are there?"""

    name = "list"
    purpose = "List model collections and plugins."
    actions = (
        Action("models", "List model collections, and files that can be read.",
               "list.actions:models_command", "commands.list.actions:ListModelsData"),
        Action("plugins", "List plugins, with the problems of each.",
               "list.actions:plugins_command", "commands.list.actions:ListPluginsData"),
    )  # fmt: skip


#: Commands in the order of the help text.
OWN = (
    EstimateCommand,
    ShowCommand,
    ListCommand,
)

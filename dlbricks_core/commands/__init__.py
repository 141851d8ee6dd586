"""Commands of ``dlbricks``: each is announced by an entry point of the group dlbricks.commands."""

from dlbricks_core.commands.command import Action, ActionCommand, Command

__all__ = ["Action", "ActionCommand", "Command"]

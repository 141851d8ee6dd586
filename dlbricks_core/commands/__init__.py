"""Commands of ``dlbricks``: each is announced by an entry point of the group dlbricks.commands."""

from dlbricks_core.commands.command import Command

__all__ = ["Command"]

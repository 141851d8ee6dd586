"""Name and purpose of the command. ``dlbricks --help`` imports this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.commands import Command

if TYPE_CHECKING:
    import click


class Widest(Command):
    """The command ``dlbricks widest``."""

    name = "widest"
    purpose = "Show the largest tensor that each model computes; runs nothing."

    def load(self) -> click.Command:
        """The command, whose imports take longer."""
        from dlbricks_widest.command import command

        return command

"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dlbricks_core.commands import Command

if TYPE_CHECKING:
    import click


class Fleet(Command):
    """The command ``dlbricks fleet``."""

    name = "fleet"
    purpose = "Time a suite on many hosts at once."
    objects: ClassVar = {
        "run": "dlbricks_fleet.report:FleetRunData",
        "status": "dlbricks_fleet.report:FleetStatusData",
    }

    def load(self) -> click.Command:
        """The command and its subcommands."""
        from dlbricks_fleet.command import command

        return command

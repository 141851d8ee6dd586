"""Name and purpose of the command, which the list of commands imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dlbricks_core.commands import Command

if TYPE_CHECKING:
    import click


class Private(Command):
    """The command ``dlbricks private``."""

    name = "private"
    purpose = "Pack models that must stay secret, and estimate them."
    predicts = True
    objects: ClassVar = {
        "generate": "dlbricks_suite.writing:SuiteWriteData",
        "estimate": "dlbricks_core.commands.estimate.data:EstimateData",
        "attack": "dlbricks_private.report:PrivateAttackData",
    }

    def load(self) -> click.Command:
        """The command and its subcommands."""
        from dlbricks_private.command import command

        return command

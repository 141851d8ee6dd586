"""Commands with subcommands."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import click

from dlbricks_core.commands.options.spelling import FLAGS


class Group(click.Group):
    """A command with subcommands. Common flags may also precede the name of a subcommand."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"no_args_is_help": False, **options})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Moves flags behind the name of the subcommand."""
        flags = [*takewhile(FLAGS.__contains__, args)]
        name, rest = args[len(flags) : len(flags) + 1], args[len(flags) + 1 :]
        return super().parse_args(ctx, [*name, *flags, *rest])

"""Commands that have commands of their own."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import click

from dlbricks_core.cli.spelling import FLAGS


class Group(click.Group):
    """Commands of one kind. Flags of all commands may also stand before a command's name."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"no_args_is_help": False, **options})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Moves flags behind the name of the command."""
        flags = [*takewhile(FLAGS.__contains__, args)]
        name, rest = args[len(flags) : len(flags) + 1], args[len(flags) + 1 :]
        return super().parse_args(ctx, [*name, *flags, *rest])

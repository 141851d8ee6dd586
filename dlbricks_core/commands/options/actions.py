"""Commands with several actions, each imported when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import click
from click.shell_completion import CompletionItem

from dlbricks_core.commands.command import Action, loaded
from dlbricks_core.commands.options.spelling import FLAGS

RESUMED = "All measurements are in the store; run it again to go on."
"""Sentence on the measurements of an interrupted command."""


def completed_options(
    group: click.Group, context: click.Context, name: str, incomplete: str
) -> list[CompletionItem]:
    """Options that a shell offers for the command of a group that users need not name.

    Args:
        group: The group.
        context: Context of the group.
        name: Name of the command.
        incomplete: Beginning of the word. Only one with a hyphen is an option.
    """
    command = group.get_command(context, name) if incomplete.startswith("-") else None
    if command is None:
        return []
    within = command.make_context(name, [], parent=context, resilient_parsing=True)
    return command.shell_complete(within, incomplete)


class Actions(click.Group):
    """A command with several actions. The first is done if the command line names none."""

    def __init__(self, name: str, purpose: str, actions: Sequence[Action]) -> None:
        first = actions[0].name
        epilog = f"'dlbricks {name} {first} -h' shows the options of an action."
        super().__init__(name, help=purpose, epilog=epilog, no_args_is_help=False)
        self._actions = {each.name: each for each in actions}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the actions."""
        return [*self._actions]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The action of a name, imported now."""
        action = self._actions.get(cmd_name)
        if action is None:
            return None
        if action.resumes:
            ctx.ensure_object(dict)["kept"] = RESUMED
        return loaded(action)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of actions, none of which is imported."""
        first, *_ = self._actions
        with formatter.section(f"Actions ({first} if none is named)"):
            formatter.write_dl([(name, each.purpose) for name, each in self._actions.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Moves common flags behind the name of the action, which may be left out."""
        flags = [*takewhile(FLAGS.__contains__, args)]
        rest = args[len(flags) :]
        if ctx.resilient_parsing and not rest:  # a shell completes the name of an action
            return super().parse_args(ctx, rest)
        if rest[:1] in (["-h"], ["--help"]):
            return super().parse_args(ctx, rest)
        if not rest or rest[0] not in self._actions:
            first, *_ = self._actions
            self._check_argument(ctx, first, rest[:1])
            rest = [first, *rest]
        return super().parse_args(ctx, [rest[0], *flags, *rest[1:]])

    def _check_argument(self, ctx: click.Context, first: str, word: Sequence[str]) -> None:
        """Refuses a word in place of an action, where the first action takes no argument."""
        command = self.get_command(ctx, first) if word and not word[0].startswith("-") else None
        if command and not any(isinstance(each, click.Argument) for each in command.params):
            known = ", ".join(self._actions)
            raise click.UsageError(f"unknown action {word[0]!r}; there are {known}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of actions, and options of the first one."""
        first, *_ = self._actions
        found = super().shell_complete(ctx, incomplete)
        return [*found, *completed_options(self, ctx, first, incomplete)]

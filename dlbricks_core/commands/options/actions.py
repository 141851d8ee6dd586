"""Commands: their help, and actions that are imported when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from dlbricks_core.commands.command import (
    DISTRIBUTIONS,
    Action,
    Command,
    added_actions,
    folders_to_install,
    imported,
    loaded,
)
from dlbricks_core.commands.options.spelling import FLAGS
from dlbricks_core.errors import DLBricksError
from dlbricks_core.plugins import Plugin, discover, find, use
from dlbricks_core.wording import clone_install
from dlbricks_core.worker.memory import check_limits

RESUMED = "All measurements are in the store; run it again to go on."
"""Sentence on the measurements of an interrupted command."""


def installed_command(context: click.Context, name: str) -> click.Command:
    """The click command of an entry point, imported now.

    Args:
        context: Context of the group that has the command.
        name: Name of the entry point.
    """
    plugin = find("command", name, Command)
    command: Command = use(plugin, plugin.loaded)
    if command.resumes:
        context.ensure_object(dict)["kept"] = RESUMED
    check_limits()
    with imported(predicts=command.predicts):
        return use(plugin, command.load)


def listed_purpose(plugin: Plugin) -> str:
    """Text about a command in the list of commands."""
    return f"Broken: {plugin.problem}" if plugin.problem else plugin.loaded.purpose


def refuse_missing(name: str) -> None:
    """Raises an error that names the distribution of a command or action, if it is one of ours.

    Args:
        name: Name of an entry point that is not installed. A file may have the name, too.
    """
    distribution = DISTRIBUTIONS.get(name)
    if distribution is None or Path(name.rpartition(".")[2]).is_file():
        return
    folder = distribution.removeprefix("dlbricks-")
    raise DLBricksError(
        f"'dlbricks {name.replace('.', ' ')}' comes with {distribution}, which is not installed",
        hint=clone_install(*(f"plugins/{each}" for each in folders_to_install(folder))),
    )


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


MAX_SHOWN = 16
"""Maximum number of options that a help text shows unless all are requested."""

_RAREST_FIRST = (
    *("table_format", "reimport", "timeout_s", "fold_batchnorm", "values", "outputs", "protocol"),
    *("seed", "retry_failed", "busy"),
    *(
        "split",
        "granularity",
        "force",
        "reference_timeout_s",
        "backend_options",
        "composer",
        "quiet",
    ),
    *("condition", "predictor", "quantity", "verbose", "dtype", "runs", "budget_s", "duration_s"),
    *("results", "key", "min_accuracy", "accuracies", "html_path", "end_to_end"),
)
"""Options that a short help text leaves out, from the first to be left out to the last."""


class Concise(click.Command):
    """A command whose help shows at most :data:`MAX_SHOWN` options unless all are requested."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._rare = self._left_out()
        self.params.append(_help_all(hidden=not self._rare))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the common options, or all options if requested."""
        rare = () if ctx.meta.get(_SHOWS_ALL) else self._rare
        records = [
            record
            for each in self.get_params(ctx)
            if isinstance(each, click.Option)
            and each.name not in rare
            and (record := each.get_help_record(ctx)) is not None
        ]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def _left_out(self) -> frozenset[str]:
        names = [each.name for each in self.params if isinstance(each, click.Option)]
        if len(names) < MAX_SHOWN:  # --help is the last one
            return frozenset()
        surplus = len(names) + 2 - MAX_SHOWN  # --help and --help-all
        return frozenset([name for name in _RAREST_FIRST if name in names][:surplus])


_SHOWS_ALL = f"{__name__}.all"


def _show_all(context: click.Context, _option: click.Parameter, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _help_all(*, hidden: bool) -> click.Option:
    """The option that shows all options; commands with few options accept it, too."""
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        hidden=hidden,
        help="Show all options and exit.",
    )


class Group(click.Group):
    """A command with subcommands. Common flags may also precede the name of a subcommand."""

    command_class = Concise

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"no_args_is_help": False, **options})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Moves flags behind the name of the subcommand."""
        flags = [*takewhile(FLAGS.__contains__, args)]
        name, rest = args[len(flags) : len(flags) + 1], args[len(flags) + 1 :]
        return super().parse_args(ctx, [*name, *flags, *rest])


class Actions(click.Group):
    """A command with several actions. The first is done if the command line names none."""

    def __init__(self, name: str, purpose: str, actions: Sequence[Action]) -> None:
        first = actions[0].name
        epilog = f"'dlbricks {name} {first} -h' shows the options of an action."
        super().__init__(name, help=purpose, epilog=epilog, no_args_is_help=False)
        self._actions = {each.name: each for each in actions}
        self._added = [each for each in added_actions(name) if each not in self._actions]
        self._entry = f"{name}.{{}}"

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the actions, followed by those that other distributions add."""
        return [*self._actions, *self._added]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The action of a name, imported now."""
        action = self._actions.get(cmd_name)
        if cmd_name in self._added:
            return installed_command(ctx, self._entry.format(cmd_name))
        if action is None:
            return None
        if action.resumes:
            ctx.ensure_object(dict)["kept"] = RESUMED
        return loaded(action)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of actions, none of which is imported."""
        first, *_ = self._actions
        rows = [(name, each.purpose) for name, each in self._actions.items()]
        for name in self._added:
            plugin, *_ = discover("command", Command, self._entry.format(name))
            rows.append((name, listed_purpose(plugin)))
        with formatter.section(f"Actions ({first} if none is named)"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Moves common flags behind the name of the action, which may be left out."""
        flags = [*takewhile(FLAGS.__contains__, args)]
        rest = args[len(flags) :]
        if ctx.resilient_parsing and not rest:  # a shell completes the name of an action
            return super().parse_args(ctx, rest)
        if rest[:1] in (["-h"], ["--help"]):
            return super().parse_args(ctx, rest)
        if not rest or rest[0] not in self.list_commands(ctx):
            if rest:
                refuse_missing(self._entry.format(rest[0]))
            first, *_ = self._actions
            self._check_argument(ctx, first, rest[:1])
            rest = [first, *rest]
        return super().parse_args(ctx, [rest[0], *flags, *rest[1:]])

    def _check_argument(self, ctx: click.Context, first: str, word: Sequence[str]) -> None:
        """Refuses a word in place of an action, where the first action takes no argument."""
        command = self.get_command(ctx, first) if word and not word[0].startswith("-") else None
        if command and not any(isinstance(each, click.Argument) for each in command.params):
            known = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"unknown action {word[0]!r}; there are {known}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of actions, and options of the first one."""
        first, *_ = self._actions
        found = super().shell_complete(ctx, incomplete)
        return [*found, *completed_options(self, ctx, first, incomplete)]

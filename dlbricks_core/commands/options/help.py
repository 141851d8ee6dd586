"""Help of commands with many options: common options, or all options on request."""

from __future__ import annotations

from typing import Any

import click

MAX_SHOWN = 16
"""Maximum number of options that a help text shows unless all are requested."""

_RAREST_FIRST = (
    *("table_format", "reimport", "timeout_s", "fold_batchnorm", "values", "outputs", "protocol"),
    *("seed", "retry_failed", "busy"),
    *("split", "granularity", "force", "reference_s", "backend_options", "composer", "quiet"),
    *("condition", "predictor", "quantity", "verbose", "dtype", "runs", "budget_s", "duration_s"),
    *("results", "key", "min_accuracy", "html_path", "end_to_end"),
)
"""Options that a short help text leaves out, from the first to be left out to the last."""


class Concise(click.Command):
    """A command whose help shows at most :data:`MAX_SHOWN` options unless all are requested."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._rare = self._left_out()
        if self._rare:
            self.params.append(_HELP_ALL)

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


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all options and exit.",
)

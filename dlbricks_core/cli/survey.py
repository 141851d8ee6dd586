"""``dlbricks survey``: times networks that predictors learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report.survey import packed_data, print_packed, print_survey, survey_data
from dlbricks_core.store import ResultStore
from dlbricks_core.survey import weights
from dlbricks_core.workflows.packing import pack
from dlbricks_core.workflows.survey import RUNS, survey

_PACKING = frozenset({"folder", "extend", "backend", "store", "json_path", "verbose", "quiet"})
"""Options that have a meaning with ``--pack``."""


@click.command("survey")
@options.models_argument
@measuring.survey_options
@options.load_options
@click.option(
    "--family",
    "families",
    metavar="NAME",
    type=click.Choice(sorted(weights())),
    multiple=True,
    help="Draw networks of this family only (half_floats), and cut no models but those named. "
    "May be given more than once.  [default: all families]",
)
@click.option(
    "--pack",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Time nothing: write what the store knows, a file for each system, backend and number "
    "of threads.",
)
@click.option(
    "--extend",
    is_flag=True,
    help="With --pack: add what the installed atlas holds of the same system and setup.",
)
@options.store_option
@options.json_option
@options.quiet_options
def command(
    models: tuple[str, ...],
    backend: str | None,
    folder: Path | None,
    budget_s: float,
    families: tuple[str, ...],
    extend: bool,
    store: str | None,
    **values: Any,
) -> int:
    """Time networks from which latencies of others are predicted.

    The networks are operators over the shapes that real models have, and bricks of MODELs,
    which are all models of the collections that are installed unless others are named. The
    first are the same everywhere; those after them are chosen where predictions err. Run it
    again, and it goes on. Exit status 3: a network could not be timed; it is named.
    """
    output = Output({**values, "folder": folder})
    if folder is not None:
        if models:
            raise click.UsageError("--pack times nothing: leave out the MODELs.")
        _refuse_timing(click.get_current_context())
        with output.progress() as progress, ResultStore.open(store, writes=False) as opened:
            packed = pack(opened, folder, progress, backend, extend=extend)
        print_packed(output.console, packed)
        output.write_json(packed_data(packed))
        return 0
    if extend:
        raise click.UsageError("--extend belongs to --pack.")
    if backend is None:
        raise click.UsageError("Name a framework to run on with --backend.")
    request = given.request_of({**values, "backend": backend, "runs": RUNS})
    load, settings = given.load_options_of(values), given.import_settings_of(values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        surveyed = survey(models, request, opened, progress, budget_s, load, settings, families)
    print_survey(output.console, surveyed)
    output.write_json(survey_data(surveyed))
    return EXIT_PARTIAL if surveyed.failures or surveyed.unread else 0


def _refuse_timing(context: click.Context) -> None:
    """Refuses options that the user gave although nothing is timed."""
    for each in context.command.params:
        given = context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
        if given and each.name not in _PACKING:
            raise click.UsageError(f"--pack times nothing: leave out {each.opts[0]}.")

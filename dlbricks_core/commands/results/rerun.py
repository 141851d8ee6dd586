"""``dlbricks results repeat``: repeats a recorded run, and compares."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import IMPORT_TIMEOUT_S
from dlbricks_core.commands.results import repetition
from dlbricks_core.commands.results.record import Record, read_record
from dlbricks_core.importers.models import ImportSettings
from dlbricks_core.store import ResultStore

_KEPT = (
    "The new measurements are in the store and replace earlier ones of the same networks; "
    "the next rerun measures everything anew."
)

_THROWN_AWAY = "The new measurements are thrown away; --store names a store for them."


@click.command("rerun", cls=Concise)
@click.argument("record", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--store", metavar="PATH_OR_URL",
              help="Result store that an estimate rests on, or where new samples are kept.  "
              "[default: the user's own for an estimate, otherwise none]")  # fmt: skip
@click.option(
    "--source",
    "sources",
    metavar="NAME=SOURCE",
    multiple=True,
    help="Source of a model of the record, in place of the recorded one. Code, such as "
    "torch:module:factory, runs only if it is given here. May be given more than once.",
)
@options.json_option
@options.table_options
def command(record: Path, store: str | None, **values: Any) -> int:
    """Repeat the command of a record, and compare old and new figures.

    FILE is what 'dlbricks results record' wrote, or a JSON file that it reads. Differences are
    printed first: versions, options, the system, models whose files have changed. Everything is
    measured anew. A model that is not where the record says is looked for beside the record. A
    record runs no code: a model that a factory makes needs its --source on the command line. Exit
    status 3: something could not be done again; it is named.
    """
    output = Output(values)
    what = read_record(record)
    if what.measures:
        output.if_interrupted(_THROWN_AWAY if store is None else _KEPT)
    settings = ImportSettings(IMPORT_TIMEOUT_S)
    sources = given.sources_of(values)
    with output.progress() as progress, _store(what, store) as opened:
        again = repetition.PreparedRepetition.of(
            what, record.parent, opened, progress, settings, sources
        )
        repetition.print_differences(output.console, again)
        found = again.run(opened, progress)
    repetition.print_rerun(output.console, found)
    output.write_json(repetition.rerun_data(found))
    return EXIT_PARTIAL if found.failures else 0


@contextmanager
def _store(record: Record, location: str | None) -> Iterator[ResultStore]:
    """The store of an estimate; for a measurement, the named store or a temporary one."""
    if not record.measures:
        with ResultStore.open(location, writes=False) as opened:
            yield opened
    elif location is not None:
        with ResultStore.open(location) as opened:
            yield opened
    else:
        with (
            tempfile.TemporaryDirectory() as folder,
            ResultStore.open(Path(folder) / "rerun.sqlite") as opened,
        ):
            yield opened

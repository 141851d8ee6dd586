"""``dlbricks results record``, ``repeat`` and ``compare``: what a run did, and what differs now."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.kinds import SHARE
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import IMPORT_TIMEOUT_S
from dlbricks_core.importers.models import ImportSettings
from dlbricks_core.store import ResultStore
from dlbricks_records import comparison, repetition
from dlbricks_records.record import Record, read_record

_EXIT_INCREASED = 1

_KEPT = (
    "The new measurements are in the store and replace earlier ones of the same networks; "
    "the next repetition measures everything anew."
)

_THROWN_AWAY = "The new measurements are thrown away; --store names a store for them."


@click.command("repeat", cls=Concise)
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
@shared.json_option
@shared.table_options
def repeat_command(record: Path, store: str | None, **values: Any) -> int:
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
            ResultStore.open(Path(folder) / "repeated.sqlite") as opened,
        ):
            yield opened


@click.command("record", cls=Concise)
@click.argument("results", metavar="RUN", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "json_path",
              type=click.Path(path_type=Path, allow_dash=True, dir_okay=False), metavar="FILE",
              default="-",
              help="Write the record to a file.  [default: standard output]")  # fmt: skip
@shared.quiet_options
def record_command(results: Path, **values: Any) -> int:
    """Write a record of a run as one JSON object, from which others can repeat it.

    RUN is a JSON file that 'dlbricks estimate', 'check' or 'compare' wrote. The record has the
    models with their hashes and licences, the software, the hardware in the words of MLPerf, the
    protocol, and the results. 'dlbricks results repeat' repeats it.
    """
    output = Output(values)
    output.write_json(read_record(results).to_dict())
    return 0


_RESULT = click.Path(path_type=Path, dir_okay=False)


def _checked_limit(_context: click.Context, _parameter: click.Parameter, limit: float) -> float:
    if not 0 <= limit <= 1:
        raise click.BadParameter(f"{100 * limit:g}% is not from 0% to 100%; write 5% or 0.05")
    return limit


@click.command("compare", cls=Concise)
@click.argument("before", metavar="BEFORE", type=_RESULT)
@click.argument("after", metavar="AFTER", type=_RESULT)
@click.option("--limit", type=SHARE, metavar="SHARE", default=f"{comparison.LIMIT:.0%}",
              show_default=True, callback=_checked_limit,
              help="Largest increase of a figure that passes.")  # fmt: skip
@shared.json_option
@shared.table_options
def compare_command(before: Path, after: Path, limit: float, **values: Any) -> int:
    """Compare two finished results: which models became slower?

    BEFORE and AFTER are JSON files that 'dlbricks estimate', 'check' or 'compare' wrote, or records
    of them. Nothing runs. Measured figures are compared where both files have them, otherwise
    estimates. Versions, options and facts of the system that differ are named.

    Exit status 1: a figure increased by more than --limit, and the 90% interval of the ratio
    excludes 1. Exit status 3: none did, but a model cannot be compared; it is named.
    """
    output = Output(values)
    found = comparison.TwoResults.of(read_record(before), read_record(after), limit)
    comparison.print_comparison(output.console, found, limit)
    output.write_json(comparison.comparison_data(found, limit))
    if found.increased:
        return _EXIT_INCREASED
    return EXIT_PARTIAL if found.failures else 0

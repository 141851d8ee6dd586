"""``dlbricks results``: content, export, import and repair of stores."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click

from dlbricks_core.commands.options import shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.report.files import to_standard_output, write_bytes
from dlbricks_core.store import ResultStore
from dlbricks_records import contents, stores, stores_report
from dlbricks_records.contents import Pruned, Selection
from dlbricks_records.stores import ExportJob, ImportJob, MergeJob

_systems_option = click.option(
    "--system",
    "systems",
    metavar="SYSTEM",
    multiple=True,
    help="Only measurements of this system: a name, or the start of a fingerprint. May be given "
    "more than once.",
)
_backends_option = click.option(
    "--backend",
    "backends",
    metavar="NAME",
    multiple=True,
    help="Only measurements of this framework. May be given more than once.",
)


@click.command("export", cls=Concise)
@click.argument(
    "exported", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False)
)
@_systems_option
@_backends_option
@shared.store_option
@shared.json_option
@shared.quiet_options
def export_command(
    exported: Path,
    systems: tuple[str, ...],
    backends: tuple[str, ...],
    store: str | None,
    **values: Any,
) -> int:
    """Write a store to a file for other stores.

    FILE ('-' for standard output) has lines of JSON, compressed with Zstandard: all samples,
    sessions, systems with their names, features of networks, calibrations, and graphs that backends
    make of models. 'zstdcat' shows it. A name such as measurements.jsonl.zst fits.
    """
    output = Output({**values, "exported": exported})
    if to_standard_output(exported) and sys.stdout.isatty():
        raise click.UsageError("Standard output is a terminal: name a file, or redirect it.")
    found = ExportJob(systems=systems, backends=backends).run(store)
    write_bytes(found.content, exported)
    stores_report.print_exported(output.console, found, exported)
    output.write_json(stores_report.exported_data(found, exported))
    return 0


@click.command("import", cls=Concise)
@click.argument("imported", metavar="FILE...", nargs=-1, required=True,
                type=click.Path(path_type=Path, allow_dash=True))  # fmt: skip
@shared.store_option
@shared.json_option
@shared.quiet_options
def import_command(imported: tuple[Path, ...], store: str | None, **values: Any) -> int:
    """Add exported files to a store.

    '-' stands for standard input. What the store has already is not added again. Nothing
    is added if one of the files is damaged, cut off or of a newer version.
    """
    output = Output(values)
    merged = ImportJob(files=[_file(path) for path in imported]).run(store)
    stores_report.print_merged(output.console, merged)
    output.write_json(stores_report.merged_data(merged))
    return 0


@click.command("merge", cls=Concise)
@click.argument("others", metavar="STORE...", nargs=-1, required=True)
@shared.store_option
@shared.json_option
@shared.quiet_options
def merge_command(others: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Add other stores to a store.

    STOREs are named as with --store, and stay as they are. What the store has already is not added
    again.
    """
    output = Output(values)
    merged = MergeJob(others=others).run(store)
    stores_report.print_merged(output.console, merged)
    output.write_json(stores_report.merged_data(merged))
    return 0


@click.command("info", cls=Concise)
@shared.store_option
@shared.json_option
@shared.table_options
def info_command(store: str | None, **values: Any) -> int:
    """Show the content of a store in numbers.

    Systems, frameworks, networks, samples, dates, and the size.
    """
    output = Output(values)
    with ResultStore.open(store, writes=False, create=False) as opened:
        info, inventory = contents.info(opened), contents.inventory(opened)
    stores_report.print_inventory(output.console, info, inventory)
    output.write_json(stores_report.inventory_data(info, inventory))
    return 0


@click.command("check", cls=Concise)
@shared.store_option
@shared.json_option
@shared.table_options
def check_command(store: str | None, **values: Any) -> int:
    """Read a whole store, and name damaged rows.

    Nothing is changed. Damaged rows are counted by table, and the first of each table are named.
    Exit status 3: a row is damaged.
    """
    output = Output(values)
    check = contents.check(store)
    stores_report.print_check(output.console, check)
    output.write_json(stores_report.check_data(check))
    return 0 if check.is_sound else EXIT_PARTIAL


@click.command("prune", cls=Concise)
@_systems_option
@_backends_option
@click.option(
    "--quantity",
    "quantities",
    metavar="NAME",
    multiple=True,
    help="Only measurements of this quantity, such as load-time, and of its parts. May be given "
    "more than once.",
)
@click.option(
    "--outdated",
    is_flag=True,
    help="Only versions of a framework that are not the newest on their system.",
)
@click.option(
    "--before",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="Only sessions that began before a date, such as 2026-01-31, by this machine's clock.",
)
@click.option(
    "--failures", is_flag=True, help="Only failures, so that they are tried again; samples stay."
)
@click.option(
    "--disturbed",
    is_flag=True,
    help="Only samples that were taken while other programs ran or the machine was disturbed "
    "otherwise.",
)
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@shared.store_option
@shared.json_option
@shared.quiet_options
def prune_command(
    systems: tuple[str, ...],
    backends: tuple[str, ...],
    quantities: tuple[str, ...],
    before: datetime | None,
    store: str | None,
    *,
    outdated: bool,
    failures: bool,
    disturbed: bool,
    yes: bool,
    **values: Any,
) -> int:
    """Delete measurements that match all options.

    A summary is shown first, and nothing is deleted unless you agree. Records that nothing else
    needs are deleted as well: sessions, features of networks, and rewritten graphs of models.
    """
    output = Output(values)
    moment = None if before is None else before.astimezone()
    others = Selection((), backends, outdated, moment, failures, quantities, disturbed)
    with ResultStore.open(store, create=False) as opened:
        part = stores.prunable(opened, systems, others)
        pruned, freed = contents.prune(opened, part, rehearse=True), None
        stores_report.print_pruned(output.console, pruned)
        if not pruned.nothing:
            if yes or _agreed():
                pruned, freed = contents.prune(opened, part), opened.compact()
            else:
                pruned = Pruned()
            stores_report.print_pruned(output.console, pruned, freed)
    output.write_json(stores_report.pruned_data(pruned, freed))
    return 0


def _file(path: Path) -> Path | IO[bytes]:
    if str(path) != "-":
        return path
    if sys.stdin.isatty():
        raise click.UsageError("Standard input is a terminal: name a file, or redirect it.")
    return sys.stdin.buffer


def _agreed() -> bool:
    """Whether the user agrees. Without an answer, nothing is deleted."""
    try:
        return click.confirm("Delete this?", err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise click.UsageError(
                "There was no answer, so nothing was deleted: add --yes."
            ) from None
        raise

"""``dlbricks store``: exports, imports, merges and prunes measurements."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.groups import Group
from dlbricks_core.cli.output import Output
from dlbricks_core.report.files import to_standard_output, write_bytes
from dlbricks_core.report.travelling import (
    exported_data,
    inventory_data,
    merged_data,
    print_exported,
    print_inventory,
    print_merged,
    print_pruned,
    pruned_data,
)
from dlbricks_core.store import Pruned, ResultStore
from dlbricks_core.workflows.travelling import (
    Part,
    export,
    merged_into,
    prune,
    records_of_files,
    records_of_stores,
)

_systems_option = click.option(
    "--system",
    "systems",
    metavar="SYSTEM",
    multiple=True,
    help="Only what this system measured: a name, or the start of a fingerprint. May be given "
    "more than once.",
)
_backends_option = click.option(
    "--backend",
    "backends",
    metavar="NAME",
    multiple=True,
    help="Only what this framework measured. May be given more than once.",
)


@click.group("store", cls=Group)
def command() -> None:
    """Export, import, merge and prune what was measured."""


@command.command("export")
@click.argument(
    "exported",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
)
@_systems_option
@_backends_option
@options.store_option
@options.json_option
@options.quiet_options
def export_command(
    exported: Path,
    systems: tuple[str, ...],
    backends: tuple[str, ...],
    store: str | None,
    **values: Any,
) -> int:
    """Write what a store holds to a file that travels.

    FILE ('-' for standard output) holds lines of JSON, compressed with Zstandard: all samples,
    sessions, systems with their names, features of networks, calibrations, and what backends make
    of models. 'zstdcat' shows it. A name such as measurements.jsonl.zst fits.
    """
    output = Output({**values, "exported": exported})
    if to_standard_output(exported) and sys.stdout.isatty():
        raise click.UsageError("Standard output is a terminal: name a file, or redirect it.")
    with ResultStore.open(store, writes=False, create=False) as opened:
        found = export(opened, Part(systems, backends))
    write_bytes(found.content, exported)
    print_exported(output.console, found, exported)
    output.write_json(exported_data(found, exported))
    return 0


@command.command("import")
@click.argument(
    "imported",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
)
@options.store_option
@options.json_option
@options.quiet_options
def import_command(imported: tuple[Path, ...], store: str | None, **values: Any) -> int:
    """Add what exported files hold to a store.

    '-' stands for standard input. What the store has already is not added again. A file that is
    damaged, cut off or of a newer version changes nothing, and neither do the others then.
    """
    output = Output(values)
    records = records_of_files([_file(path) for path in imported])
    merged = merged_into(store, records)
    print_merged(output.console, merged)
    output.write_json(merged_data(merged))
    return 0


@command.command("merge")
@click.argument("others", metavar="STORE...", nargs=-1, required=True)
@options.store_option
@options.json_option
@options.quiet_options
def merge_command(others: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Add what other stores hold to a store.

    STOREs are named as with --store, and stay as they are. What the store has already is not added
    again.
    """
    output = Output(values)
    with records_of_stores(others) as records:
        merged = merged_into(store, records)
    print_merged(output.console, merged)
    output.write_json(merged_data(merged))
    return 0


@command.command("info")
@options.store_option
@options.json_option
@options.quiet_options
def info_command(store: str | None, **values: Any) -> int:
    """Show what a store holds.

    Systems, frameworks, networks, samples, dates, and the size.
    """
    output = Output(values)
    with ResultStore.open(store, writes=False, create=False) as opened:
        info, inventory = opened.info(), opened.inventory()
    print_inventory(output.console, info, inventory)
    output.write_json(inventory_data(info, inventory))
    return 0


@command.command("prune")
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
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@options.store_option
@options.json_option
@options.quiet_options
def prune_command(
    systems: tuple[str, ...],
    backends: tuple[str, ...],
    quantities: tuple[str, ...],
    before: datetime | None,
    store: str | None,
    *,
    outdated: bool,
    failures: bool,
    yes: bool,
    **values: Any,
) -> int:
    """Delete what the options name together.

    A summary is shown first, and nothing is deleted unless you agree. Records that nothing else
    needs are deleted as well: sessions, features of networks, and rewritten graphs of models.
    """
    output = Output(values)
    moment = None if before is None else before.astimezone()
    part = Part(systems, backends, outdated, moment, failures, quantities)
    with ResultStore.open(store, create=False) as opened:
        pruned, freed = prune(opened, part, rehearse=True), None
        print_pruned(output.console, pruned)
        if not pruned.nothing and (yes or _agreed()):
            pruned = prune(opened, part)
            freed = opened.compact()
        elif not pruned.nothing:
            pruned = Pruned()
    print_pruned(output.console, pruned, freed)
    output.write_json(pruned_data(pruned, freed))
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
            raise click.UsageError("Nobody answered, and nothing was deleted: add --yes.") from None
        raise

"""``dlbricks models``: the model collections."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.errors import DLBricksError, PluginError
from dlbricks_core.importers import Importer, ModelCollection, ModelNotes
from dlbricks_core.plugins import Plugin, attempt, discover
from dlbricks_core.report import SCHEMA_VERSION, table
from dlbricks_core.report.console import Console, lines, styled
from dlbricks_core.workflows.loading import find_collection


@dataclass(frozen=True)
class _Listing:
    """Models of a collection, by the names that users type, and notes on each."""

    names: list[str]
    pattern: str
    notes: dict[str, ModelNotes]


@click.command("models")
@click.argument("collections", metavar="[COLLECTION:]...", nargs=-1)
@options.json_option
@options.quiet_options
def command(collections: tuple[str, ...], **values: Any) -> int:
    """List the model collections and what files can be read, or the named collections."""
    output = Output(values)
    chosen = [find_collection(name.removesuffix(":")) for name in collections]
    listings = {}
    for plugin in chosen or discover("models", ModelCollection):
        found = attempt(plugin, partial(_listing, plugin))
        if isinstance(found, DLBricksError):
            output.errors.print(styled((f"{plugin.name}:", "yellow"), f" {found.message}"))
            continue
        listings[plugin.name] = found
        _show(output.console, plugin, found, whole=bool(chosen))
    output.write_json(
        {
            "schema_version": SCHEMA_VERSION,
            "collections": {name: listing.names for name, listing in listings.items()},
            "models": [
                {"name": name, **dataclasses.asdict(notes)}
                for listing in listings.values()
                for name, notes in listing.notes.items()
            ],
            "importers": {} if chosen else _importers(output),
        }
    )
    return 0


def _show(console: Console, plugin: Plugin, listing: _Listing, *, whole: bool) -> None:
    """Prints a collection, with notes on its models if the user named the collection."""
    count = "your own" if listing.pattern else str(len(listing.names))
    console.print(styled((f"{plugin.name}:", "bold"), f" {count} models ({plugin.distribution})"))
    if not (whole and listing.notes):
        shown = listing.names or [f"{plugin.name}:{listing.pattern}"]
        console.print("  " + "  ".join(shown))
        return
    rows = table("Name", "Title", "Task", "Input", "Layers", left=3)
    for name in listing.names:
        notes = listing.notes.get(name, ModelNotes(""))
        sizes = lines(*("x".join(map(str, shape)) for shape in notes.inputs.values()))
        layers = "" if notes.layers is None else str(notes.layers)
        rows.add_row(name, notes.title, notes.task, sizes, layers)
    console.print(rows)


def _importers(output: Output) -> dict[str, list[str]]:
    """Suffixes of the files that each importer reads, by its name."""
    suffixes = {}
    for plugin in discover("importer", Importer):
        known = attempt(plugin, partial(_suffixes, plugin))
        if isinstance(known, DLBricksError):
            output.errors.print(styled((f"{plugin.name}:", "yellow"), f" {known.message}"))
        else:
            suffixes[plugin.name] = known
    files = ", ".join(suffix for each in suffixes.values() for suffix in each)
    output.console.print(styled(("Files:", "bold"), f" {files}"))
    return suffixes


def _listing(plugin: Plugin) -> _Listing:
    collection: ModelCollection = _usable(plugin)()
    described = {name: collection.describe(name) for name in collection.names()}
    return _Listing(
        [f"{plugin.name}:{name}" for name in described],
        collection.pattern,
        {f"{plugin.name}:{name}": notes for name, notes in described.items() if notes},
    )


def _suffixes(plugin: Plugin) -> list[str]:
    importer: Importer = _usable(plugin)()
    return list(importer.suffixes)


def _usable(plugin: Plugin) -> Any:
    if plugin.problem:
        raise PluginError(plugin.problem, hint=plugin.cure)
    return plugin.loaded

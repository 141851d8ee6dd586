"""``dlbricks models``: the model collections."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from rich.markup import escape

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.errors import PluginError
from dlbricks_core.importers import Importer, ModelCollection
from dlbricks_core.plugins import Fault, Plugin, attempt, discover
from dlbricks_core.report import SCHEMA_VERSION


@click.command("models")
@options.json_option
@options.quiet_options
def command(**values: Any) -> int:
    """List the model collections and what files can be read."""
    output = Output(values)
    collections = {}
    for plugin in discover("models", ModelCollection):
        found = attempt(partial(_names, plugin))
        if isinstance(found, Fault):
            output.errors.print(f"[yellow]{escape(plugin.name)}:[/] {escape(found.problem)}")
            continue
        names, pattern = found
        collections[plugin.name] = names
        count = "your own" if pattern else str(len(names))
        output.console.print(f"[bold]{plugin.name}:[/] {count} models ({plugin.distribution})")
        shown = names or [f"{plugin.name}:{pattern}"]
        output.console.print("  " + "  ".join(map(escape, shown)))
    suffixes = {}
    for plugin in discover("importer", Importer):
        known = attempt(partial(_suffixes, plugin))
        if isinstance(known, Fault):
            output.errors.print(f"[yellow]{escape(plugin.name)}:[/] {escape(known.problem)}")
        else:
            suffixes[plugin.name] = known
    files = ", ".join(suffix for each in suffixes.values() for suffix in each)
    output.console.print(f"[bold]Files:[/] {files}")
    output.write_json(
        {"schema_version": SCHEMA_VERSION, "collections": collections, "importers": suffixes}
    )
    return 0


def _names(plugin: Plugin) -> tuple[list[str], str]:
    """What a collection offers, as users type it, and the pattern of other names."""
    collection: ModelCollection = _usable(plugin)()
    return [f"{plugin.name}:{name}" for name in collection.names()], collection.pattern


def _suffixes(plugin: Plugin) -> list[str]:
    importer: Importer = _usable(plugin)()
    return list(importer.suffixes)


def _usable(plugin: Plugin) -> Any:
    if plugin.problem:
        raise PluginError(plugin.problem, hint=plugin.cure)
    return plugin.loaded

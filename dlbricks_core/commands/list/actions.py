"""``dlbricks list``: models and plugins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Self, TypedDict, cast

import click

from dlbricks_core.backends import Backend, BackendOption
from dlbricks_core.backends.base import declared_options
from dlbricks_core.commands import Command, ResultsReader, SizesOptions
from dlbricks_core.commands.options import shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import Output
from dlbricks_core.compose import Composer
from dlbricks_core.errors import DLBricksError, PluginError
from dlbricks_core.importers import Importer, ModelCollection, ModelNotes
from dlbricks_core.importers.lookup import find_collection
from dlbricks_core.measure.metric import Metric
from dlbricks_core.operators.domains import OperatorDomain
from dlbricks_core.plugins import GROUPS, Plugin, attempt, discover
from dlbricks_core.predict import Predictor
from dlbricks_core.report import Column, ResultPage
from dlbricks_core.report.data import SCHEMA_VERSION, WrittenData, plain
from dlbricks_core.report.tables import Console, lines, styled, table
from dlbricks_core.store import DatabaseKind, StoreUpkeep


class ListModelsData(WrittenData):
    """Output of ``dlbricks list models``."""

    collections: dict[str, list[str]]  #: Names of models by collection.
    models: list[ListedModelData]  #: Descriptions by the collections; only for named ones.
    importers: dict[str, list[str]]  #: How files end that each importer reads.


class ListedModelData(TypedDict):
    """A collection's description of a model."""

    name: str  #: Name on the command line.
    title: str  #: Full name.
    task: str  #: Task of the model.
    inputs: dict[str, list[int]]  #: Shape of each input, without the batch.
    layers: int | None  #: Layers that its source counts.
    parameters: int | None  #: Number of its weights, where the collection knows it.


class ListPluginsData(WrittenData):
    """Output of ``dlbricks list plugins``."""

    plugins: list[ListedPlugin]  #: All plugins, including broken ones.


@dataclass(frozen=True, kw_only=True)
class ListedPlugin:
    """A plugin, and whether it can be used."""

    kind: str  #: command, backend, importer, models, composer, predictor, metric or column.
    name: str  #: Name on the command line.
    distribution: str  #: Package that brings it.
    version: str  #: Version of the package.
    framework: str | None = None  #: Name and version of a backend's framework.
    status: str = "ok"  #: ok, broken, or not installed: the framework of a backend is missing.
    problem: str | None = None  #: Why it cannot be used.
    cure: str | None = None  #: Remedy.
    #: Options that the backend declares, by name.
    options: Mapping[str, BackendOption] = field(default_factory=dict)
    #: Further facts, by kind of plugin: ``default_models``, ``suffixes``, ``models`` (their
    #: number), ``pattern`` (of the names that a collection takes), ``isolated``.
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, plugin: Plugin, **more: Any) -> Self:
        """The plugin that an entry point announces, with further facts."""
        return cls(
            kind=plugin.kind,
            name=plugin.name,
            distribution=plugin.distribution,
            version=plugin.version,
            **more,
        )


_BASES: dict[str, type] = {
    "command": Command,
    "backend": Backend,
    "importer": Importer,
    "operators": OperatorDomain,
    "models": ModelCollection,
    "composer": Composer,
    "predictor": Predictor,
    "metric": Metric,
    "column": Column,
    "page": ResultPage,
    "sizes": SizesOptions,
    "database": DatabaseKind,
    "results": ResultsReader,
    "upkeep": StoreUpkeep,
}


def plugin_statuses() -> list[ListedPlugin]:
    """Status of all announced plugins. A broken plugin never hides the others.

    Commands of DLBricks itself are left out: its help lists them.
    """
    return [
        _status(plugin)
        for kind in GROUPS
        for plugin in discover(kind, _BASES[kind])
        if kind != "command" or not plugin.target.startswith("dlbricks_core.")
    ]


def _status(plugin: Plugin) -> ListedPlugin:
    if plugin.problem:
        return _broken(plugin, plugin.problem, plugin.cure)
    look = _backend if plugin.kind == "backend" else _with_capabilities
    status = attempt(plugin, partial(look, plugin))
    if isinstance(status, DLBricksError):
        return _broken(plugin, status.message, status.hint)
    return status


def _broken(plugin: Plugin, problem: str, cure: str, status: str = "broken") -> ListedPlugin:
    return ListedPlugin.of(plugin, status=status, problem=problem, cure=cure or None)


def _with_capabilities(plugin: Plugin) -> ListedPlugin:
    capabilities = _CAPABILITIES.get(plugin.kind, lambda _: {})
    return ListedPlugin.of(plugin, capabilities=capabilities(plugin.loaded()))


def _backend(plugin: Plugin) -> ListedPlugin:
    backend: Backend = plugin.loaded()
    version = attempt(plugin, backend.version)
    if isinstance(version, DLBricksError):
        status = "broken" if _is_installed(backend.distribution) else "not installed"
        return _broken(plugin, version.message, version.hint, status)
    return ListedPlugin.of(
        plugin,
        framework=f"{backend.distribution} {version}",
        options=declared_options(backend),
        capabilities={"default_models": list(backend.default_models)},
    )


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _of_command(command: Command) -> dict[str, Any]:
    command.load()
    return {"purpose": command.purpose}


def _of_importer(importer: Importer) -> dict[str, Any]:
    importer.handles("")
    return {"suffixes": list(importer.suffixes), "isolated": importer.isolated}


def _of_collection(collection: ModelCollection) -> dict[str, Any]:
    names = collection.names()
    of_any = {"pattern": f"{collection.name}:{collection.pattern}"}
    return {
        **(of_any if collection.pattern else {"models": len(names)}),
        "isolated": collection.isolated,
    }


#: Further facts about a plugin that can be used, by its kind.
_CAPABILITIES: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "command": _of_command,
    "importer": _of_importer,
    "models": _of_collection,
    "metric": lambda metric: {"meaning": metric.quantity.meaning, "unit": metric.quantity.unit},
    "column": lambda column: {"heading": column.heading},
}


@dataclass(frozen=True)
class _Listing:
    """Models of a collection, by the names that users type, and notes on each."""

    names: list[str]
    pattern: str
    notes: dict[str, ModelNotes]


@click.command("models", cls=Concise)
@click.argument("collections", metavar="[COLLECTION:]...", nargs=-1)
@shared.json_option
@shared.table_options
def models_command(collections: tuple[str, ...], **values: Any) -> int:
    """List model collections and readable kinds of files, or the models of named collections."""
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
    data: ListModelsData = {
        "schema_version": SCHEMA_VERSION,
        "collections": {name: listing.names for name, listing in listings.items()},
        "models": [
            cast("ListedModelData", {"name": name, **dataclasses.asdict(notes)})
            for listing in listings.values()
            for name, notes in listing.notes.items()
        ],
        "importers": {} if chosen else _importers(output),
    }
    output.write_json(data)
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


_COLORS = {"ok": "green", "not installed": "yellow", "broken": "red"}
"""Colors of the states."""


@click.command("plugins", cls=Concise)
@shared.json_option
@shared.table_options
def plugins_command(**values: Any) -> int:
    """List plugins of every kind, and problems with them."""
    output = Output(values)
    statuses = plugin_statuses()
    shown = table("Kind", "Name", "Package", "Framework", "Status", left=5)
    for each in statuses:
        state = styled((each.status, _COLORS[each.status]))
        package = f"{each.distribution} {each.version}"
        shown.add_row(each.kind, each.name, package, each.framework or "-", state)
    output.console.print(shown)
    for status in statuses:
        name = f"{status.kind} {status.name}"
        if status.problem:
            head = f"{name}:", _COLORS[status.status]
            output.console.print(styled(head, f" {status.problem}"))
            output.console.print(f"  Cure: {status.cure or ''}")
        if status.capabilities:
            output.console.print(
                styled((f"{name}:", "bold"), f" {_capabilities(status.capabilities)}")
            )
        for option, about in status.options.items():
            choices = "|".join(about.choices)
            output.console.print(
                f"  --backend-option {option}={choices} (default {about.default}): {about.help}"
            )
    data: ListPluginsData = {
        "schema_version": SCHEMA_VERSION,
        "plugins": [*map(plain, statuses)],
    }
    output.write_json(data)
    return 0


def _capabilities(capabilities: Mapping[str, Any]) -> str:
    parts = []
    for key, value in capabilities.items():
        if key == "isolated":
            parts += ["loads in a process of its own"] if value else []
        elif isinstance(value, int):
            parts.append(f"{value} {key}")
        elif isinstance(value, list):
            parts.append(f"{key.replace('_', ' ')} {', '.join(value) or 'none'}")
        else:
            parts.append(f"{key} {value}")
    return "; ".join(parts)

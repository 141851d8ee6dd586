"""Status of every plugin: its capabilities, and whether it is usable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dlbricks_core.backends import Backend, BackendOption
from dlbricks_core.commands import Command
from dlbricks_core.compose import Composer
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import Importer, ModelCollection
from dlbricks_core.measure.probe import Probe
from dlbricks_core.plugins import GROUPS, Plugin, attempt, discover
from dlbricks_core.predict import Predictor

_BASES: dict[str, type] = {
    "command": Command,
    "backend": Backend,
    "importer": Importer,
    "models": ModelCollection,
    "composer": Composer,
    "predictor": Predictor,
    "probe": Probe,
}


@dataclass(frozen=True)
class PluginStatus:
    """State of one plugin.

    Attributes:
        plugin: The plugin, as announced by its entry point.
        framework: Distribution and version of a backend's framework, if it is installed.
        problem: Reason why the plugin cannot be used; empty if it can.
        cure: What the user can do about it.
        options: Settings that the backend declares, by name.
        capabilities: Further facts for users, by kind of plugin:
            ``default_models``, ``suffixes``, ``models`` (their number),
            ``pattern`` (of the names that a collection takes), ``isolated``.
    """

    plugin: Plugin
    framework: str = ""
    problem: str = ""
    cure: str = ""
    options: Mapping[str, BackendOption] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The status as plain data for JSON."""
        return {
            "kind": self.plugin.kind,
            "name": self.plugin.name,
            "distribution": self.plugin.distribution,
            "version": self.plugin.version,
            "framework": self.framework or None,
            "status": "broken" if self.problem else "ok",
            "problem": self.problem or None,
            "cure": self.cure or None,
            "options": {
                name: {"default": o.default, "choices": list(o.choices), "help": o.help}
                for name, o in self.options.items()
            },
            "capabilities": dict(self.capabilities),
        }


def plugin_statuses() -> list[PluginStatus]:
    """Status of all announced plugins. A broken plugin never hides the others.

    Commands of DLBricks itself are left out: its help lists them.
    """
    return [
        _status(plugin)
        for kind in GROUPS
        for plugin in discover(kind, _BASES[kind])
        if kind != "command" or not plugin.target.startswith("dlbricks_core.")
    ]


def _status(plugin: Plugin) -> PluginStatus:
    if plugin.problem:
        return PluginStatus(plugin, problem=plugin.problem, cure=plugin.cure)
    status = attempt(plugin, lambda: _LOOK[plugin.kind](plugin))
    if isinstance(status, DLBricksError):
        return PluginStatus(plugin, problem=status.message, cure=status.hint)
    return status


def _backend(plugin: Plugin) -> PluginStatus:
    backend: Backend = plugin.loaded()
    return PluginStatus(
        plugin,
        framework=f"{backend.distribution} {backend.version()}",
        options=declared_options(backend),
        capabilities={"default_models": list(backend.default_models)},
    )


def declared_options(backend: Backend) -> dict[str, BackendOption]:
    """Options that a backend declares, copied so that a wrong declaration raises here."""
    return {
        name: BackendOption(option.default, tuple(option.choices), option.help)
        for name, option in backend.options.items()
    }


def _command(plugin: Plugin) -> PluginStatus:
    command: Command = plugin.loaded()
    command.load()
    return PluginStatus(plugin, capabilities={"purpose": command.purpose})


def _importer(plugin: Plugin) -> PluginStatus:
    importer: Importer = plugin.loaded()
    importer.handles("")
    found = {"suffixes": list(importer.suffixes), "isolated": importer.isolated}
    return PluginStatus(plugin, capabilities=found)


def _collection(plugin: Plugin) -> PluginStatus:
    collection: ModelCollection = plugin.loaded()
    count: dict[str, Any] = {"models": len(collection.names())}
    if collection.pattern:
        count = {"pattern": f"{plugin.name}:{collection.pattern}"}
    return PluginStatus(plugin, capabilities={**count, "isolated": collection.isolated})


def _made(plugin: Plugin) -> PluginStatus:
    plugin.loaded()
    return PluginStatus(plugin)


def _probe(plugin: Plugin) -> PluginStatus:
    quantity = plugin.loaded().quantity
    return PluginStatus(plugin, capabilities={"meaning": quantity.meaning, "unit": quantity.unit})


_LOOK: dict[str, Callable[[Plugin], PluginStatus]] = {
    "command": _command,
    "backend": _backend,
    "importer": _importer,
    "models": _collection,
    "composer": _made,
    "predictor": _made,
    "probe": _probe,
}

"""Attributes an unexpected exception to the plugin whose code was running."""

from __future__ import annotations

from importlib.metadata import entry_points
from traceback import walk_tb

from dlbricks_core.errors import PluginError
from dlbricks_core.plugins.registry import GROUPS, Plugin, as_error, described

_OWN = __name__.partition(".")[0]


def blamed(error: Exception) -> PluginError | None:
    """The exception as an error of the plugin whose code raised it, directly or in a call.

    Returns:
        An error that names the plugin, with the exception as its cause; ``None`` if no code of a
        plugin from another package was running.
    """
    running = {
        str(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__)
    }
    packages = {_package(module) for module in running} - {_OWN}
    suspects = [plugin for plugin in _announced() if _package(plugin.target) in packages]
    # A package may have several plugins, each in a module of its own.
    suspects.sort(key=lambda plugin: plugin.target.partition(":")[0] not in running)
    return as_error(suspects[0], error) if suspects else None


def _announced() -> list[Plugin]:
    return [
        described(kind, entry)
        for kind, group in GROUPS.items()
        for entry in entry_points(group=group)
    ]


def _package(name: str) -> str:
    """Top-level package of a module or an entry point's target."""
    return name.partition(":")[0].partition(".")[0]

"""Finds plugins through their entry points; the only user of stevedore."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from stevedore import ExtensionManager

from dlbricks_core.errors import DLBricksError, PluginError, UnknownPluginError
from dlbricks_core.plugins.version import code_version

T = TypeVar("T")

#: What a plugin can be, and the entry-point group that it announces itself in.
GROUPS: dict[str, str] = {
    "backend": "dlbricks.backends",
    "importer": "dlbricks.importers",
    "models": "dlbricks.models",
    "composer": "dlbricks.composers",
    "predictor": "dlbricks.predictors",
}


@dataclass(frozen=True)
class Plugin:
    """One announced plugin, usable or not.

    Attributes:
        kind: A key of ``GROUPS``.
        name: What users call it.
        target: ``"module:attribute"`` of its class.
        distribution: Name of the installed distribution that announces it.
        version: That distribution's version.
        loaded: Its class; ``None`` if it could not be loaded.
        problem: Why it cannot be used, in one line; empty if it can.
        cure: What the user can do about that.
    """

    kind: str
    name: str
    target: str
    distribution: str
    version: str
    loaded: Any = None
    problem: str = ""
    cure: str = ""

    @property
    def code_version(self) -> str:
        """Version of the plugin's code; edits to an editable install change it.

        It belongs to the identity of whatever the plugin measures; see
        :func:`~dlbricks_core.plugins.version.code_version`.
        """
        return code_version(self.distribution, self.version, self.target.partition(":")[0])


def discover(kind: str, base: type | None = None) -> list[Plugin]:
    """All plugins of a kind, sorted by name, the broken ones with their reason.

    Args:
        kind: A key of ``GROUPS``.
        base: The class that a plugin must derive from.
    """
    broken: list[Plugin] = []

    def remember(_: Any, entry: EntryPoint, error: BaseException) -> None:
        plugin = _describe(kind, entry)
        told = _told(plugin, error.__cause__ or error)
        broken.append(replace(plugin, problem=told.message, cure=told.hint))

    manager: ExtensionManager[Any] = _Manager(GROUPS[kind], on_load_failure_callback=remember)
    found = [_usable(kind, e.entry_point, e.plugin, base) for e in manager.extensions]
    unique = {(p.name, p.target, p.distribution): p for p in [*found, *broken]}
    return sorted(_without_clashes(list(unique.values())), key=lambda p: (p.name, p.distribution))


def find(kind: str, name: str, base: type | None = None) -> Plugin:
    """The usable plugin of that name.

    Raises:
        UnknownPluginError: If there is none.
        PluginError: If it is broken, or two claim the name.
    """
    plugins = discover(kind, base)
    named = [plugin for plugin in plugins if plugin.name == name]
    if not named:
        known = list(dict.fromkeys(p.name for p in plugins if not p.problem))
        meant = get_close_matches(name, known, 1)
        cure = (
            f"Did you mean {meant[0]}?"
            if meant
            else f"A {kind} comes with a plugin: pip install dlbricks-{name}"
        )
        raise UnknownPluginError(
            f"unknown {kind} {name!r}", hint=f"Usable here: {', '.join(known) or 'none'}. {cure}"
        )
    if named[0].problem:
        raise PluginError(f"{kind} {name!r}: {named[0].problem}", hint=named[0].cure)
    return named[0]


def load_object(target: str) -> Any:
    """The object that ``"module:attribute"`` names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


class PluginDefectError(PluginError):
    """A plugin's code raised something that is no error of ours; that is the cause."""


def attempt(plugin: Plugin, call: Callable[[], T]) -> T | DLBricksError:
    """The result of a plugin's code, or what it raised, be it an attempt to exit.

    Only the user's interrupt passes. The hint of what is returned says what the user can do.
    """
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - one plugin's defect must not break the others
        return _told(plugin, error)


def use(plugin: Plugin, call: Callable[[], T]) -> T:
    """The result of a plugin's code that the user asked for.

    Raises:
        DLBricksError: If it raised anything; one that it raised itself stays the same.
    """
    outcome = attempt(plugin, call)
    if isinstance(outcome, PluginDefectError):
        where = f"{plugin.kind} {plugin.name!r}"
        raise PluginError(f"{where}: {outcome.message}", hint=outcome.hint) from outcome.__cause__
    if isinstance(outcome, DLBricksError):
        raise outcome
    return outcome


def _told(plugin: Plugin, error: BaseException) -> DLBricksError:
    """What a plugin's code raised, as an error with a hint."""
    if isinstance(error, DLBricksError):
        error.hint = error.hint or _report_to(plugin)
        return error
    text = " ".join(str(error).split())
    told = PluginDefectError(
        f"{type(error).__name__}: {text or 'no message'}", _cure(plugin, error)
    )
    told.__cause__ = error
    return told


def _cure(plugin: Plugin, error: BaseException) -> str:
    """What the user can do about an exception that is no error of ours."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        lacking = error.name.partition(".")[0]
        if lacking != plugin.target.partition(":")[0].partition(".")[0]:
            # Brings everything that the plugin depends on, whatever that is called.
            return f"pip install {plugin.distribution}"
    if isinstance(error, ImportError | AttributeError | OSError):
        return f"pip install --force-reinstall {plugin.distribution}"
    return _report_to(plugin)


class _LoadError(Exception):
    """What loading an entry point raised is the cause."""


class _GuardedEntryPoint(EntryPoint):
    """Raises nothing but ``_LoadError``: stevedore lets SystemExit and assertions through."""

    def load(self) -> Any:
        try:
            return super().load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise _LoadError(str(error)) from error


class _Manager(ExtensionManager[Any]):
    """Looks at what is installed now.

    Stevedore's own list comes from a cache, in the process and on disk, that knows files by
    times of coarse resolution, forgets whose an entry point is, and drops a second owner of
    the same one.
    """

    def list_entry_points(self) -> list[EntryPoint]:
        guarded: list[EntryPoint] = []
        for entry in entry_points(group=self.namespace):
            copy = _GuardedEntryPoint(entry.name, entry.value, entry.group)
            vars(copy)["dist"] = entry.dist
            guarded.append(copy)
        return guarded


def _usable(kind: str, entry: EntryPoint, loaded: Any, base: type | None) -> Plugin:
    plugin = _describe(kind, entry)
    problem = "" if base is None else _misfit(plugin, loaded, base)
    if problem:
        return replace(plugin, problem=problem, cure=_report_to(plugin))
    return replace(plugin, loaded=loaded)


def _misfit(plugin: Plugin, loaded: Any, base: type) -> str:
    """Why an object is not a usable class of that base; empty if it is."""
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        return f"{plugin.target} is not a subclass of {base.__module__}.{base.__name__}"
    lacking = sorted(getattr(loaded, "__abstractmethods__", ()))
    if inspect.isabstract(loaded):
        return f"{plugin.target} does not define {', '.join(lacking)}"
    name = getattr(loaded, "name", None)
    if name != plugin.name:
        return f"{plugin.target} calls itself {name!r}, and its entry point {plugin.name!r}"
    return ""


def _report_to(plugin: Plugin) -> str:
    return f"Report this to the authors of {plugin.distribution}."


def _without_clashes(plugins: list[Plugin]) -> list[Plugin]:
    """Marks plugins that share a name: which one was meant is not for us to guess."""
    owners: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        owners.setdefault(plugin.name, []).append(plugin)
    return [_clashing(plugin, owners[plugin.name]) for plugin in plugins]


def _clashing(plugin: Plugin, owners: Sequence[Plugin]) -> Plugin:
    rivals = [p.distribution for p in owners if p is not plugin]
    if not rivals:
        return plugin
    return replace(
        plugin,
        loaded=None,
        problem=f"name claimed by {plugin.distribution} and by {', '.join(rivals)}",
        cure=f"pip uninstall {plugin.distribution} (or {rivals[0]})",
    )


def _describe(kind: str, entry: EntryPoint) -> Plugin:
    name, version = (entry.dist.name, entry.dist.version) if entry.dist else ("unknown", "")
    return Plugin(kind, entry.name, entry.value, name, version)

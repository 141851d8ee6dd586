"""Finds plugins through their entry points; the only user of stevedore."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distribution,
    entry_points,
)
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

from stevedore import ExtensionManager

from dlbricks_core.errors import DLBricksError, PluginError, UnknownPluginError
from dlbricks_core.wording import clone_install

# Version of a plugin's code, which changes with every edit while the plugin is developed.

_DIGITS = 8


def code_version(distribution_name: str, version: str, module: str) -> str:
    """Version of the code that a distribution's plugin runs.

    It is the distribution's version where the distribution installed the code itself. Code from
    elsewhere, such as the source tree of an editable install, may change under one version: a
    hash of its Python files is appended then, ``"0.1.0+3f9a12c4"``.

    Args:
        distribution_name: Distribution that announces the plugin.
        version: Version of that distribution.
        module: Module of the plugin's class; its outermost package is the plugin's code.
    """
    spec = _package(module)
    if spec is None or spec.origin is None or _is_installed(distribution_name, Path(spec.origin)):
        return version
    # A version has one "+" at most; what follows it is divided by dots.
    return f"{version}{'.' if '+' in version else '+'}{_hash(spec)}"


def _package(module: str) -> ModuleSpec | None:
    """Outermost package or module that has a file; namespaces, which have none, are passed by."""
    for name in accumulate(module.split("."), "{}.{}".format):
        spec = find_spec(name)
        if spec is None or spec.origin is not None:
            return spec
    return None


def _is_installed(distribution_name: str, path: Path) -> bool:
    """Whether the distribution's record of installed files contains this file."""
    try:
        found = distribution(distribution_name)
    except PackageNotFoundError:
        return False
    named = (file for file in found.files or () if file.name == path.name)
    return any(Path(str(file.locate())).resolve() == path.resolve() for file in named)


def _hash(spec: ModuleSpec) -> str:
    """First hexadecimal digits of a hash over all Python files of a package or module."""
    total = hashlib.sha256()
    for root in map(Path, spec.submodule_search_locations or ()):
        for path in sorted(root.rglob("*.py")):
            total.update(f"{path.relative_to(root).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    if not spec.submodule_search_locations:
        total.update(Path(str(spec.origin)).read_bytes())
    return total.hexdigest()[:_DIGITS]


T = TypeVar("T")

#: Kinds of plugins, and the group of entry points of each.
GROUPS: dict[str, str] = {
    "command": "dlbricks.commands",
    "backend": "dlbricks.backends",
    "importer": "dlbricks.importers",
    "operators": "dlbricks.operators",
    "models": "dlbricks.models",
    "composer": "dlbricks.composers",
    "predictor": "dlbricks.predictors",
    "quantity predictor": "dlbricks.quantity_predictors",
    "metric": "dlbricks.metrics",
    "column": "dlbricks.columns",
    "page": "dlbricks.pages",
    "sizes": "dlbricks.sizes",
    "database": "dlbricks.databases",
    "results": "dlbricks.results",
    "upkeep": "dlbricks.upkeep",
}


@dataclass(frozen=True)
class Plugin:
    """A plugin that an installed distribution announces, usable or not.

    Attributes:
        kind: A key of ``GROUPS``.
        name: Name that users type.
        target: ``"module:attribute"`` of the plugin's class.
        distribution: Name of the distribution that announces the plugin.
        version: Version of the distribution.
        loaded: The class; ``None`` if it could not be loaded.
        problem: Reason why the plugin cannot be used, in one line; empty if it can.
        cure: Advice for the user about the problem.
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

        It is part of the identity of every measurement with the plugin; see
        :func:`~dlbricks_core.plugins.registry.code_version`.
        """
        return code_version(self.distribution, self.version, self.target.partition(":")[0])


def discover(kind: str, base: type | None = None, name: str | None = None) -> list[Plugin]:
    """All plugins of a kind, sorted by name; a broken plugin has its reason.

    Args:
        kind: A key of ``GROUPS``.
        base: Class that a plugin must derive from.
        name: Name of the plugins; ``None`` for all names.
    """
    broken: list[Plugin] = []

    def remember(_: Any, entry: EntryPoint, error: BaseException) -> None:
        plugin = described(kind, entry)
        failure = _as_error(plugin, error.__cause__ or error, loading=True)
        broken.append(replace(plugin, problem=failure.message, cure=failure.hint))

    manager: ExtensionManager[Any] = _Manager(kind, name, remember)
    found = [_usable(kind, e.entry_point, e.plugin, base) for e in manager.extensions]
    unique = {(p.name, p.target, p.distribution): p for p in [*found, *broken]}
    return sorted(_without_clashes(list(unique.values())), key=lambda p: (p.name, p.distribution))


def names(kind: str) -> set[str]:
    """Names of the plugins of a kind, none of which is loaded."""
    return {entry.name for entry in _installed(tuple(map(_state, sys.path)))[GROUPS[kind]]}


def find(kind: str, name: str, base: type | None = None) -> Plugin:
    """The plugin of a kind and a name.

    Args:
        kind: A key of ``GROUPS``.
        name: Name of the plugin.
        base: Class that the plugin must derive from.

    Raises:
        UnknownPluginError: If there is no such plugin.
        PluginError: If the plugin is broken, or if two plugins have that name.
    """
    named = discover(kind, base, name)
    if not named:
        from difflib import get_close_matches

        known = list(dict.fromkeys(p.name for p in discover(kind, base) if not p.problem))
        close = get_close_matches(name, known, 1)
        meant = close or [each for each in known if _shortens(name, each)]
        cure = (
            f"Did you mean {meant[0]}?"
            if len(meant) == 1
            else f"A plugin brings it. One of DLBricks itself: {clone_install('plugins/NAME')}."
        )
        raise UnknownPluginError(
            f"unknown {kind} {name!r}", hint=f"Usable here: {', '.join(known) or 'none'}. {cure}"
        )
    if named[0].problem:
        raise PluginError(f"{kind} {name!r}: {named[0].problem}", hint=named[0].cure)
    return named[0]


def _shortens(short: str, name: str) -> bool:
    """Whether a name begins with the letters of a short one or has them in this order."""
    rest = iter(name)
    return len(short) > 1 and all(letter in rest for letter in short.lower())


def load_object(target: str) -> Any:
    """The object that ``"module:attribute"`` names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


class PluginDefectError(PluginError):
    """A plugin's code raised an unexpected exception, which is the cause of this error."""


def attempt(plugin: Plugin, call: Callable[[], T]) -> T | DLBricksError:
    """Calls a plugin's code, and returns its result or an error.

    The error replaces any exception of the code, even an attempt to exit, and has a hint for the
    user. Only the user's own interrupt is raised. What the code prints goes to standard error:
    standard output has the results of the command.
    """
    try:
        with redirect_stdout(sys.stderr):
            return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - one plugin's defect must not break the others
        return _as_error(plugin, error)


def use(plugin: Plugin, call: Callable[[], T]) -> T:
    """Calls a plugin's code that the user requested, and returns its result.

    Raises:
        DLBricksError: If the code raised anything. A ``DLBricksError`` of the code stays the same.
    """
    outcome = attempt(plugin, call)
    if isinstance(outcome, PluginDefectError) and outcome.__cause__ is not None:
        raise as_error(plugin, outcome.__cause__) from outcome.__cause__
    if isinstance(outcome, DLBricksError):
        raise outcome
    return outcome


def as_error(plugin: Plugin, error: BaseException) -> PluginError:
    """An unexpected exception of a plugin's code as an error that names the plugin."""
    failure = _as_error(plugin, error)
    return PluginError(f"{plugin.kind} {plugin.name!r}: {failure.message}", hint=failure.hint)


def _as_error(plugin: Plugin, error: BaseException, *, loading: bool = False) -> DLBricksError:
    """An exception from loading or running a plugin's code, as an error with a hint."""
    if isinstance(error, DLBricksError):
        return error if error.hint else error.with_hint(_report_to(plugin))
    text = " ".join(str(error).split())
    failure = PluginDefectError(
        f"{type(error).__name__}: {text or 'no message'}", _cure(plugin, error, loading)
    )
    failure.__cause__ = error
    return failure


def _cure(plugin: Plugin, error: BaseException, loading: bool) -> str:
    """Advice for the user about an unexpected exception."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        lacking = error.name.partition(".")[0]
        if lacking != plugin.target.partition(":")[0].partition(".")[0]:
            # This installs all dependencies of the plugin, under any name.
            return f"pip install {plugin.distribution}"
    no_class = loading and isinstance(error, AttributeError)
    if no_class or isinstance(error, ImportError | OSError):
        return f"Install {plugin.distribution} again, as before."
    return _report_to(plugin)


class _LoadError(Exception):
    """An entry point cannot be loaded; the exception that it raised is the cause."""


class _GuardedEntryPoint(EntryPoint):
    """An entry point that raises only ``_LoadError``; stevedore would let SystemExit pass."""

    def load(self) -> Any:
        try:
            with redirect_stdout(sys.stderr):  # as in attempt
                return super().load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise _LoadError(str(error)) from error


class _Manager(ExtensionManager[Any]):
    """Manager of the entry points that are installed at this moment.

    Stevedore takes its list from a cache in the process and on disk. That cache identifies files
    by times of coarse resolution, does not keep the owner of an entry point, and drops a second
    owner of the same one.
    """

    def __init__(self, kind: str, name: str | None, failed: Callable[..., None]) -> None:
        self._name = name
        super().__init__(GROUPS[kind], on_load_failure_callback=failed)

    def list_entry_points(self) -> list[EntryPoint]:
        guarded: list[EntryPoint] = []
        for entry in _installed(tuple(map(_state, sys.path)))[self.namespace]:
            if self._name not in (None, entry.name):
                continue
            copy = _GuardedEntryPoint(entry.name, entry.value, entry.group)
            vars(copy)["dist"] = entry.dist
            guarded.append(copy)
        return guarded


@lru_cache(maxsize=8)
def _installed(states: tuple[object, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points of each group. To find them, a file of each distribution is read: milliseconds.

    Args:
        states: States of all folders in which distributions are looked for.
    """
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in GROUPS.values()}


def _state(folder: str) -> object:
    """State of a folder, another once a distribution is installed into it, or removed."""
    try:
        found = os.stat(folder or ".")  # noqa: PTH116 - pathlib takes several times as long
    except OSError:
        return folder
    return folder, found.st_dev, found.st_ino, found.st_mtime_ns


def _usable(kind: str, entry: EntryPoint, loaded: Any, base: type | None) -> Plugin:
    plugin = described(kind, entry)
    # To look at a class runs its own code, too.
    problem = "" if base is None else attempt(plugin, lambda: _misfit(plugin, loaded, base))
    if isinstance(problem, DLBricksError):
        return replace(plugin, problem=problem.message, cure=problem.hint)
    if problem:
        return replace(plugin, problem=problem, cure=_report_to(plugin))
    return replace(plugin, loaded=loaded)


def _misfit(plugin: Plugin, loaded: Any, base: type) -> str:
    """Reason why an object is not a usable class with that base; empty if it is one."""
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
    """The plugins; those that share a name are marked as broken, rather than guessed between."""
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


def described(kind: str, entry: EntryPoint) -> Plugin:
    """The plugin that an entry point announces, before its class is loaded."""
    version = _owner(entry.dist)[1] if entry.dist else ""
    return Plugin(kind, entry.name, entry.value, _distribution(entry), version)


def _distribution(entry: EntryPoint) -> str:
    """Name of the distribution that announces an entry point."""
    return _owner(entry.dist)[0] if entry.dist else "unknown"


@lru_cache(maxsize=64)
def _owner(distribution: Distribution) -> tuple[str, str]:
    """Name and version, each of which a distribution finds by reading a file."""
    return distribution.name, distribution.version


# Attributes an unexpected exception to the plugin whose code was running.

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
    packages = {_top_package(module) for module in running} - {_OWN}
    suspects = [plugin for plugin in _announced() if _top_package(plugin.target) in packages]
    # A package may have several plugins, each in a module of its own.
    suspects.sort(key=lambda plugin: plugin.target.partition(":")[0] not in running)
    return as_error(suspects[0], error) if suspects else None


def _announced() -> list[Plugin]:
    return [
        described(kind, entry)
        for kind, group in GROUPS.items()
        for entry in entry_points(group=group)
    ]


def _top_package(name: str) -> str:
    """Top-level package of a module or an entry point's target."""
    return name.partition(":")[0].partition(".")[0]

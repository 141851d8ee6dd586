"""Finds the importer or the collection of a model that a user names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from itertools import chain
from pathlib import Path

from dlbricks_core.errors import DLBricksError, ModelError, UnknownPluginError
from dlbricks_core.importers import Importer, ModelCollection
from dlbricks_core.importers.formats import advice
from dlbricks_core.plugins import Plugin, attempt, discover, find, use
from dlbricks_core.wording import clone_install


def named_by(spec: str) -> tuple[Plugin, str | Path]:
    """The importer or collection of a model, and the file or the name in the collection.

    Raises:
        DLBricksError: If there is none, or it is broken.
    """
    prefix, colon, name = spec.partition(":")
    if colon and not Path(spec).exists() and "/" not in prefix:
        return find_collection(prefix), name
    return importer_for(spec), Path(spec)


def runs_code(spec: str) -> bool:
    """Whether a source is code that importing it runs, rather than data.

    Raises:
        DLBricksError: If nothing imports it.
    """
    plugin, _ = named_by(spec)
    return bool(getattr(use(plugin, plugin.loaded), "runs_code", False))


def forms_of(spec: str) -> Collection[str]:
    """Programs in the form of whose files the collection of a model writes language models.

    Raises:
        DLBricksError: If nothing imports the model.
    """
    plugin, _ = named_by(spec)
    return getattr(use(plugin, plugin.loaded), "forms", ())


def expand(specs: Iterable[str]) -> list[str]:
    """Names of models, with every ``collection:`` replaced by its members.

    Raises:
        ModelError: If there is no such collection, or it lists no models.
        PluginError: If the collection is broken.
    """
    expanded: list[str] = []
    for spec in specs:
        prefix, colon, name = spec.partition(":")
        if colon and not name and not Path(spec).exists():
            collection = find_collection(prefix).loaded()
            members = collection.names()
            if not members:
                raise ModelError(
                    f"the collection {prefix!r} lists no models of its own",
                    hint=f"Name one: {prefix}:{collection.pattern or 'NAME'}",
                )
            expanded += [f"{prefix}:{member}" for member in members]
        else:
            expanded.append(spec)
    return expanded


def find_collection(name: str) -> Plugin:
    """The model collection of a name.

    Raises:
        ModelError: If there is no such collection.
        PluginError: If the collection is broken.
    """
    try:
        return find("models", name, ModelCollection)
    except UnknownPluginError as error:
        if folder := _DISTRIBUTIONS.get(name):
            raise ModelError(
                f"models of {name} come with dlbricks-{folder}, which is not installed",
                hint=clone_install("plugins/contrib", f"plugins/{folder}"),
            ) from error
        if name in _ADDRESSES:
            raise ModelError(
                "an address of the web is not read", hint="Fetch the file, and name that."
            ) from error
        known = ", ".join(f"{p.name}:" for p in discover("models", ModelCollection))
        raise ModelError(
            f"{name}: is neither a file nor a model collection",
            hint=f"Collections here: {known or 'none'}",
        ) from error


_ADDRESSES = frozenset({"http", "https", "ftp", "s3", "gs", "hf", "file"})
"""Beginnings of addresses, which users may take for names of files."""

_DISTRIBUTIONS = {"llm": "decoders", "mxnet": "mxnet", "paper": "mxnet", "torch": "pytorch"}
"""Distribution of each collection that comes with one of DLBricks's plugins."""


def importer_for(spec: str) -> Plugin:
    """The importer that reads a file.

    Raises:
        ModelError: If there is no importer for the file, or no such file.
    """
    plugins = discover("importer", Importer)
    suffixes: set[str] = set()
    problems = {p.name: p.problem for p in plugins if p.problem}
    for plugin in plugins:
        if plugin.problem:
            continue
        answer = attempt(plugin, partial(_reads, plugin, spec))
        if isinstance(answer, DLBricksError):  # other importers may read the file
            problems[plugin.name] = answer.message
            continue
        handled, known = answer
        if handled:
            return plugin
        suffixes.update(known)
    if not Path(spec).exists():
        raise ModelError(
            f"{spec} does not exist",
            hint="Name a model file, or collection:name (see: dlbricks list models).",
        )
    if Path(spec).is_dir():
        raise _folder_named(Path(spec), tuple(suffixes))
    broken = "".join(f"; importer {name} is broken: {why}" for name, why in problems.items())
    raise ModelError(
        f"no importer reads {spec}",
        hint=f"{advice(spec)}Files that can be read: {', '.join(sorted(suffixes))}{broken}",
    )


def _folder_named(folder: Path, suffixes: tuple[str, ...]) -> ModelError:
    """Error for a folder in place of a file; its hint names a model file in it."""
    near = chain(folder.glob("*"), folder.glob("*/*"))  # a home folder holds millions below
    found = sorted(path for path in near if path.name.lower().endswith(suffixes))
    if found:
        hint = f"Name a file in it: {found[0]}"
    elif (folder / "config.json").is_file():
        hint = f"For the language model with its config.json, name llm:{folder}"
    else:
        hint = f"Name a model file; none in it ends in {', '.join(sorted(suffixes))}."
    return ModelError(f"{folder} is a folder, not a model file", hint=hint)


def _reads(plugin: Plugin, spec: str) -> tuple[bool, tuple[str, ...]]:
    """Whether an importer reads a file, and the suffixes of all files that it reads."""
    importer: Importer = plugin.loaded()
    return importer.handles(spec), tuple(importer.suffixes)

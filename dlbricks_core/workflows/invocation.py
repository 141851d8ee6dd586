"""What is known of a run besides its figures: the command, the models' files, the environment."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import FileNotes, ModelCollection, ModelNotes
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.plugins import attempt, discover
from dlbricks_core.workflows.loading import importer_for
from dlbricks_core.workflows.request import Request

_VARIABLES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "ATEN_"),
    *("ORT_", "MXNET_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"),
)
"""What the names of variables begin with that change how fast frameworks compute."""


@dataclass(frozen=True)
class ModelFacts:
    """Where a model came from, as far as its file or its collection tells.

    Attributes:
        sha256: Hash of the model's file; empty for a model of a collection. Weights in files of
            their own are not part of it.
        size: Size of the file in bytes; 0 for a model of a collection.
        notes: What the file says about itself.
    """

    sha256: str = ""
    size: int = 0
    notes: FileNotes = field(default_factory=FileNotes)

    @classmethod
    def of(cls, model: CanonicalModel) -> Self:
        """Facts about a model, from the file or the collection that it came from."""
        path = Path(model.source)
        if not path.is_file():
            return cls(notes=FileNotes(task=_listed(model.source).task))
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(sha256, path.stat().st_size, _notes(path))


@dataclass(frozen=True)
class Invocation:
    """What the user asked for, as far as results do not tell.

    Attributes:
        command: Name of the command.
        end_to_end: Whether whole models were to be timed as well.
        facts: Facts about each model, by its name.
        cut_by_store: Whether each model was cut by what the store holds, not as the user said.
    """

    command: str
    end_to_end: bool
    facts: Mapping[str, ModelFacts]
    cut_by_store: bool = False

    @classmethod
    def of(
        cls,
        command: str,
        models: Sequence[CanonicalModel],
        *,
        end_to_end: bool,
        cut_by_store: bool = False,
    ) -> Self:
        """The invocation of a command on models that were loaded."""
        facts = {model.name: ModelFacts.of(model) for model in models}
        return cls(command, end_to_end, facts, cut_by_store)


def environment_of(request: Request) -> dict[str, str]:
    """Environment variables that the framework runs with and that change how fast it computes.

    They are the user's own, and those that the backend sets. None are known where figures are of
    another system, or the framework is not installed.
    """
    if request.elsewhere or request.plugin.problem:
        return {}
    users = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    return {**users, **request.backend.environment(request.settings)}


def _notes(path: Path) -> FileNotes:
    """What a file says about itself; nothing if its importer cannot tell."""
    plugin = importer_for(str(path))

    def describe() -> Any:
        return plugin.loaded().describe(path)

    found = attempt(plugin, describe)
    return found if isinstance(found, FileNotes) else FileNotes()


def _listed(source: str) -> ModelNotes:
    """What a collection says about one of its models."""
    prefix, _, name = source.partition(":")
    for plugin in discover("models", ModelCollection):
        if plugin.name == prefix and not plugin.problem:
            found = attempt(plugin, partial(_described, plugin.loaded, name))
            if found is not None and not isinstance(found, DLBricksError):
                return found
    return ModelNotes("")


def _described(collection: type[ModelCollection], name: str) -> ModelNotes | None:
    return collection().describe(name)

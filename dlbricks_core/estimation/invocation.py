"""Facts about a run other than its figures: the command, the model files, the environment."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import FileNotes, LoadOptions, ModelCollection, ModelNotes
from dlbricks_core.importers.cache import FileState, ImportCache
from dlbricks_core.importers.lookup import importer_for
from dlbricks_core.plugins import Plugin, attempt, discover

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel
    from dlbricks_core.measure.request import Request

_VARIABLES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "ATEN_"),
    *("ORT_", "MXNET_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"),
)
"""Prefixes of the environment variables that affect the speed of frameworks."""


RecordedCommand = Literal["estimate", "check", "compare"]
"""Commands whose results can be repeated."""


@dataclass(frozen=True)
class ModelFacts:
    """Provenance of a model, from its file or its collection.

    Attributes:
        sha256: Hash of the model's file, without weights in separate files; empty for a model of a
            collection.
        size: Size of the file in bytes; 0 for a model of a collection.
        notes: Metadata in the file.
    """

    sha256: str = ""
    size: int = 0
    notes: FileNotes = field(default_factory=FileNotes)

    @classmethod
    def of(cls, model: CanonicalModel) -> Self:
        """Provenance of a loaded model. A file that has not changed is read once."""
        path = Path(model.source)
        if not path.is_file():
            return cls(notes=FileNotes(task=_listed(model.source).task))
        importer = importer_for(str(path))
        cache = ImportCache()
        key = cache.key(importer.target, path, LoadOptions(), "facts")
        kept = cache.get(key)
        if kept is None:
            state = FileState.of(path)
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            kept = sha256, path.stat().st_size, _notes(importer, path)
            if state is not None:
                cache.put(key, [state], kept)
        return cls(*kept)


@dataclass(frozen=True)
class Invocation:
    """The part of the user's request that results do not record.

    Attributes:
        command: Name of the command.
        measures: Whether bricks ran; ``False`` if the results rest on stored and predicted figures.
        end_to_end: Whether the request includes the timing of whole models.
        facts: Provenance of each model, by its name.
        cut_by_store: Whether the content of the store decided how each model was cut, not the user.
    """

    command: RecordedCommand
    measures: bool
    end_to_end: bool
    facts: Mapping[str, ModelFacts]
    cut_by_store: bool = False

    @classmethod
    def of(
        cls,
        command: RecordedCommand,
        models: Sequence[CanonicalModel],
        *,
        end_to_end: bool,
        measures: bool = True,
        cut_by_store: bool = False,
    ) -> Self:
        """The invocation of a command on loaded models."""
        return cls(command, measures, end_to_end, _Facts(models), cut_by_store)


class _Facts(Mapping[str, ModelFacts]):
    """Provenance of models by name, computed on access, because files of models are large."""

    def __init__(self, models: Sequence[CanonicalModel]) -> None:
        self._models = {model.name: model for model in models}
        self._found: dict[str, ModelFacts] = {}

    def __getitem__(self, name: str) -> ModelFacts:
        if name not in self._found:
            self._found[name] = ModelFacts.of(self._models[name])
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


def environment_of(request: Request) -> dict[str, str]:
    """Environment variables of the framework that affect its speed.

    These are variables of the user and of the backend. The mapping is empty for figures of another
    system, or without an installed framework.
    """
    if request.elsewhere or request.plugin.problem:
        return {}
    users = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    return {**users, **request.backend.environment(request.settings)}


def _notes(importer: Plugin, path: Path) -> FileNotes:
    """Metadata in a file; empty if its importer cannot read any."""

    def describe() -> Any:
        return importer.loaded().describe(path)

    found = attempt(importer, describe)
    return found if isinstance(found, FileNotes) else FileNotes()


def _listed(source: str) -> ModelNotes:
    """Metadata of a model in a collection."""
    prefix, _, name = source.partition(":")
    for plugin in discover("models", ModelCollection):
        if plugin.name == prefix and not plugin.problem:
            found = attempt(plugin, partial(_described, plugin.loaded, name))
            if found is not None and not isinstance(found, DLBricksError):
                return found
    return ModelNotes("")


def _described(collection: type[ModelCollection], name: str) -> ModelNotes | None:
    return collection().describe(name)

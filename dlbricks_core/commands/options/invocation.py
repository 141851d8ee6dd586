"""Facts about a run other than its figures: the command and the model files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, cast

from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import FileNotes, LoadOptions, ModelCollection, ModelNotes
from dlbricks_core.importers.cache import FileState, ImportCache
from dlbricks_core.importers.lookup import importer_for
from dlbricks_core.plugins import Plugin, attempt, discover
from dlbricks_core.report.data import QuantityData, quantity_data
from dlbricks_core.version import __version__

if TYPE_CHECKING:
    from dlbricks_core.facts import Quantity
    from dlbricks_core.ir import CanonicalModel

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


class ModelFactsData(TypedDict):
    """Origin of a model."""

    #: Hash of the model's file, without files of weights. Null for a model of a collection.
    sha256: str | None
    bytes: int | None  #: Size of the file.
    licence: str | None  #: Licence of the model, if its file states it.
    author: str | None  #: Author of the model, if its file states it.
    task: str | None  #: Task of the model, if its file or its collection states it.
    producer: str | None  #: Program that wrote the file.


class InvocationData(TypedDict):
    """Settings of the command that are not in its results."""

    command: Literal["estimate", "check", "compare"]  #: The command.
    measures: bool  #: Whether bricks ran; false if all figures were stored or predicted.
    end_to_end: bool  #: Whether timing of whole models was requested.
    #: Origin of the cut of each model: the user, with the command's defaults, or the content of the
    #: store.
    cut_chosen_by: Literal["user", "store"]
    quantity: QuantityData  #: The estimated quantity.
    version: str  #: Version of DLBricks.
    written_at: str  #: When the results were written, in ISO 8601.


def invocation_data(invocation: Invocation | None, quantity: Quantity) -> InvocationData | None:
    """The user's request and its time; ``None`` if unknown."""
    if invocation is None:
        return None
    return {
        "command": invocation.command,
        "measures": invocation.measures,
        "end_to_end": invocation.end_to_end,
        "cut_chosen_by": "store" if invocation.cut_by_store else "user",
        "quantity": quantity_data(quantity),
        "version": __version__,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def facts_data(invocation: Invocation | None, name: str) -> ModelFactsData | None:
    """Facts about a model's file; ``None`` if unknown."""
    if invocation is None:
        return None
    facts = invocation.facts[name]
    found = {"sha256": facts.sha256, "bytes": facts.size, **asdict(facts.notes)}
    return cast("ModelFactsData", {key: value or None for key, value in found.items()})

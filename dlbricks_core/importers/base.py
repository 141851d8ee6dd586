"""Interfaces of importer plugins: :class:`Importer` and :class:`ModelCollection`."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dlbricks_core.errors import ModelError

if TYPE_CHECKING:
    from dlbricks_core.importers.published import Publication
    from dlbricks_core.ir import RawModel


@dataclass(frozen=True)
class ImportOptions:
    """The user's sizes for dimensions that a model leaves open.

    An importer uses a size only if it cannot read the model without the size. Dimensions that stay
    dynamic in the raw model get their sizes later, in the passes.

    Attributes:
        batch: Size of the batch axis; ``None`` for the size in the model, or 1.
        shapes: Shapes of inputs by name.
        dtype: Name of the conversion that follows; ``None`` for no conversion. A model whose own
            element type cannot be read may be read with 32 bits for it.
    """

    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: str | None = None


#: Default options.
NO_OPTIONS = ImportOptions()


@dataclass(frozen=True)
class ModelNotes:
    """Facts about a model of a collection that are known without building it.

    Attributes:
        title: Full name of the model, for people to read.
        task: Task of the model, in the collection's words.
        inputs: Shape of each input by name, without the batch axis.
        layers: Number of layers as counted by its source; ``None`` if unknown.
        parameters: Number of weights; ``None`` if unknown.
    """

    title: str
    task: str = ""
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layers: int | None = None
    parameters: int | None = None


@dataclass(frozen=True)
class FileNotes:
    """Metadata in a model's file; an empty text means that the file has no such entry.

    Attributes:
        licence: Licence of the model, in the file's words.
        author: Author of the model.
        task: Task of the model.
        producer: Program that wrote the file, with its version.
    """

    licence: str = ""
    author: str = ""
    task: str = ""
    producer: str = ""


def parse_shape(text: str) -> tuple[int, ...]:
    """Shape from a text like ``1x3x224x224``; a size may be 0.

    Raises:
        ValueError: If the text is not a shape.
    """
    if not re.fullmatch(r"(0|[1-9][0-9]*)(x(0|[1-9][0-9]*))*", text):
        raise ValueError(f"{text!r} is not a shape like 1x3x224x224")
    return tuple(int(size) for size in text.split("x"))


class Importer(ABC):
    """Reader of one kind of model files.

    The class must be importable without its framework. Only ``load`` may import the framework.
    """

    #: Short name, equal to the entry point's name.
    name: str
    #: Suffixes of file names of this kind, such as ``(".onnx",)``.
    suffixes: tuple[str, ...]
    #: Whether ``load`` imports a framework. Importers run in processes apart from the engine. An
    #: importer of a framework has a separate process, because frameworks disturb each other.
    isolated: bool = False

    def handles(self, spec: str) -> bool:
        """Whether a MODEL argument names a file of this kind, by the name alone."""
        return spec.lower().endswith(self.suffixes)

    @abstractmethod
    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a file into a raw model, as its producer wrote it.

        Raises:
            ModelError: If the file cannot be read.
        """

    def describe(self, path: Path) -> FileNotes:
        """Metadata in a file; empty by default.

        This must not import a framework.
        """
        return FileNotes()


class ModelCollection(ABC):
    """Models that the user names as ``collection:name``.

    The class must be importable without its framework, and ``names`` must work without it.
    """

    #: Name before the colon, equal to the entry point's name.
    name: str
    #: Whether ``load`` imports a framework, as for :class:`Importer`.
    isolated: bool = False
    #: Whether a name is code that ``load`` runs. Such a model may be named by text that the user
    #: types, but never by a file that somebody sends.
    runs_code: bool = False
    #: Form of the names, such as ``module:function``, if they cannot be listed.
    pattern: str = ""
    #: Publication about these models. ``dlbricks study`` shows the published figures beside its own
    #: if all models come from this collection.
    published: Publication | None = None

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Names that ``load`` accepts, in the order for users."""

    @abstractmethod
    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Builds or reads the raw model of a name.

        Raises:
            ModelError: If there is no such model.
        """

    def describe(self, name: str) -> ModelNotes | None:
        """Facts about a model that is not loaded; ``None`` if only its name is known.

        This must be as fast as ``names``, and must not import a framework either.
        """
        return None

    def picture_tokens(self, name: str, width: int, height: int) -> int | None:
        """Tokens of a picture in the prompt of a language model; ``None`` if it reads none.

        Args:
            name: Name of the model.
            width: Elements of the picture from left to right.
            height: Elements from top to bottom.

        Raises:
            ModelError: If there is no such model, or the number is not known.
        """
        return None

    def unknown(self, name: str) -> ModelError:
        """Error for a name that is not in the collection; its hint has the nearest names."""
        near = difflib.get_close_matches(name, self.names(), n=3, cutoff=0.5)
        known = near or list(self.names())[:3]
        hint = f"{'Did you mean' if near else 'There are for example'} {', '.join(known)}"
        return ModelError(
            f"the collection {self.name!r} has no model {name!r}",
            hint=f"{hint}? All: dlbricks list models"
            if near
            else f"{hint}. All: dlbricks list models",
        )

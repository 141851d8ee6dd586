"""Interfaces of importer plugins: :class:`Importer` and :class:`ModelCollection`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbricks_core.errors import ModelError
from dlbricks_core.passes.options import NormalizeOptions

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel, RawModel


# Published figures about the models of a collection, for comparison with a study.

StudyData = Mapping[str, Any]
"""Content of ``study.json`` (``docs/reference/json.md``)."""


@dataclass(frozen=True)
class PublishedFigure:
    """A number from a publication, and the way to find its counterpart in a study.

    Attributes:
        figure: Number of the plot in the DLBricks paper with such numbers. A study's report shows
            the published number beside that plot.
        what: Meaning of the number, in a few words.
        where: System and granularity of the number; empty if it depends on neither.
        value: The number; a fraction where ``text`` shows a percentage.
        text: The number in the publication's own words.
        ours: Function that returns the same number of a study; ``None`` if the study lacks it.
        style: Format of the number, such as ``".1%"``.
    """

    figure: int
    what: str
    where: str
    value: float
    text: str
    ours: Callable[[StudyData], float | None]
    style: str

    def worded(self, value: float | None) -> str:
        """A number of a study, for people to read."""
        return "–" if value is None else format(value, self.style)


@dataclass(frozen=True)
class Publication:
    """A publication about the models of a collection.

    Attributes:
        source: Authors, title, place and year.
        models: Number of models that the publication studied.
        figures: Its numbers, in the order in which reports show them.
    """

    source: str
    models: int
    figures: Sequence[PublishedFigure]


# Options of the user for reading models.


@dataclass(frozen=True)
class LoadOptions(NormalizeOptions):
    """Options for reading models and for bringing them into canonical form.

    A name applies to every model that has it. ``MODEL:NAME`` applies to one model alone; MODEL is
    the model's name, the name of its file, or the argument that loaded it.

    Attributes:
        dtype: Name of the conversion to another element type; ``None`` for no conversion.
        outputs: Outputs that are kept, with the layers that they need; empty for all outputs.
        form: As for :class:`ImportOptions`.
    """

    dtype: str | None = None
    outputs: tuple[str, ...] = ()
    form: str = ""

    def of(self, model: str, *aliases: str) -> LoadOptions:
        """Options for one model; an option for this model overrides the option for all models."""
        prefixes = [f"{each}:" for each in (model, *aliases)]

        def named(given: Mapping[str, Any]) -> dict[str, Any]:
            own = {
                key.removeprefix(prefix): value
                for prefix in prefixes
                for key, value in given.items()
                if key.startswith(prefix)
            }
            return {**given, **own}

        return replace(
            self, dims=named(self.dims), shapes=named(self.shapes), values=named(self.values)
        )


# Results of imports.


@dataclass(frozen=True)
class Imported:
    """Result of importing.

    Attributes:
        model: The canonical model.
        names: Names that options about the model may use: its inputs, its symbols for sizes, and
            axes of its inputs (``data.2``), each also with the model as a prefix.
        outputs: Outputs of the file by the names that options may use: their own, and the same
            with the model as a prefix.
    """

    model: CanonicalModel
    names: frozenset[str]
    outputs: Mapping[str, str] = field(default_factory=dict)


# Fragments of error messages of importers.

_MOST_NAMES = 8


def cut(names: Sequence[str]) -> str:
    """Names separated by commas; the first ones and the number of others if there are many.

    Examples:
        >>> cut([f"w{i}" for i in range(45)])
        'w0, w1, w2, w3, w4, w5, w6, w7 ... and 37 more'
    """
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" ... and {more} more" if more > 0 else "")


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
        form: Program whose files a language model has the form of, where the collection writes
            such models in it; empty for layers of ONNX.
    """

    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: str | None = None
    form: str = ""


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
    #: Whether files leave even the rank of inputs open. The size of a dimension with an input's
    #: name then counts as the shape of an input with one dimension.
    lacks_ranks: bool = False

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
    #: Programs in the form of whose files ``load`` writes models (``ImportOptions.form``).
    forms: Collection[str] = ()
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
        import difflib

        near = difflib.get_close_matches(name, self.names(), n=3, cutoff=0.5)
        known = near or list(self.names())[:3]
        hint = f"{'Did you mean' if near else 'There are for example'} {', '.join(known)}"
        return ModelError(
            f"the collection {self.name!r} has no model {name!r}",
            hint=f"{hint}? All: dlbricks list models"
            if near
            else f"{hint}. All: dlbricks list models",
        )

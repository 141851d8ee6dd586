"""What an importer plugin implements: an :class:`Importer` or a :class:`ModelCollection`."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import RawModel


@dataclass(frozen=True)
class ImportOptions:
    """What the user says about sizes that a model leaves open.

    An importer uses what it needs before it can read a model at all; whatever stays
    dynamic in the model is bound later, by the passes.

    Attributes:
        batch: Size of the batch axis; ``None`` for the model's own, or one.
        shapes: Shape of inputs by name.
    """

    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


#: What importers get where the user says nothing.
NO_OPTIONS = ImportOptions()


@dataclass(frozen=True)
class ModelNotes:
    """What a collection says about one of its models without building it.

    Attributes:
        title: Its full name, for people.
        task: What it does, as short as the collection puts it.
        inputs: Shape of each input by name, without the batch.
        layers: How many layers its source counts; ``None`` where it does not say.
    """

    title: str
    task: str = ""
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layers: int | None = None


def parse_shape(text: str) -> tuple[int, ...]:
    """The shape that a user writes as ``1x3x224x224``; a size may be 0.

    Raises:
        ValueError: If the text is anything else.
    """
    if not re.fullmatch(r"(0|[1-9][0-9]*)(x(0|[1-9][0-9]*))*", text):
        raise ValueError(f"{text!r} is not a shape like 1x3x224x224")
    return tuple(int(size) for size in text.split("x"))


class Importer(ABC):
    """Reads one kind of model file into the IR.

    The class must be importable without its framework; only ``load`` may import that.
    """

    #: Short name, equal to the entry point's name.
    name: str
    #: How the names of its files end.
    suffixes: tuple[str, ...]
    #: Whether ``load`` imports a framework. Every importer is called in another process than
    #: the engine's; such a one shares its process with no other, for frameworks disturb each other.
    isolated: bool = False

    def handles(self, spec: str) -> bool:
        """Whether a MODEL argument is a file of this kind, by its name alone."""
        return spec.endswith(self.suffixes)

    @abstractmethod
    def load(self, path: Path, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Reads a file, as its producer wrote it; the passes do the rest.

        Raises:
            ModelError: If the file cannot be read.
        """


class ModelCollection(ABC):
    """Models that the user asks for by name, ``collection:name``.

    The class must be importable without its framework, and so must ``names``.
    """

    #: What the user types before the colon, equal to the entry point's name.
    name: str
    #: As for :class:`Importer`.
    isolated: bool = False
    #: What a name looks like, where the names are the user's own and cannot be listed.
    pattern: str = ""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names that ``load`` takes, in the order that a user should see them."""

    @abstractmethod
    def load(self, name: str, options: ImportOptions = NO_OPTIONS) -> RawModel:
        """Builds or reads the model of that name.

        Raises:
            ModelError: If there is no such model.
        """

    def describe(self, name: str) -> ModelNotes | None:
        """What is known of a model before it is loaded; ``None`` if nothing beyond its name.

        As cheap as ``names``, and as free of frameworks.
        """
        return None

    def unknown(self, name: str) -> ModelError:
        """The error for a name that is not in the collection, with the nearest ones."""
        near = difflib.get_close_matches(name, self.names(), n=3, cutoff=0.5)
        known = near or list(self.names())[:3]
        hint = f"{'Did you mean' if near else 'There are for example'} {', '.join(known)}"
        return ModelError(
            f"the collection {self.name!r} has no model {name!r}",
            hint=f"{hint}? All: dlbricks models" if near else f"{hint}. All: dlbricks models",
        )

"""The service that imports models inside a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbricks_core.importers.base import ImportOptions
from dlbricks_core.importers.cache import FileState, ReadFiles
from dlbricks_core.importers.options import LoadOptions
from dlbricks_core.ir import Model
from dlbricks_core.passes import normalize
from dlbricks_core.plugins import load_object


@dataclass(frozen=True)
class Imported:
    """What importing gave.

    Attributes:
        model: In canonical form.
        names: What options about the model may name: its inputs, its symbols for sizes, and
            places in its inputs (``data.2``).
    """

    model: Model
    names: frozenset[str]


class ImportHost:
    """Calls importers and collections; runs inside the worker.

    Files that nobody trusts are read here: what crashes, hangs or takes too much memory while
    it is read, or while its shapes are inferred, ends this process and no other.
    """

    def __init__(self) -> None:
        self._read = ReadFiles()

    def load(
        self, target: str, source: str | Path, options: LoadOptions
    ) -> tuple[Imported, list[FileState]]:
        """A model, and the files that it depends on.

        Args:
            target: ``"module:Class"`` of the importer or collection.
            source: The file, or the name in the collection.
            options: How to read it.

        Raises:
            ModelError: If it cannot be read or lowered.
        """
        name = source.stem if isinstance(source, Path) else source
        raw = self.raw(target, source, _import_options(name, options))
        return canonical(raw, options), self._read.states()

    def raw(self, target: str, source: str | Path, options: ImportOptions) -> Model:
        """A model as its importer or collection gives it; arguments as for :meth:`load`."""
        model: Model = load_object(target)().load(source, options)
        return model


def _import_options(name: str, options: LoadOptions) -> ImportOptions:
    own = options.of(name.rpartition(":")[2])
    return ImportOptions(
        batch=own.batch, shapes={k: v for k, v in own.shapes.items() if ":" not in k}
    )


def canonical(raw: Model, options: LoadOptions) -> Imported:
    """A model in canonical form, with the options that concern it.

    Raises:
        ModelError: If it cannot be lowered.
    """
    own = options.of(raw.name)
    names = _names(raw)
    model = normalize(
        raw,
        batch=own.batch,
        dims=_dims_of(raw, own, names),
        values={k: v for k, v in own.values.items() if k in raw.inputs},
        fold_batchnorm=own.fold_batchnorm,
    )
    return Imported(model, frozenset(name for name in names if isinstance(name, str)))


def _dims_of(model: Model, options: LoadOptions, names: set[Any]) -> dict[str, int]:
    """The sizes that concern this model: several models may have different ones."""
    whole = {
        f"{name}.{axis}": size
        for name in model.inputs
        for axis, size in enumerate(options.shapes.get(name, ()))
    }
    return whole | {name: size for name, size in options.dims.items() if name in names}


def _names(model: Model) -> set[Any]:
    names: set[Any] = {dim for spec in model.tensors.values() for dim in spec.shape or ()}
    for name in model.inputs:
        names.add(name)
        names.update(f"{name}.{axis}" for axis in range(len(model.tensors[name].shape or ())))
    return names

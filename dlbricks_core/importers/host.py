"""The service that imports models inside a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dlbricks_core.errors import UnboundDimensionsError, shown
from dlbricks_core.importers.base import Imported, ImportOptions, LoadOptions
from dlbricks_core.importers.cache import FileState, ReadFiles
from dlbricks_core.ir import RawModel
from dlbricks_core.ir.own_weights import denormal_share
from dlbricks_core.passes import dimension_names, normalize
from dlbricks_core.passes.convert import convert
from dlbricks_core.passes.normalize import keep_outputs
from dlbricks_core.passes.options import OpenDimension, open_dimensions
from dlbricks_core.plugins import load_object


@dataclass(frozen=True)
class _Raw:
    """A raw model, with its source and options.

    Attributes:
        key: Importer, source and options.
        model: The model.
        files: States of the files that were read for it.
    """

    key: tuple[str, str | Path, ImportOptions]
    model: RawModel
    files: list[FileState]

    def holds(self) -> bool:
        """Whether all files are still the same."""
        return all(each.holds() for each in self.files)


class ImportHost:
    """Service that calls importers and collections, inside a worker process.

    It reads files that are not trusted. A file that crashes, hangs or takes too much memory, while
    it is read or while shapes are inferred, ends this process and no other.
    """

    def __init__(self) -> None:
        self._read = ReadFiles()
        self._last: _Raw | None = None

    def load(
        self, target: str, spec: str, source: str | Path, options: LoadOptions
    ) -> tuple[Imported, list[FileState]]:
        """Imports a model, and finds the files that it depends on.

        Args:
            target: ``"module:Class"`` of the importer or collection.
            spec: The argument that names the model.
            source: The file, or the name in the collection.
            options: How to read it.

        Raises:
            ModelError: If the model cannot be read or lowered.
        """
        found = self._raw(target, spec, source, options)
        imported = canonical(found.model, options, spec)
        # Shapes of layers may need files too.
        return imported, list(dict.fromkeys([*found.files, *self._read.states()]))

    def dimensions(
        self, target: str, spec: str, source: str | Path, options: LoadOptions
    ) -> tuple[tuple[OpenDimension, ...], list[FileState]]:
        """Open dimensions of a model; arguments and errors as for :meth:`load`."""
        found = self._raw(target, spec, source, options)
        return open_dimensions(with_outputs(found.model, options, spec)), found.files

    def _raw(self, target: str, spec: str, source: str | Path, options: LoadOptions) -> _Raw:
        """A raw model; the previous one is reused if its files are the same (sizes may differ)."""
        name = source.stem if isinstance(source, Path) else source.rpartition(":")[2]
        given = options.of(name, *_aliases(spec))
        shapes = dict(given.shapes)
        if getattr(load_object(target), "lacks_ranks", False):
            shapes = {key: (size,) for key, size in given.dims.items()} | shapes
        shapes = {key: value for key, value in shapes.items() if ":" not in key}
        own = ImportOptions(batch=given.batch, shapes=shapes, dtype=given.dtype, form=given.form)
        key = (target, source, own)
        if self._last is None or self._last.key != key or not self._last.holds():
            model = self.raw(target, source, own)
            self._last = _Raw(key, model, self._read.states())
        return self._last

    def raw(self, target: str, source: str | Path, options: ImportOptions) -> RawModel:
        """Raw model as its importer or collection returns it; arguments as for :meth:`load`."""
        model: RawModel = load_object(target)().load(source, options)
        return model


def with_outputs(raw: RawModel, options: LoadOptions, spec: str = "") -> RawModel:
    """A model with its chosen outputs alone; all, if it has none of them. As for `canonical`."""
    known = _outputs(raw, spec)
    return keep_outputs(raw, {known[name] for name in options.outputs if name in known})


def _outputs(raw: RawModel, spec: str) -> dict[str, str]:
    """Outputs by the names that options may use."""
    prefixes = ("", *(f"{each}:" for each in _called(raw, spec)))
    return {f"{prefix}{name}": name for prefix in prefixes for name in raw.outputs}


def _called(raw: RawModel, spec: str) -> tuple[str, ...]:
    return raw.name, *_aliases(spec or raw.source)


def canonical(raw: RawModel, options: LoadOptions, spec: str = "") -> Imported:
    """Normalizes a model with the options that apply to it, and converts it.

    Args:
        raw: The model as its importer returned it.
        options: Options about this model and about others.
        spec: The argument that names the model; by default the model's source.

    Raises:
        ModelError: If it cannot be lowered.
    """
    called = _called(raw, spec)
    kept = with_outputs(raw, options, spec)
    own = options.of(*called)
    names, sized = dimension_names(raw), dimension_names(kept)
    try:
        model = normalize(
            kept,
            batch=own.batch,
            dims={k: v for k, v in own.dims.items() if k in sized},
            shapes={k: v for k, v in own.shapes.items() if k in kept.inputs},
            values={k: v for k, v in own.values.items() if k in kept.inputs},
            fold_batchnorm=own.fold_batchnorm,
        )
    except UnboundDimensionsError as error:
        # A name with a colon may be meant for another model.
        unknown = [shown(name) for name in own.dims if name not in names and ":" not in name]
        if not unknown:
            raise
        message = f"{error.message}; no dimension is called {' or '.join(unknown)}"
        raise UnboundDimensionsError(message, hint=error.hint) from error
    of_model = (f"{each}:{name}" for each in called for name in names)
    converted = replace(
        convert(model, own.dtype),
        denormal_share=denormal_share(raw.source),
        weight_files=raw.weight_files,
    )
    return Imported(converted, frozenset(names.union(of_model)), _outputs(raw, spec))


def _aliases(spec: str) -> tuple[str, ...]:
    """Other names of a loaded model: the name of its file, its path, and the argument."""
    path = Path(spec)
    return path.name, str(path), spec

"""Loads models at several sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dlbricks_core.errors import ModelError
from dlbricks_core.facts import Failure
from dlbricks_core.importers import LoadOptions
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.passes.dimensions import OpenDimension
from dlbricks_core.wording import settings
from dlbricks_core.workflows.loading import (
    ImportSettings,
    LoadedModels,
    ModelLoader,
    load_each,
    load_models,
)
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.sizes.sizing import Sizes


class Sized(Protocol):
    """Something that asks for models at several sizes."""

    def sizes(self, name: str, dimensions: Sequence[OpenDimension]) -> Sequence[Sizes]:
        """Sizes at which a model is wanted, each once.

        Args:
            name: Name of the model, for errors.
            dimensions: What its inputs leave open.

        Raises:
            ModelError: If the model does not have the dimensions.
        """

    def told(self, models: Sequence[AtSizes], result: RunResult) -> RunResult:
        """The result of a run of the models, with what it tells about the request.

        Args:
            models: The models at the sizes.
            result: A result for every one of them.
        """


@dataclass(frozen=True)
class AtSizes:
    """A model at several sizes.

    Attributes:
        name: Name of the model.
        models: Models in canonical form, by their sizes; their names have the sizes in them.
        dimensions: What its inputs leave open.
    """

    name: str
    models: Mapping[Sizes, CanonicalModel]
    dimensions: Sequence[OpenDimension] = ()

    def renamed(self, name: str) -> AtSizes:
        """The same under another name."""
        named = {s: replace(m, name=f"{name} [{s.text}]") for s, m in self.models.items()}
        return replace(self, name=name, models=named)


@dataclass(frozen=True)
class ModelsAtSizes:
    """Models that were loaded at several sizes, and those that could not be.

    Attributes:
        asked: What asked for the sizes.
        every: The models that were loaded.
        failures: Reason for each of the others.
    """

    asked: Sized
    every: list[AtSizes]
    failures: list[Failure]

    @property
    def models(self) -> list[CanonicalModel]:
        """Each model at each of its sizes, for an engine that knows no sizes."""
        return [model for each in self.every for model in each.models.values()]

    def told(self, result: RunResult) -> RunResult:
        """The result of a run of the models, with what was asked, and what was not loaded."""
        return self.asked.told(self.every, replace(result, unread=self.failures))


def load_asked(
    specs: Sequence[str],
    asked: Sized | None,
    options: LoadOptions,
    observer: Observer,
    how: ImportSettings | None = None,
) -> LoadedModels | ModelsAtSizes:
    """Loads models at the sizes that they are asked for; a bad one does not end the others.

    Args:
        specs: Names as the user typed them.
        asked: Says which sizes; ``None`` for those of the options.
        options: How models are read besides.
        observer: Receives a notice of each model.
        how: How models are imported.

    Raises:
        DLBricksError: If no model can be loaded, or an option belongs to none of them.
    """
    if asked is None:
        return load_models(specs, options, observer, how)
    with ModelLoader(options, how) as loader:
        found, failures = load_each(
            specs, loader, lambda spec: _at_sizes(loader, spec, asked, options), observer
        )
    return ModelsAtSizes(asked, _with_unique_names(found), failures)


def read_asked(
    sources: Iterable[str | RawModel], asked: Sized, options: LoadOptions
) -> ModelsAtSizes:
    """The same for models that programs name or have read; the first bad one is an error.

    Raises:
        ModelError: If a model cannot be read, or does not have the dimensions.
    """
    with ModelLoader(options) as loader:
        found = [_at_sizes(loader, source, asked, options) for source in sources]
        loader.check_options()
    return ModelsAtSizes(asked, _with_unique_names(found), [])


def _at_sizes(
    loader: ModelLoader, source: str | RawModel, asked: Sized, options: LoadOptions
) -> AtSizes:
    name = source if isinstance(source, str) else source.name
    dimensions = loader.dimensions(source)
    wanted = asked.sizes(name, dimensions)
    for dim in options.dims.keys() & {dim for sizes in wanted for dim, _ in sizes.dims}:
        raise ModelError(
            f"{name}: {dim} has the sizes that are asked for, not {options.dims[dim]}",
            hint=f"Leave {settings(dims={dim: options.dims[dim]})} out.",
        )
    models = {sizes: loader.load_one(source, sizes.options(options)) for sizes in wanted}
    _check_batches(name, models)
    return AtSizes(next(iter(models.values())).name, models, dimensions)


def _check_batches(name: str, models: Mapping[Sizes, CanonicalModel]) -> None:
    """Raises an error if a model has a batch of its own, whatever is asked for."""
    for sizes, model in models.items():
        firsts = {model.tensors[each].sizes[:1] for each in model.inputs}
        if sizes.batch is not None and (sizes.batch,) not in firsts:
            raise ModelError(
                f"{name} has a batch of a fixed size, not {sizes.batch}",
                hint="Export it with an open batch axis, or leave the batch out.",
            )


def _with_unique_names(found: Sequence[AtSizes]) -> list[AtSizes]:
    """The models, those that share a name renamed to where they came from."""
    names = Counter(each.name for each in found)
    renamed = []
    for each in found:
        source = next(iter(each.models.values())).source
        renamed.append(each.renamed(source or each.name if names[each.name] > 1 else each.name))
    return renamed

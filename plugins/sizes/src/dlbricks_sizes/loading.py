"""Loads models at several sizes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar, cast

from dlbricks_core.commands import SizesRequest
from dlbricks_core.commands.options.models import Models
from dlbricks_core.errors import ModelError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import Failure
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import (
    ImportSettings,
    LoadedModels,
    ModelLoader,
    load_each,
    unique_names,
)
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.passes.options import OpenDimension
from dlbricks_core.progress import Observer
from dlbricks_core.wording import settings
from dlbricks_sizes.sizing import Sizes

ResultT = TypeVar("ResultT")


class Sized(SizesRequest):
    """A request for models at several sizes."""

    def load(self, models: Models, observer: Observer) -> ModelsAtSizes:
        """The models at the requested sizes."""
        if models.strict:
            return read_asked(models.sources, self, models.options)
        names = cast(Sequence[str], models.sources)
        return load_asked(names, self, models.options, observer, models.settings)

    @abstractmethod
    def sizes(self, name: str, dimensions: Sequence[OpenDimension]) -> Sequence[Sizes]:
        """Requested sizes of a model, without duplicates.

        Args:
            name: Name of the model, for errors.
            dimensions: Open dimensions of its inputs.

        Raises:
            ModelError: If the model does not have the dimensions.
        """

    @abstractmethod
    def completed(self, models: Sequence[SizedModel], result: RunResult) -> RunResult:
        """The result of a run, with answers to the request.

        Args:
            models: The models at all sizes.
            result: Result for all of these models.
        """


@dataclass(frozen=True)
class SizedModel:
    """A model at several sizes.

    Attributes:
        name: Name of the model.
        models: Models in canonical form, by their sizes. Their names include the sizes.
        dimensions: Open dimensions of the inputs.
    """

    name: str
    models: Mapping[Sizes, CanonicalModel]
    dimensions: Sequence[OpenDimension] = ()

    def renamed(self, name: str) -> SizedModel:
        """A copy under another name."""
        named = {s: replace(m, name=f"{name} [{s.text}]") for s, m in self.models.items()}
        return replace(self, name=name, models=named)


@dataclass(frozen=True, kw_only=True)
class ModelsAtSizes(LoadedModels):
    """Models that were loaded at several sizes, each size as a separate model, and failures.

    Attributes:
        asked: Request for the sizes.
        every: Loaded models.
    """

    asked: Sized
    every: Sequence[SizedModel]

    @classmethod
    def of(cls, asked: Sized, every: Sequence[SizedModel], failures: list[Failure]) -> Self:
        """The models, with the phase of each size."""
        pairs = [pair for each in every for pair in each.models.items()]
        phases = [sizes.phase for sizes, _ in pairs]
        return cls([model for _, model in pairs], failures, phases, asked=asked, every=every)

    def completed(self, result: ResultT) -> ResultT:
        """The result of a run, with answers to the request and failures of loading."""
        read = cast(RunResult, super().completed(result))
        return cast(ResultT, self.asked.completed(self.every, read))


def load_asked(
    specs: Sequence[str],
    asked: Sized,
    options: LoadOptions,
    observer: Observer,
    how: ImportSettings | None = None,
) -> ModelsAtSizes:
    """Loads models at the requested sizes. A model that fails does not stop the others.

    Args:
        specs: Names of models as typed by the user.
        asked: Request for sizes.
        options: How models are read otherwise.
        observer: Receives a notice of each model.
        how: How models are imported.

    Raises:
        DLBricksError: If no model can be loaded, or an option applies to no model.
    """
    with ModelLoader(options, how) as loader:
        found, failures = load_each(
            specs, loader, lambda spec: _at_sizes(loader, spec, asked, options), observer
        )
    return ModelsAtSizes.of(asked, _with_unique_names(found), failures)


def read_asked(
    sources: Iterable[str | RawModel], asked: Sized, options: LoadOptions
) -> ModelsAtSizes:
    """Loads models at the requested sizes for a program; the first failure is an error.

    Raises:
        ModelError: If a model cannot be read, or does not have the dimensions.
    """
    with ModelLoader(options) as loader:
        found = [_at_sizes(loader, source, asked, options) for source in sources]
        loader.check_options()
    return ModelsAtSizes.of(asked, _with_unique_names(found), [])


def _at_sizes(
    loader: ModelLoader, source: str | RawModel, asked: Sized, options: LoadOptions
) -> SizedModel:
    name = source if isinstance(source, str) else source.name
    dimensions = loader.dimensions(source)
    wanted = asked.sizes(name, dimensions)
    for dim in options.dims.keys() & {dim for sizes in wanted for dim, _ in sizes.dims}:
        raise ModelError(
            f"{name}: {dim} varies in this request, so it cannot be {options.dims[dim]}",
            hint=f"Leave {settings(dims={dim: options.dims[dim]})} out.",
        )
    models = {sizes: loader.load_one(source, sizes.options(options)) for sizes in wanted}
    axes = {each.input: each.axis for each in dimensions if each.is_batch}
    _check_batches(name, models, axes, options.dims)
    return SizedModel(next(iter(models.values())).name, models, dimensions)


def _check_batches(
    name: str,
    models: Mapping[Sizes, CanonicalModel],
    axes: Mapping[str, int],
    dims: Mapping[str, int],
) -> None:
    """Raises an error if a model has a fixed batch size other than the requested one.

    Args:
        name: The model's name.
        models: The model at each size.
        axes: Axis of the open batch by input.
        dims: Sizes that the user gives.
    """
    for sizes, model in models.items():
        places = ((model.tensors[each].sizes, axes.get(each, 0)) for each in model.inputs)
        batches = {shape[axis] for shape, axis in places if axis < len(shape)}
        if sizes.batch is not None and sizes.batch not in batches:
            fixed = {dim: size for dim, size in dims.items() if size in batches}
            raise ModelError(
                f"{name} has a batch of a fixed size, not {sizes.batch}",
                hint=f"Leave {settings(dims=fixed)} out; the batch has a separate option."
                if fixed
                else "Export it with an open batch axis, or leave the batch out.",
            )


def _with_unique_names(found: Sequence[SizedModel]) -> list[SizedModel]:
    sources = [next(iter(each.models.values())).source for each in found]
    names = unique_names([(each.name, src) for each, src in zip(found, sources, strict=True)])
    return [each.renamed(name) for each, name in zip(found, names, strict=True)]

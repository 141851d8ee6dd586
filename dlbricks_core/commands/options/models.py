"""Models of a job: which, how they are read, and at which sizes; and results for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from dlbricks_core.commands.options.several_sizes import SizesRequest
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import (
    ImportSettings,
    LoadedModels,
    ModelLoader,
    load_model,
    load_models,
)
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.progress import Observer

if TYPE_CHECKING:
    from dlbricks_core.commands.options.invocation import Invocation

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Done(Generic[ResultT]):
    """Result of a job, and what it does not record itself."""

    result: ResultT  #: The result.
    #: Models that could not be read, unless the result names them.
    failures: Sequence[Failure] = ()
    invocation: Invocation | None = None  #: Settings of the job, for results that can be repeated.


@dataclass(frozen=True)
class Models:
    """Models of a job, and how they are read."""

    #: Names as typed by the user; in strict mode also models that an importer returned.
    sources: Sequence[str | RawModel]
    options: LoadOptions = field(default_factory=LoadOptions)  #: How they are read.
    settings: ImportSettings = field(default_factory=ImportSettings)  #: How they are imported.
    sizes: SizesRequest | None = None  #: Requested sizes; ``None`` for the sizes in the options.
    #: Whether the first model that cannot be read is an error. Otherwise it does not stop the
    #: others, and the result names it.
    strict: bool = False

    def or_default(self, names: Sequence[str] = ()) -> Models:
        """The models; where there are none, those of a default set as they are.

        Args:
            names: Names of the default set.

        Raises:
            DLBricksError: If there are none in either.
        """
        if self.sources:
            return self
        if not names or self.sizes is not None:
            raise DLBricksError(
                "Name at least one MODEL.", hint="'dlbricks list models' shows those that are here."
            )
        return replace(self, sources=names)

    def load_one(self, observer: Observer) -> CanonicalModel:
        """Loads the single model.

        Raises:
            DLBricksError: If it cannot be loaded, or there are several.
        """
        (name,) = cast(Sequence[str], self.sources)
        return load_model(name, self.options, observer, self.settings)

    def load(self, observer: Observer) -> LoadedModels:
        """Loads the models.

        Raises:
            DLBricksError: If none can be read, or in strict mode if one cannot.
        """
        if self.sizes is not None:
            return self.sizes.load(self, observer)
        if not self.strict:
            return load_models(
                cast(Sequence[str], self.sources), self.options, observer, self.settings
            )
        with ModelLoader(self.options, self.settings) as loader:
            return LoadedModels(loader.load(self.sources), [])

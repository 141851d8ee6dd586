"""Jobs: records of a user's request, which a command and a function of the API both run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, TypeVar, cast

from dlbricks_core.backends import Backend
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.sizes import ModelsAtSizes, Sized, load_asked, read_asked
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import ImportSettings, LoadedModels, ModelLoader, load_model
from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import discover
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument

REQUESTED = (
    *("backend", "backend_options", "quantity", "threads", "protocol", "runs", "seed"),
    *("timeout_s", "force", "retry_failed", "precision", "budget_s", "condition", "busy"),
)
"""Settings that :meth:`Request.of` has as arguments; it decides their defaults."""


def opened(
    store: str | ResultStore | None, *, writes: bool = True
) -> AbstractContextManager[ResultStore]:
    """A store to use in a ``with`` statement; one that was open before stays open."""
    return (
        nullcontext(store)
        if isinstance(store, ResultStore)
        else ResultStore.open(store, writes=writes)
    )


def open_request(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of :meth:`Request.of` among the values of settings, as plain data.

    Settings that were left open are left out.
    """
    return {name: values[name] for name in REQUESTED if values.get(name) is not None}


@dataclass(frozen=True)
class Models:
    """Models of a job, and how they are read.

    Attributes:
        sources: Names as typed by the user; in strict mode also models that an importer returned.
        options: How they are read.
        settings: How they are imported.
        sizes: Requested sizes; ``None`` for the sizes in the options.
        strict: Whether the first model that cannot be read is an error. Otherwise it does not stop
            the others, and the result names it.
    """

    sources: Sequence[str | RawModel]
    options: LoadOptions = field(default_factory=LoadOptions)
    settings: ImportSettings = field(default_factory=ImportSettings)
    sizes: Sized | None = None
    strict: bool = False

    def or_default(self, names: Sequence[str] = ()) -> Models:
        """The models, or a default set if none are named.

        Args:
            names: Names of the default set.

        Raises:
            DLBricksError: If there are none in either.
        """
        if self.sources:
            return self
        if not names or self.sizes is not None:
            raise DLBricksError(
                "Name at least one MODEL.",
                hint="'dlbricks list models' shows the installed models.",
            )
        return replace(self, sources=names)

    def load_one(self, observer: Observer) -> CanonicalModel:
        """Loads the single model.

        Raises:
            DLBricksError: If it cannot be loaded, or there are several.
        """
        (name,) = cast(Sequence[str], self.sources)
        return load_model(name, self.options, observer, self.settings)

    def load(self, observer: Observer) -> LoadedModels | ModelsAtSizes:
        """Loads the models.

        Raises:
            DLBricksError: If none can be read, or in strict mode if one cannot.
        """
        if not self.strict:
            names = cast(Sequence[str], self.sources)
            return load_asked(names, self.sizes, self.options, observer, self.settings)
        if self.sizes is not None:
            return read_asked(self.sources, self.sizes, self.options)
        with ModelLoader(self.options, self.settings) as loader:
            return LoadedModels(loader.load(self.sources), [])


JobT = TypeVar("JobT")


def with_own_types(job: JobT) -> JobT:
    """A job in which an element type that the backend itself converts to is the backend's option.

    Args:
        job: A job with the fields ``models``, ``backend`` and ``backend_options``.
    """
    each: Any = job
    dtype = each.models.options.dtype
    found = discover("backend", Backend, each.backend) if dtype else []
    if not any("dtype" in plugin.loaded.options for plugin in found if not plugin.problem):
        return job
    models = replace(each.models, options=replace(each.models.options, dtype=None))
    changed: JobT = replace(
        each, models=models, backend_options={**each.backend_options, "dtype": dtype}
    )
    return changed


@dataclass(frozen=True, kw_only=True)
class MeasuredJob:
    """A job whose figures are measured. ``None`` means the default of :meth:`Request.of`.

    Attributes:
        models: The models.
        protocol: Name of the protocol of networks that run alone.
        runs: Runs of each network.
        seed: Seed of weights and inputs.
        precision: Half-width of the 90% intervals to reach, relative to the figure.
        budget_s: Seconds after which measuring ends, precise or not.
        timeout_s: Maximum seconds to load a network, or to run it once.
        force: Whether to repeat stored measurements.
        retry_failed: Whether to repeat failed measurements.
        busy: Behaviour if other programs use the CPUs; ``None`` for the default.
        granularity: Maximum number of layers in a brick; ``None`` for the composer's own.
        split: Name of the split strategy; ``None`` for the composer's own.
    """

    models: Models
    protocol: str | None = None
    runs: int | None = None
    seed: int | None = None
    precision: float | None = None
    budget_s: float | None = None
    timeout_s: float | None = None
    force: bool = False
    retry_failed: bool = False
    busy: str | None = None
    granularity: int | None = None
    split: str | None = None

    def request(self, **chosen: Any) -> Request:
        """The request for figures.

        Args:
            **chosen: Further arguments of :meth:`Request.of`, and arguments that the job decides.
        """
        return Request.of(**{**open_request(vars(self)), **chosen})


@dataclass(frozen=True, kw_only=True)
class BackendJob(MeasuredJob):
    """A job on one backend.

    Attributes:
        backend: Name of the backend.
        backend_options: Values of options that the backend declares, by name.
        composer: Name of the composer; ``None`` for the most accurate, or the paper's where a
            granularity or a split is given.
    """

    backend: str
    backend_options: Mapping[str, str] = field(default_factory=dict)
    composer: str | None = None

    @property
    def cut_options(self) -> CutOptions:
        """How models are cut and composed from bricks that are timed alone."""
        return CutOptions.chosen(self.granularity, self.split, self.composer)


@dataclass(frozen=True, kw_only=True)
class TimedJob(BackendJob):
    """A job where something runs or nothing.

    Attributes:
        measure: Whether networks run.
        predictor: Name of the predictor, where nothing runs; ``None`` for the default.
        system: Text that names the machine to estimate for, if nothing runs; ``None`` for this
            machine.
    """

    measure: bool = False
    predictor: str | None = None
    system: str | None = None

    def refuse_known(self, *names: str) -> None:
        """Refuses settings of estimates that run nothing, where something will run.

        Raises:
            DLBricksError: If one of them is given.
        """
        for name in self._given(names):
            raise DLBricksError(
                f"{argument(name)} is for estimates that run nothing",
                hint=f"Leave out {argument(name)}, or {argument('measure')} and "
                f"{argument('precision')}.",
            )

    def refuse_measuring(self, *names: str) -> None:
        """Refuses settings of runs, where nothing will run.

        Raises:
            DLBricksError: If one of them is given.
        """
        for name in self._given(names):
            raise DLBricksError(
                f"{argument(name)} needs {argument('measure')}: nothing runs without it",
                hint=f"Leave {argument(name)} out, or add {argument('measure')}.",
            )

    def _given(self, names: Sequence[str]) -> Iterator[str]:
        own = {each.name: _default(each) for each in fields(self)}
        return (name for name in names if getattr(self, name) != own[name])


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()

"""Jobs: records of a user's request, which a command and a function of the API both run.

A job's ``run`` does the work. Its ``store`` is a path or URL, an open store, or ``None`` for the
user's own; its ``observer`` receives the progress. It raises a ``DLBricksError`` if settings
contradict each other, or no model can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar

from dlbricks_core.backends import Backend
from dlbricks_core.commands.options.given import open_request
from dlbricks_core.commands.options.measured_places import place_of
from dlbricks_core.commands.options.models import Models
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.request import Request, protocol_of
from dlbricks_core.plugins import discover
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, settings


def opened(
    store: str | ResultStore | None, *, writes: bool = True, create: bool = True
) -> AbstractContextManager[ResultStore]:
    """A store to use in a ``with`` statement; one that was open before stays open.

    Args:
        store: Path or URL, an open store, or ``None`` for the user's own.
        writes: As for :meth:`ResultStore.open`.
        create: As for :meth:`ResultStore.open`.
    """
    if isinstance(store, ResultStore):
        return nullcontext(store)
    return ResultStore.open(store, writes=writes, create=create)


JobT = TypeVar("JobT")


def for_backend(job: JobT) -> JobT:
    """A job whose models are read in the form that the backend's users run.

    An element type that the backend itself converts to becomes the backend's option.

    Args:
        job: A job with the fields ``models``, ``backend`` and ``backend_options``.
    """
    each: Any = job
    backend = _installed(each.backend)
    if backend is None:
        return job
    read, chosen = each.models.options, each.backend_options
    if read.dtype and "dtype" in backend.options:
        read, chosen = replace(read, dtype=None), {**chosen, "dtype": read.dtype}
    models = replace(each.models, options=replace(read, form=backend.traits.form))
    changed: JobT = replace(each, models=models, backend_options=chosen)
    return changed


def form_on(backend: str) -> str | None:
    """Form of language models that users of a backend run; empty for layers of ONNX.

    ``None`` if the backend is not installed: its form is unknown.
    """
    found = _installed(backend)
    return None if found is None else found.traits.form


def _installed(backend: str) -> type[Backend] | None:
    """The class of a backend; ``None`` if it is not installed, or broken."""
    found = discover("backend", Backend, backend)
    return next((plugin.loaded for plugin in found if not plugin.problem), None)


@dataclass(frozen=True, kw_only=True)
class SetupJob:
    """A job on one backend. ``None`` means the default of :meth:`Request.of`, here and below."""

    backend: str  #: Name of the backend.
    #: Values of options that the backend declares, by name.
    backend_options: Mapping[str, str] = field(default_factory=dict)

    def request(self, **chosen: Any) -> Request:
        """The request for figures."""
        return Request.of(**{**open_request(vars(self)), **chosen})


@dataclass(frozen=True, kw_only=True)
class NetworksJob:
    """A job that runs networks."""

    protocol: str | None = None  #: Name of the protocol of networks that run alone.
    seed: int | None = None  #: Seed of weights and inputs.
    timeout_s: float | None = None  #: Maximum seconds to load a network, or to run it once.
    force: bool = False  #: Whether to repeat stored measurements.
    busy: str | None = None  #: What happens where other programs use the CPUs.


@dataclass(frozen=True, kw_only=True)
class RunsJob(NetworksJob):
    """A job that runs networks a number of times."""

    runs: int | None = None  #: Runs of each network.
    retry_failed: bool = False  #: Whether to repeat failed measurements.


@dataclass(frozen=True, kw_only=True)
class PreciseJob(RunsJob):
    """A job that runs networks until figures are precise."""

    #: Half-width of the 90% intervals to reach, relative to the figure.
    precision: float | None = None
    budget_s: float | None = None  #: Seconds after which measuring ends, precise or not.


@dataclass(frozen=True, kw_only=True)
class MeasuredJob(NetworksJob):
    """A job that runs models or their bricks."""

    models: Models  #: The models.
    #: Maximum number of layers in a brick; ``None`` for the composer's own.
    granularity: int | None = None
    split: str | None = None  #: Name of the split strategy; ``None`` for the composer's own.


@dataclass(frozen=True, kw_only=True)
class BackendJob(SetupJob, MeasuredJob):
    """A job that runs models or their bricks on one backend."""

    #: Name of the composer; ``None`` for the most accurate, or the paper's where a granularity or a
    #: split is given.
    composer: str | None = None

    @property
    def cut_options(self) -> CutOptions:
        """How models are cut and composed from bricks that are timed alone."""
        return CutOptions.chosen(self.granularity, self.split, self.composer)


@dataclass(frozen=True, kw_only=True)
class TimedJob(BackendJob):
    """A job where something runs or nothing."""

    measure: bool = False  #: Whether networks run.
    #: Name of the predictor, where nothing runs; ``None`` for the default.
    predictor: str | None = None
    #: Text that names the machine to estimate for, if nothing runs; ``None`` for this machine.
    system: str | None = None

    def refuse_known(self, *names: str) -> None:
        """Refuses settings of estimates that run nothing, where something will run."""
        measuring = [n for n in ("measure", "precision") if hasattr(self, n)]
        refuse(
            self,
            names,
            "is for estimates that run nothing",
            f"Leave out {{}}, or {' and '.join(map(argument, measuring))}.",
        )

    def refuse_measuring(self, *names: str) -> None:
        """Refuses settings of runs, where nothing will run."""
        measure = argument("measure")
        reason = f"needs {measure}: nothing runs without it"
        refuse(self, names, reason, f"Leave {{}} out, or add {measure}.")


def refuse(job: Any, names: Iterable[str], reason: str, hint: str) -> None:
    """Refuses settings that have no effect on a job.

    Args:
        job: The job, a data class.
        names: Names of the settings.
        reason: Why one has no effect, as the rest of a sentence that begins with its name.
        hint: What to do about it, with ``{}`` for its name.
    """
    defaults = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(job)
    }
    for name in names:
        if getattr(job, name) != defaults[name]:
            spelled = argument(name)
            raise DLBricksError(f"{spelled} {reason}", hint=hint.format(spelled))


def refuse_budget(job: Any) -> None:
    """Refuses a budget where all whole models run, each as often as its precision needs."""
    hint = f"Leave {{}} out, or add {settings(condition='cold')}."
    refuse(job, ["budget_s"], "is for bricks that are timed alone", hint)


def requests_of_each(job: Any, **chosen: Any) -> list[Request]:
    """A request for each backend of a job.

    Args:
        job: A job with the fields ``backends`` and ``backend_options``, by backend and name.
        **chosen: Arguments of :meth:`Request.of` that the job decides.

    Raises:
        DLBricksError: If there are options for a backend that is none of them.
    """
    values = {**vars(job), **chosen}
    backends, options = dict.fromkeys(job.backends), job.backend_options
    if others := options.keys() - backends:
        raise DLBricksError(
            f"options for the backend {min(others)!r}, which is not compared",
            hint=f"Give options by backend: {', '.join(backends)}.",
        )
    return [
        Request.of(
            **open_request({**values, "backend": name, "backend_options": options.get(name)})
        )
        for name in backends
    ]


def request_elsewhere(
    results: ResultStore, system: str | None, asked: Mapping[str, Any]
) -> Request:
    """Request for the place where results were measured.

    Args:
        results: Measurements of the results files.
        system: As for :func:`.place_of`.
        asked: Arguments of :meth:`Request.of`.

    Raises:
        DLBricksError: If no place matches, or more than one.
    """
    place = place_of(
        results,
        asked["backend"],
        protocol=protocol_of(
            asked.get("protocol", next(iter(PROTOCOLS))), asked.get("quantity", LATENCY.name)
        ),
        system=system,
        threads=asked.get("threads"),
        backend_options=asked.get("backend_options", {}),
    )
    request = Request.of(**asked, system=place.system, measured=place.setup)
    # However little was measured there, it cannot be measured further here.
    return request if asked.get("runs") else replace(request, runs=1)

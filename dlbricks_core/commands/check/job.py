"""Checks of estimates against measurements: by models, by layers, as traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dlbricks_core.commands.check.explanation import Explanation, explain
from dlbricks_core.commands.check.tracing import Trace, trace
from dlbricks_core.commands.options.jobs import (
    BackendJob,
    PreciseJob,
    opened,
    refuse_budget,
    with_own_types,
)
from dlbricks_core.commands.options.models import Done
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.approach import Approach, Wishes
from dlbricks_core.estimation.evaluation import Evaluation, evaluate
from dlbricks_core.estimation.invocation import Invocation
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _ThreadedJob(BackendJob, PreciseJob):
    """A check on one backend."""

    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None

    def _of_model(
        self,
        work: Callable[[CanonicalModel, CutOptions, Request, ResultStore, Observer], T],
        store: str | ResultStore | None,
        observer: Observer,
    ) -> T:
        """Result of work on the single model of the job."""
        job = with_own_types(self)
        cut_options, request = job.cut_options, job.request()
        with opened(store) as there:
            model = job.models.load_one(observer)
            return work(model, cut_options, request, there, observer)


class LayersJob(_ThreadedJob):
    """Deviations of a model's estimate, by groups of layers."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> Explanation:
        """Explains the estimate. Arguments and errors are those of :meth:`CheckJob.run`."""
        return self._of_model(explain, store, observer)


class TraceJob(_ThreadedJob):
    """A model at every level, down to the framework's operators."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> Trace:
        """Traces the model. Arguments and errors are those of :meth:`CheckJob.run`."""
        return self._of_model(trace, store, observer)


@dataclass(frozen=True, kw_only=True)
class CheckJob(_ThreadedJob):
    """Errors of estimates, model by model."""

    condition: str | None = None  #: Condition of the latencies.

    def run(self, store: str | ResultStore | None, observer: Observer) -> Done[Evaluation]:
        """Checks the estimates.

        Args:
            store: Path or URL of a store, an open store, or ``None`` for the user's own.
            observer: Receives the progress.

        Raises:
            DLBricksError: If settings contradict each other, or no model can be read.
        """
        job = with_own_types(self)
        approach = Approach.of_comparison(Wishes.among(vars(job)))
        if approach.condition == "hot":
            refuse_budget(job)
        request = job.request(precision=approach.precision, condition=approach.condition)
        models = job.models.or_default()
        with opened(store) as there:
            loaded = models.load(observer)
            found = evaluate(loaded.models, approach.cut_options, request, there, observer)
        invocation = Invocation.of("check", loaded.models, end_to_end=True)
        return Done(found.lacking(loaded.failures), invocation=invocation)

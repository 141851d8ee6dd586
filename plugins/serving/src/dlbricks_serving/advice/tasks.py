"""Jobs to find a place for: a model that runs once, or a language model that answers a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from dlbricks_sizes import ModelsAtSizes
from dlbricks_sizes.decoder import DecoderDimensions
from dlbricks_sizes.generation import sizes_of, times_of
from dlbricks_sizes.loading import SizedModel
from dlbricks_sizes.workloads import Time, Times

from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.facts import LATENCY
from dlbricks_core.importers.models import LoadedModels
from dlbricks_core.ir import CanonicalModel


@dataclass(frozen=True, eq=False)
class AdviceTask:
    """Work to find a place for."""

    name: str  #: Name of the model.
    source: str  #: Name that the user gave the model.
    #: Models to estimate: the model at each size that the job needs.
    models: Sequence[CanonicalModel]
    #: Function that gives the times of the job from results for these models.
    times: Callable[[Sequence[ModelResult]], Times]
    #: The language model with the sizes of its answer; ``None`` for one run.
    answering: SizedModel | None = None
    #: The same work on models in the form that users of a backend run, by the backend's name.
    forms: Mapping[str, AdviceTask] = field(default_factory=dict)

    def on(self, backend: str) -> AdviceTask:
        """The work with the models that users of a backend run."""
        return self.forms.get(backend, self)

    @classmethod
    def of(cls, model: CanonicalModel) -> Self:
        """One run of a model."""
        return cls(model.name, model.source, [model], _of_one)

    @property
    def names(self) -> tuple[str, str]:
        """Names by which a file may refer to the model."""
        return self.name, self.source


def tasks_of(loaded: LoadedModels, workload: Workload | None) -> list[AdviceTask]:
    """A task for each model: an answer, or one run where there is no workload.

    Args:
        loaded: Models at one size, or at the sizes of the workload.
        workload: The workload that the models were loaded for.
    """
    if not isinstance(loaded, ModelsAtSizes):
        return [AdviceTask.of(each) for each in loaded.models]
    if workload is None:
        raise ValueError("models at several sizes are no tasks without a workload")
    return [_answering(each, workload) for each in loaded.every]


def _of_one(results: Sequence[ModelResult]) -> Times:
    (result,) = results
    return {LATENCY: Time(result.compared, [(1.0, result)])}


def _answering(model: SizedModel, workload: Workload) -> AdviceTask:
    sizes = sizes_of(DecoderDimensions.of(model.name, model.dimensions), workload)
    models = [model.models[each] for each in sizes.values()]

    def times(results: Sequence[ModelResult]) -> Times:
        return times_of(workload, dict(zip(sizes, results, strict=True)))

    return AdviceTask(model.name, models[0].source, models, times, model)

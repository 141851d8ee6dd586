"""Jobs to find a place for: a model that runs once, or a language model that answers a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.sizes import ModelsAtSizes
from dlbricks_core.estimation.sizes.decoder import DecoderDimensions
from dlbricks_core.estimation.sizes.generation import sizes_of, times_of
from dlbricks_core.estimation.sizes.joint import jointly
from dlbricks_core.estimation.sizes.loading import SizedModel
from dlbricks_core.estimation.workloads import Time, Times
from dlbricks_core.facts import LATENCY, Workload
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
    #: The same models in other forms, by the name of the form (``Traits.form``).
    forms: Mapping[str, Sequence[CanonicalModel]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: CanonicalModel) -> Self:
        """One run of a model."""
        return cls(model.name, model.source, [model], _of_one)

    def models_in(self, form: str) -> Sequence[CanonicalModel]:
        """Models to estimate for a backend that asks for a form."""
        return self.forms.get(form, self.models)

    @property
    def names(self) -> tuple[str, str]:
        """Names by which a file may refer to the model."""
        return self.name, self.source


Loaded = LoadedModels | ModelsAtSizes
"""Models at one size, or at the sizes of a workload."""


def tasks_of(
    loaded: Loaded, workload: Workload | None, forms: Mapping[str, Loaded] | None = None
) -> list[AdviceTask]:
    """A task for each model: an answer, or one run where there is no workload.

    Args:
        loaded: The models.
        workload: The workload that the models were loaded for.
        forms: The same models in other forms, by the name of the form.
    """
    tasks = _tasks_of(loaded, workload)
    others = {form: _tasks_of(each, workload) for form, each in (forms or {}).items()}
    return [
        replace(task, forms={form: each[i].models for form, each in others.items()})
        for i, task in enumerate(tasks)
    ]


def _tasks_of(loaded: Loaded, workload: Workload | None) -> list[AdviceTask]:
    if isinstance(loaded, LoadedModels):
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
        joint = jointly(dict(zip(sizes.values(), results, strict=True)))
        return times_of(workload, {depth: joint[each] for depth, each in sizes.items()})

    return AdviceTask(model.name, models[0].source, models, times)

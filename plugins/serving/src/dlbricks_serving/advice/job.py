"""Advice on systems, frameworks and models, from a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlbricks_sizes import Generation

from dlbricks_core.commands.options.jobs import form_on, opened
from dlbricks_core.commands.options.models import Models
from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.without_runs import NO_PREDICTOR
from dlbricks_core.facts import Failure, Note
from dlbricks_core.facts.note import note
from dlbricks_core.importers.lookup import forms_of
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_serving.advice.advice import Advice, AdviceRequest, order_by
from dlbricks_serving.advice.places import places
from dlbricks_serving.advice.requirements import Requirement
from dlbricks_serving.advice.search import advise
from dlbricks_serving.advice.tariff import Accuracies, Prices
from dlbricks_serving.advice.tasks import AdviceTask, tasks_of
from dlbricks_serving.scenarios import Scenario


@dataclass(frozen=True, kw_only=True)
class AdviseJob:
    """Advice on where models run best. Nothing runs."""

    models: Models  #: The models; with requested sizes, language models that answer.
    #: Maximum latency of a run, percentile of it under load, or total time of an answer, in
    #: milliseconds; ``None`` for any.
    max_latency_ms: float | None = None
    require: Sequence[str] = ()  #: Bounds of other quantities, as typed by the user.
    systems: Sequence[str] = ()  #: Texts that name systems; none for all of the store.
    backends: Sequence[str] = ()  #: Names of backends; none for all of the store.
    #: Name of the quantity whose best value comes first; ``None`` for the default.
    by: str | None = None
    prices: Path | None = None  #: File with prices of systems.
    #: File with accuracies of the models, which are alternatives then.
    accuracies: Path | None = None
    min_accuracy: float | None = None  #: Minimum accuracy in the unit of the file.
    predictor: str | None = None  #: Name of the predictor; ``None`` for the default.
    scenario: str | None = None  #: Name of the load pattern; ``None`` for single runs.

    def run(self, store: str | ResultStore | None, observer: Observer) -> Advice:
        """Ranks the places, and the models where they are alternatives.

        Raises:
            DLBricksError: If settings contradict each other, no model can be read, or there is no
                place to advise on.
        """
        name = PREDICTOR if self.predictor is None else self.predictor
        predictor = None if name == NO_PREDICTOR else name
        request, workload = self._request(predictor), self._workload()
        models = self.models.or_default()
        with opened(store, writes=False) as there:
            where = places(
                there,
                self.systems,
                self.backends,
                request.metrics,
                under_load=request.scenario is not None,
                predicts=predictor is not None,
                installed=True,
            )
            loaded = models.load(observer)
            backends = dict.fromkeys(each.setup.backend for each in where)
            tasks, failures, notes = self._in_forms(tasks_of(loaded, workload), backends, observer)
            advice = advise(tasks, where, request, there, observer, predictor)
        return replace(advice, unread=[*loaded.failures, *failures], notes=[*notes, *advice.notes])

    def _in_forms(
        self, tasks: Sequence[AdviceTask], backends: Iterable[str], observer: Observer
    ) -> tuple[list[AdviceTask], list[Failure], list[Note]]:
        """The tasks with models in the forms of backends, and failures to read these.

        Notes name the backends whose form is unknown.

        Args:
            tasks: Tasks whose models have no form.
            backends: Names of the backends.
            observer: Receives the progress.
        """
        found: list[dict[str, AdviceTask]] = [{} for _ in tasks]
        # Only language models have a configuration. A model in memory has no source to be read.
        configured = [each.source for each in tasks if any(it.configuration for it in each.models)]
        failures: list[Failure] = []
        notes: list[Note] = []
        for backend in backends:
            form = form_on(backend)
            if form is None and configured:
                notes.append(note("form-unknown", backend=backend))
            if not form:
                continue
            sources = [source for source in configured if form in forms_of(source)]
            if not sources:
                continue
            options = replace(self.models.options, form=form)
            loaded = replace(self.models, sources=sources, options=options).load(observer)
            failures += loaded.failures
            own = {each.source: each for each in tasks_of(loaded, self._workload())}
            for task, known in zip(tasks, found, strict=True):
                if task.source in own:
                    known[backend] = own[task.source]
        formed = [replace(task, forms=own) for task, own in zip(tasks, found, strict=True)]
        return formed, failures, notes

    def _request(self, predictor: str | None) -> AdviceRequest:
        prices = Prices.read(self.prices) if self.prices else None
        workload = self._workload()
        scenario = None if self.scenario is None else Scenario(self.scenario)
        return AdviceRequest(
            max_latency_ms=self.max_latency_ms,
            min_accuracy=self.min_accuracy,
            prices=prices,
            accuracies=Accuracies.read(self.accuracies) if self.accuracies else None,
            reading=self.models.options,
            predictor=predictor,
            requirements=[Requirement.read(text) for text in self.require],
            by=None if self.by is None else order_by(self.by, prices, workload, scenario),
            workload=workload,
            scenario=scenario,
        )

    def _workload(self) -> Workload | None:
        """The workload of language models; ``None`` for single runs."""
        answer = self.models.sizes
        if not isinstance(answer, Generation):
            return None
        if len(answer.workloads) > 1:
            raise DLBricksError(
                "advice is for one workload",
                hint=f"Name one {argument('prompt')} and one {argument('generate')} at a time.",
            )
        return answer.workloads[0]

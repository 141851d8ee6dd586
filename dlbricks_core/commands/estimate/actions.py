"""``dlbricks estimate``: how long models take, and how much they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.estimate.data import run_data
from dlbricks_core.commands.estimate.terminal import print_run
from dlbricks_core.commands.options import given, jobs, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.approach import Approach, Wishes
from dlbricks_core.commands.options.given import open_request
from dlbricks_core.commands.options.invocation import Invocation
from dlbricks_core.commands.options.models import Done
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.results_files import read_results
from dlbricks_core.commands.options.settings import option
from dlbricks_core.commands.options.systems import at_system
from dlbricks_core.commands.options.workload import PHASES
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.assemble import joined
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import LATENCY
from dlbricks_core.importers.models import LoadedModels
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.known_setups import known_setups
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report.pages import ESTIMATE, page_of
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument

#: Settings that have no effect where nothing runs.
_ONLY_MEASURED = ("end_to_end", "force", "retry_failed", "budget_s", "condition", "seed")

_ONLY_KNOWN = ("system", "results", "predictor")  #: Settings that have no effect where models run.


@dataclass(frozen=True, kw_only=True)
class EstimateJob(jobs.TimedJob, jobs.PreciseJob):
    """Estimates of models. Nothing runs unless ``measure`` or ``precision`` is given."""

    #: Threads that compute one operator; ``None`` for all physical cores. A mapping has the threads
    #: of each phase of an answer.
    threads: int | Mapping[str, int] | None = None
    condition: str | None = None  #: Condition of the latencies.
    quantity: str | None = None  #: Name of the requested quantity.
    #: Whether to time the whole models too; ``None`` where only a default set is.
    end_to_end: bool | None = None
    results: Sequence[Path] = ()  #: Files to estimate from in place of a store, where nothing runs.

    @property
    def measures(self) -> bool:
        """Whether models run."""
        return self.measure or self.precision is not None

    def run(self, store: str | ResultStore | None, observer: Observer) -> Done[RunResult]:
        """Estimates the models."""
        self._check_threads()
        job = jobs.for_backend(self)
        if self.measures:
            self.refuse_known(*_ONLY_KNOWN)
            return job._measured(store, observer)
        self.refuse_measuring(*_ONLY_MEASURED)
        return job._known(store, observer)

    def _check_threads(self) -> None:
        """Refuses threads of phases where there is no answer with these phases."""
        if not isinstance(self.threads, Mapping):
            return
        each = ",".join(f"{name}={number}" for name, number in self.threads.items())
        if {*self.threads} != {*PHASES}:
            raise DLBricksError(
                f"{argument('threads')} {each} does not name {' and '.join(PHASES)}",
                hint=f"Write {argument('threads')} prompt=8,token=4, or one number.",
            )
        is_latency = self.quantity in (None, LATENCY.name)
        if self.models.sizes is None or not self.models.sizes.phases or not is_latency:
            raise DLBricksError(
                f"{argument('threads')} {each} is for the times of language models' answers",
                hint=f"Add {argument('prompt')} or {argument('generate')}, or give one number.",
            )

    def _requests(self, request: Callable[[int | None], Request]) -> dict[str, Request]:
        """Requests by the phase of an answer; one without a name, where phases share threads."""
        threads = self.threads
        if isinstance(threads, Mapping):
            return {phase: request(threads[phase]) for phase in reversed(PHASES)}
        return {"": request(threads)}

    def _measured(self, store: str | ResultStore | None, observer: Observer) -> Done[RunResult]:
        # Estimates that run nothing start faster without this code.
        from dlbricks_core.estimation.adaptive.ahead import begun

        approach = Approach.of_run(Wishes.among(vars(self)))

        chosen = {"precision": approach.precision, "condition": approach.condition}
        requests = self._requests(lambda threads: self.request(**chosen, threads=threads))
        (first, *_) = requests.values()
        models = self.models.or_default(first.backend.default_models)
        end_to_end = not self.models.sources if self.end_to_end is None else self.end_to_end
        with (
            jobs.opened(store) as there,
            nullcontext() if len(requests) > 1 else begun(first, there) as ahead,
        ):
            # The framework is imported by another process meanwhile.
            from dlbricks_core.estimation.run import run

            loaded = models.load(observer)
            result = _in_phases(
                loaded,
                requests,
                lambda these, request: run(
                    these,
                    approach.cut_options,
                    request,
                    there,
                    observer,
                    end_to_end=end_to_end,
                    ahead=ahead,
                ),
            )
        invocation = Invocation.of("estimate", loaded.models, end_to_end=end_to_end)
        return Done(loaded.completed(result), invocation=invocation)

    def _known(self, store: str | ResultStore | None, observer: Observer) -> Done[RunResult]:
        from dlbricks_core.estimation.without_runs import estimate, predictor_named

        models = self.models.or_default()
        wishes = Wishes.among(vars(self))
        is_cut = (self.granularity, self.split, self.composer) != (None, None, None)
        is_cut |= wishes.blocks_only
        cut = wishes.cut_options if is_cut else None
        with self._opened(store) as every:
            asked = open_request(vars(self))
            target, there = at_system(every, self.system)
            setups = partial(known_setups, there, self.backend)

            def request(threads: int | None) -> Request:
                if self.results:
                    return jobs.request_elsewhere(every, self.system, {**asked, "threads": threads})
                return self.request(system=target, known=setups, threads=threads)

            requests = self._requests(request)
            (first, *_) = requests.values()
            predictor = predictor_named(self.predictor, first)
            loaded = models.load(observer)
            result = _in_phases(
                loaded, requests, lambda these, how: estimate(these, cut, how, there, predictor)
            )
        invocation = Invocation.of(
            "estimate", loaded.models, end_to_end=False, measures=False, cut_by_store=not is_cut
        )
        return Done(loaded.completed(result), invocation=invocation)

    def _opened(self, store: str | ResultStore | None) -> AbstractContextManager[ResultStore]:
        if not self.results:
            return jobs.opened(store, writes=False)
        if store is not None:
            raise DLBricksError(
                f"{argument('results')} and {argument('store')} exclude each other",
                hint="Leave one of them out.",
            )
        return read_results(self.results)


def _in_phases(
    loaded: LoadedModels,
    requests: Mapping[str, Request],
    estimated: Callable[[Sequence[CanonicalModel], Request], RunResult],
) -> RunResult:
    """The result for all models, each phase of an answer by its own request."""
    if "" in requests:
        (request,) = requests.values()
        return estimated(loaded.models, request)
    parts = {}
    for phase, request in requests.items():
        if positions := tuple(i for i, each in enumerate(loaded.phases) if each == phase):
            parts[positions] = estimated([loaded.models[i] for i in positions], request)
    threads = {phase: requests[phase].settings.threads for phase in PHASES}
    return replace(joined(parts), phase_threads=threads)


@click.command("estimate", cls=Concise)
@shared.models_argument
@option(
    "measure",
    help="Run models until estimates are as precise as requested. --precision implies it.",
)
@shared.run_options
@option("end_to_end", spellings=("--end-to-end/--no-end-to-end",), value=None,
        help="With --measure: time the whole models too, to compare.",
        default="only without a MODEL")  # fmt: skip
@shared.condition_option
@shared.sizes_options
@shared.quantity_option
@shared.timing_options
@option("system")
@option("results")
@shared.predictor_option
@shared.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Estimate latencies or other quantities of models.

    Figures of bricks come from the store, and from a predictor where the store has none: nothing
    runs, and no framework is needed.

    With --measure or --precision, models run as their users run them, and as few of them as the
    precision needs. Profiles of the runs give the latencies of bricks, and models that share these
    need no run. Without a MODEL, the backend's own set of networks is estimated and compared with
    measured latencies. Stored measurements are not repeated. Exit status 3: something has no
    figure, or a figure is doubtful because other programs used the CPUs.
    """
    output = Output({**values, "store": store})
    job = given.job_of(EstimateJob, models, values)
    if not job.measures:
        output.if_interrupted("")
    with output.progress() as progress:
        done = job.run(store, progress)
    load = job.models.options
    print_run(output.console, done.result)
    output.write_record(lambda: run_data(done.result, load, done.invocation))
    output.write_html(lambda: page_of(ESTIMATE, done.result, load))
    return 0 if done.result.is_sound else EXIT_PARTIAL

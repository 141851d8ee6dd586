"""``dlbricks check``: accuracy of estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from dlbricks_accuracy.evaluation import Evaluation, evaluate
from dlbricks_accuracy.report import evaluation_data, print_evaluation
from dlbricks_core.commands.options import given, jobs, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.approach import Approach, Wishes
from dlbricks_core.commands.options.invocation import Invocation
from dlbricks_core.commands.options.models import Done
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.progress import Observer
from dlbricks_core.report.pages import page_of
from dlbricks_core.store import ResultStore


@dataclass(frozen=True, kw_only=True)
class CheckJob(jobs.BackendJob, jobs.PreciseJob):
    """Errors of estimates, model by model."""

    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    condition: str | None = None  #: Condition of the latencies.

    def run(self, store: str | ResultStore | None, observer: Observer) -> Done[Evaluation]:
        """Checks the estimates."""
        job = jobs.for_backend(self)
        approach = Approach.of_comparison(Wishes.among(vars(job)))
        if approach.condition == "hot":
            jobs.refuse_budget(job)
        request = job.request(precision=approach.precision, condition=approach.condition)
        models = job.models.or_default()
        with jobs.opened(store) as there:
            loaded = models.load(observer)
            found = evaluate(loaded.models, approach.cut_options, request, there, observer)
        invocation = Invocation.of("check", loaded.models, end_to_end=True)
        return Done(found.lacking(loaded.failures), invocation=invocation)


@click.command("evaluate", cls=Concise)
@shared.models_argument
@shared.evaluate_options
@shared.timing_options
@shared.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Report the error of estimates against measured latencies, model by model.

    Every model runs as its user runs it, and its estimate rests on runs of the other models, on the
    store, and on predictions. With --condition cold, a composer, -G or --split, whole models and
    their bricks are timed in the same rounds instead. Exit status 3: a model has no complete
    estimate or could not be timed; it is named, and left out of the figures. The same status shows
    that figures are doubtful because other programs used the CPUs.
    """
    output = Output({**values, "store": store})
    job = given.job_of(CheckJob, models, values)
    with output.progress() as progress:
        done = job.run(store, progress)
    evaluation, load = done.result, job.models.options
    print_evaluation(output.console, evaluation)
    output.write_record(lambda: evaluation_data(evaluation, load, done.invocation))
    output.write_html(lambda: page_of("evaluation", evaluation, load))
    return 0 if evaluation.result.is_sound and not evaluation.left_out else EXIT_PARTIAL

"""``dlbricks check``: accuracy of estimates, their deviations by layers, traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from dlbricks_core import report
from dlbricks_core.commands.check import explanation_report
from dlbricks_core.commands.check.explanation import Explanation, explain
from dlbricks_core.commands.check.tracing import Trace, print_trace, trace, trace_data, trace_events
from dlbricks_core.commands.options import given, jobs, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.approach import Approach, Wishes
from dlbricks_core.estimation.evaluation import Evaluation, evaluate
from dlbricks_core.estimation.invocation import Invocation
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report import evaluation_data, print_evaluation
from dlbricks_core.report.files import write_text
from dlbricks_core.store import ResultStore

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _ThreadedJob(jobs.BackendJob, jobs.PreciseJob):
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
        job = jobs.for_backend(self)
        cut_options, request = job.cut_options, job.request()
        with jobs.opened(store) as there:
            model = job.models.load_one(observer)
            return work(model, cut_options, request, there, observer)


class LayersJob(_ThreadedJob):
    """Deviations of a model's estimate, by groups of layers."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> Explanation:
        """Explains the estimate."""
        return self._of_model(explain, store, observer)


class TraceJob(_ThreadedJob):
    """A model at every level, down to the framework's operators."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> Trace:
        """Traces the model."""
        return self._of_model(trace, store, observer)


@dataclass(frozen=True, kw_only=True)
class CheckJob(_ThreadedJob):
    """Errors of estimates, model by model."""

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
@options.models_argument
@measuring.evaluate_options
@measuring.timing_options
@options.result_options
def accuracy_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Report the error of estimates against measured latencies, model by model.

    Every model runs as its user runs it, and its estimate rests on runs of the other models, on the
    store, and on predictions. With --condition cold, a composer, -G or --split, whole models and
    their bricks are timed in the same rounds instead. Exit status 3: a model has no complete
    estimate or could not be timed; it is named, and left out of the figures. The same status shows
    that figures are doubtful since other programs used the CPUs.
    """
    output = Output({**values, "store": store})
    job = given.job_of(CheckJob, models, values)
    with output.progress() as progress:
        done = job.run(store, progress)
    evaluation, load = done.result, job.models.options
    print_evaluation(output.console, evaluation)
    output.write_record(lambda: evaluation_data(evaluation, load, done.invocation))
    output.write_html(lambda: report.evaluation_page(evaluation, load))
    return 0 if evaluation.result.is_sound and not evaluation.left_out else EXIT_PARTIAL


@click.command("explain", cls=Concise)
@click.argument("model")
@measuring.estimate_options
@measuring.timing_options
@click.option("--top", type=click.IntRange(min=1), default=explanation_report.SHOWN,
              show_default=True,
              help="Number of groups to print; files have all of them.")  # fmt: skip
@options.result_options
def layers_command(model: str, top: int, store: str | None, **values: Any) -> int:
    """Show where the estimate of MODEL deviates, and why.

    Times the whole model and its bricks in the same rounds, as 'check' does, and shows the estimate
    of each group of layers with the backend's own profile of the whole model, if its framework has
    one; largest deviations come first. Exit status 3: something could not be timed or profiled; it
    is named.
    """
    output = Output(values)
    job = given.job_of(LayersJob, (model,), values)
    with output.progress() as progress:
        explanation = job.run(store, progress)
    load = job.models.options
    explanation_report.print_explanation(output.console, explanation, top)
    output.write_json(explanation_report.explanation_data(explanation, load))
    output.write_html(lambda: explanation_report.explanation_page(explanation, load))
    return 0 if explanation.complete else EXIT_PARTIAL


@click.command("trace", cls=Concise)
@click.argument("model")
@click.option("-o", "--output", "trace_path", type=click.Path(path_type=Path, dir_okay=False),
              required=True, metavar="FILE.json", help="File to write the trace to.")  # fmt: skip
@measuring.estimate_options_beside_a_file
@measuring.timing_options
@options.store_option
@options.json_option
@options.table_options
def trace_command(model: str, trace_path: Path, store: str | None, **values: Any) -> int:
    """Write a trace of MODEL: whole, bricks, layers, the framework's operators.

    Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open the file; every level is a track
    that begins at 0. Each level comes from runs without the profiler of a deeper level, and shows
    its own overhead. Exit status 3: something could not be timed or profiled; it is named.
    If no timing succeeds, no file is written.
    """
    output = Output(values)
    job = given.job_of(TraceJob, (model,), values)
    with output.progress() as progress:
        traced = job.run(store, progress)
    if not traced.empty:
        events = json.dumps(trace_events(traced), ensure_ascii=False, allow_nan=False)
        write_text(events + "\n", trace_path)
    print_trace(output.console, traced, trace_path)
    output.write_json(trace_data(traced, job.models.options))
    return 0 if traced.complete else EXIT_PARTIAL

"""``dlbricks check layers`` and ``dlbricks check trace``: where an estimate deviates."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from dlbricks_core.commands.options import given, jobs, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report.files import write_text
from dlbricks_core.store import ResultStore
from dlbricks_explain.explanation import Explanation, explain
from dlbricks_explain.report import SHOWN, explanation_data, explanation_page, print_explanation
from dlbricks_explain.tracing import Trace, print_trace, trace, trace_data, trace_events

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _ModelJob(jobs.BackendJob, jobs.PreciseJob):
    """A check of one model on one backend."""

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


class LayersJob(_ModelJob):
    """Deviations of a model's estimate, by groups of layers."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> Explanation:
        """Explains the estimate."""
        return self._of_model(explain, store, observer)


class TraceJob(_ModelJob):
    """A model at every level, down to the framework's operators."""

    def run(self, store: str | ResultStore | None, observer: Observer) -> Trace:
        """Traces the model."""
        return self._of_model(trace, store, observer)


@click.command("layers", cls=Concise)
@click.argument("model")
@shared.estimate_options
@shared.timing_options
@click.option("--top", type=click.IntRange(min=1), default=SHOWN,
              show_default=True,
              help="Number of groups to print; files have all of them.")  # fmt: skip
@shared.result_options
def layers_command(model: str, top: int, store: str | None, **values: Any) -> int:
    """Show where the estimate of MODEL deviates, and why.

    Times the whole model and its bricks in the same rounds, as 'check --condition cold' does. The
    estimate of each group of layers stands beside the framework's profile of the whole model, if
    the framework has a profiler. The largest deviations come first. Exit status 3: something could
    not be timed or profiled; it is named.
    """
    output = Output(values)
    job = given.job_of(LayersJob, (model,), values)
    with output.progress() as progress:
        explanation = job.run(store, progress)
    load = job.models.options
    print_explanation(output.console, explanation, top)
    output.write_json(explanation_data(explanation, load))
    output.write_html(lambda: explanation_page(explanation, load))
    return 0 if explanation.complete else EXIT_PARTIAL


@click.command("trace", cls=Concise)
@click.argument("model")
@click.option("-o", "--output", "trace_path", type=click.Path(path_type=Path, dir_okay=False),
              required=True, metavar="FILE.json", help="File to write the trace to.")  # fmt: skip
@shared.estimate_options_beside_a_file
@shared.timing_options
@shared.store_option
@shared.json_option
@shared.table_options
def trace_command(model: str, trace_path: Path, store: str | None, **values: Any) -> int:
    """Write a trace of MODEL: whole, bricks, layers, the framework's operators.

    Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open the file; every level is a track
    that begins at 0. Each level is timed in runs of its own, without the profilers of deeper
    levels. Exit status 3: something could not be timed or profiled; it is named. If no timing
    succeeds, no file is written.
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

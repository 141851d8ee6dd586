"""``dlbricks compare``: latencies of several frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from dlbricks_compare.comparing import compare
from dlbricks_compare.comparison import Comparison
from dlbricks_compare.data import comparison_data
from dlbricks_compare.page import comparison_page
from dlbricks_compare.report import print_comparison
from dlbricks_core.commands.options import given, jobs, settings, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.approach import Approach, Wishes, check_backends
from dlbricks_core.commands.options.invocation import Invocation
from dlbricks_core.commands.options.models import Done
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@dataclass(frozen=True, kw_only=True)
class CompareJob(jobs.MeasuredJob, jobs.PreciseJob):
    """Models and their parts on several backends, side by side."""

    backends: Sequence[str]  #: Names of the backends.
    #: Values of options that backends declare, by backend and name.
    backend_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Threads that compute one operator; ``None`` for all physical cores.
    threads: int | None = None
    condition: str | None = None  #: Condition of the latencies.
    quantity: str | None = None  #: Name of the compared quantity.

    def run(self, store: str | ResultStore | None, observer: Observer) -> Done[Comparison]:
        """Compares the backends."""
        check_backends(self.backends)
        approach = Approach.of_comparison(Wishes.among(vars(self)))
        if approach.condition == "hot":
            jobs.refuse_budget(self)
        requests = jobs.requests_of_each(
            self, precision=approach.precision, condition=approach.condition
        )
        models = self.models.or_default()
        with jobs.opened(store) as there:
            loaded = models.load(observer)
            result = compare(loaded.models, approach.cut_options, requests, there, observer)
        invocation = Invocation.of("compare", loaded.models, end_to_end=True)
        return Done(replace(result, unread=loaded.failures), invocation=invocation)


measure_each_options = settings.options(
    *("backends", "backend_options", "threads", *settings.TIMED, *settings.PRECISE, "condition"),
    backend_options=shared.OF_EACH,
    precision={"default": settings.COMPARED_PRECISION},
)


@click.command("compare", cls=Concise)
@shared.models_argument
@shared.quantity_option
@measure_each_options
@shared.cut_options
@shared.load_and_run_options
@shared.timing_options
@shared.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Time models on several frameworks: which is fastest, by how much, and in which parts.

    Each framework runs whole models as their users run them, in a process of its own; they take
    turns model by model. Profiles give the latencies of the parts between places where all
    frameworks cut a model. Stored measurements are not repeated.

    With --condition cold, whole models and segments of each framework's graphs are timed in the
    same rounds. With -G or --split the model's own layers are cut instead; their
    latencies include conversions that whole models do not need.

    With --quantity, another quantity than latency is compared, such as load time or peak memory.
    """
    output = Output({**values, "store": store})
    job = given.job_of(CompareJob, models, values)
    with output.progress() as progress:
        done = job.run(store, progress)
    load = job.models.options
    print_comparison(output.console, done.result)
    output.write_record(lambda: comparison_data(done.result, load, done.invocation))
    output.write_html(lambda: comparison_page(done.result, load))
    return 0 if done.result.is_sound else EXIT_PARTIAL

"""``dlbricks compare``: latencies and outputs of several frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from dlbricks_core.commands.compare.data import comparison_data
from dlbricks_core.commands.compare.page import comparison_page
from dlbricks_core.commands.compare.report import print_comparison
from dlbricks_core.commands.compare.verification import Verdict, VerifyOptions, verify
from dlbricks_core.commands.compare.verification_report import print_verification, verification_data
from dlbricks_core.commands.options import given, jobs, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.approach import Approach, Wishes
from dlbricks_core.estimation.compare import check_backends, compare
from dlbricks_core.estimation.comparison import Comparison
from dlbricks_core.estimation.invocation import Invocation
from dlbricks_core.progress import Observer
from dlbricks_core.report.remarks import print_failures
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


@dataclass(frozen=True, kw_only=True)
class OutputsJob(VerifyOptions):
    """Outputs of models on several backends. No store is used."""

    models: Models  #: The models.
    backends: Sequence[str]  #: Names of the backends.
    #: Values of options that backends declare, by backend and name.
    backend_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    threads: int = 1  #: Threads that compute one operator.
    #: Maximum seconds to load a network, or to run it once; ``None`` for the default.
    timeout_s: float | None = None

    def run(self, observer: Observer) -> Done[Sequence[Verdict]]:
        """Compares the outputs."""
        requests = jobs.requests_of_each(self)
        for each in requests:
            if each.backend.traits.blocks_only:
                raise DLBricksError(
                    f"{each.backend.name} runs blocks with weights of its own, so its outputs "
                    "cannot be compared",
                    hint="Leave it out.",
                )
        loaded = self.models.or_default().load(observer)
        return Done(verify(loaded.models, requests, self, observer), loaded.failures)


@click.command("compare", cls=Concise)
@options.models_argument
@measuring.quantity_option
@measuring.measure_each_options
@options.cut_options
@options.load_options
@measuring.timing_options
@options.result_options
def latencies_command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Time models on several frameworks: which is fastest, by how much, and in which parts.

    Each framework runs whole models as their users run them, in a process of its own; they take
    turns model by model. Profiles give the latencies of the parts between places where all
    frameworks cut a model. Stored measurements are not repeated.

    With --condition cold, whole models and segments of each framework's graphs are timed in the
    same rounds. With -G or --split the model's own layers are cut instead; these pay for
    conversions that whole models do not need.

    With --quantity something else than latency is compared, such as load time or peak memory.
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


@click.command("verify", cls=Concise)
@options.models_argument
@measuring.verify_options
@options.load_options
@options.json_option
@options.table_options
def outputs_command(models: tuple[str, ...], **values: Any) -> int:
    """Run whole models on several frameworks and compare their outputs.

    All get the same random weights and inputs. If the backends agree with each other but not with
    the ONNX reference, a remark names this and the reference's known defects. Exit status 3:
    something disagrees, is unsupported, or fails, be it the ONNX reference.
    """
    output = Output(values)
    job = given.job_of(OutputsJob, models, values)
    with output.progress() as progress:
        done = job.run(progress)
    print_verification(output.console, done.result)
    print_failures(output.console, done.failures)
    output.write_record(lambda: verification_data(done, job))
    agree = all(each.agrees and not each.reference_failure for each in done.result)
    return 0 if agree and not done.failures else EXIT_PARTIAL

"""``dlbricks compare outputs``: outputs of models on several frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from dlbricks_compare.outputs_report import print_verification, verification_data
from dlbricks_compare.verification import Verdict, VerifyOptions, verify
from dlbricks_core.commands.options import given, jobs, settings, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.errors import DLBricksError
from dlbricks_core.progress import Observer
from dlbricks_core.report.remarks import print_failures


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


verify_options = settings.group(
    settings.options(
        *("backends", "backend_options", "threads", "seed"),
        backend_options=shared.OF_EACH,
        threads={"default": "", "value": 1},
    ),
    click.option("--tolerance", type=click.FloatRange(min=0), default=1e-3, show_default=True,
                 help="Maximum relative error that counts as agreement."),
    click.option("--reference-timeout", "reference_timeout_s", type=click.FloatRange(min=0),
                 default=20.0, show_default=True,
                 help="Seconds that the ONNX reference evaluator may take for a model; where it "
                 "takes longer, the first backend is the reference. 0 leaves it out."),
)  # fmt: skip


@click.command("outputs", cls=Concise)
@shared.models_argument
@verify_options
@shared.load_and_run_options
@shared.json_option
@shared.table_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Run whole models on several frameworks and compare their outputs.

    All get the same random weights and inputs. If the backends agree with each other but not with
    the ONNX reference, a remark names this and the reference's known defects. Exit status 3:
    something disagrees, is unsupported, or fails, the ONNX reference included.
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

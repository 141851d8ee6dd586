"""``dlbricks estimate``: how long models take, and how much they need."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.commands.estimate.job import EstimateJob
from dlbricks_core.commands.options import given, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.report import print_run, run_data


@click.command("estimate", cls=Concise)
@options.models_argument
@option(
    "measure",
    help="Run models until estimates are as precise as requested. --precision implies it.",
)
@measuring.run_options
@option("end_to_end", spellings=("--end-to-end/--no-end-to-end",), value=None,
        help="With --measure: time the whole models too, to compare.",
        default="only without a MODEL")  # fmt: skip
@measuring.condition_option
@measuring.sizes_options
@measuring.quantity_option
@measuring.timing_options
@option("system")
@option("results")
@measuring.predictor_option
@options.result_options
def command(models: tuple[str, ...], store: str | None, **values: Any) -> int:
    """Estimate latencies or other quantities of models.

    Figures of bricks come from the store, and from a predictor where the store has none: nothing
    runs, and no framework is needed.

    With --measure or --precision, as few models run as the precision needs, as their users run
    them. Profiles of the runs give the latencies of bricks, and models that share these need no
    run. Without a MODEL a set of networks is estimated that the backend names, and compared with
    measured latencies. Stored measurements are not repeated. Exit status 3: something has no
    figure, or a figure is doubtful since other programs used the CPUs.
    """
    output = Output({**values, "store": store})
    job = given.job_of(EstimateJob, models, values)
    with output.progress() as progress:
        done = job.run(store, progress)
    load = job.models.options
    print_run(output.console, done.result)
    output.write_record(lambda: run_data(done.result, load, done.invocation))
    output.write_html(lambda: report.run_page(done.result, load))
    return 0 if done.result.is_sound else EXIT_PARTIAL

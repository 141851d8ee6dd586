"""``dlbricks show repeats``: how layers repeat within and across models."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core import report
from dlbricks_core.commands.options import given
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.show.job import ShowRepeatsJob
from dlbricks_core.report import analysis_data, print_analysis, print_failures


@click.command("analyze", cls=Concise)
@options.models_argument
@options.load_options
@options.json_option
@options.html_option
@options.table_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Show how layers repeat within and across models; runs nothing.

    Unique layers of each model and over all, operator types of the repeated layers, Jaccard
    similarity of the models' sets of layers, floating-point operations and bytes.
    """
    output = Output(values)
    job = given.job_of(ShowRepeatsJob, models, values)
    with output.progress() as progress:
        shown = job.run(progress)
    analysis, failures = shown.analysis, shown.failures
    print_analysis(output.console, analysis)
    print_failures(output.console, failures)
    output.write_json(analysis_data(analysis, failures, job.models.options))
    output.write_html(lambda: report.analysis_page(analysis, failures))
    return EXIT_PARTIAL if failures else 0

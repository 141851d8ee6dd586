"""``dlbricks show``: layers and bricks of models."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.commands.options import given
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.show.inspection import inspect_data, print_inspection
from dlbricks_core.commands.show.job import ShowLayersJob
from dlbricks_core.report import print_failures


@click.command("inspect", cls=Concise)
@options.models_argument
@options.cut_options
@options.load_options
@options.json_option
@options.table_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Show layers, unique layers, bricks, and layers that cannot be timed.

    With -v, every layer is listed.
    """
    output = Output(values)
    job = given.job_of(ShowLayersJob, models, values)
    with output.progress() as progress:
        shown = job.run(progress)
    print_inspection(output.console, shown.bricks, layers=values["verbose"])
    print_failures(output.console, shown.failures)
    output.write_record(lambda: inspect_data(shown.bricks, shown.failures, job.models.options))
    return EXIT_PARTIAL if shown.failures else 0

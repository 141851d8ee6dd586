"""``dlbricks show repeats``: how layers repeat. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.progress import Observer
from dlbricks_core.report.remarks import print_failures
from dlbricks_study.repeats import analysis_data, analysis_page, print_analysis
from dlbricks_study.repetition import Analysis, analyze


@dataclass(frozen=True, kw_only=True)
class ShowRepeatsJob:
    """Layers that repeat within and across models."""

    models: Models  #: The models.

    def run(self, observer: Observer) -> Done[Analysis]:
        """Compares the layers."""
        loaded = self.models.or_default().load(observer)
        return Done(analyze(loaded.models), loaded.failures)


@click.command("repeats", cls=Concise)
@shared.models_argument
@shared.load_options
@shared.json_option
@shared.html_option
@shared.table_options
def repeats_command(models: tuple[str, ...], **values: Any) -> int:
    """Show how layers repeat within and across models; runs nothing.

    The tables have the unique layers of each model and of all models together, the operator types
    of repeated layers, the Jaccard similarity of the models' sets of layers, floating-point
    operations and bytes.
    """
    output = Output(values)
    job = given.job_of(ShowRepeatsJob, models, values)
    with output.progress() as progress:
        shown = job.run(progress)
    analysis, failures = shown.result, shown.failures
    print_analysis(output.console, analysis)
    print_failures(output.console, failures)
    output.write_json(analysis_data(analysis, failures, job.models.options))
    output.write_html(lambda: analysis_page(analysis, failures))
    return EXIT_PARTIAL if failures else 0

"""``dlbricks show``: layers and bricks of models, and how layers repeat. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from dlbricks_core import report
from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.options import given
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.show.inspection import inspect_data, print_inspection
from dlbricks_core.compose.options import PAPER_COMPOSER, CutOptions
from dlbricks_core.progress import Observer
from dlbricks_core.report.remarks import print_failures

if TYPE_CHECKING:
    from dlbricks_core.analysis import Analysis


@dataclass(frozen=True, kw_only=True)
class ShowLayersJob:
    """Layers and bricks of models."""

    models: Models  #: The models.
    #: Maximum number of layers in a brick; ``None`` for the paper's.
    granularity: int | None = None
    split: str | None = None  #: Name of the split strategy; ``None`` for the paper's.

    def run(self, observer: Observer) -> Done[BrickSet]:
        """Cuts the models."""
        loaded = self.models.or_default().load(observer)
        cut = CutOptions.chosen(self.granularity, self.split, PAPER_COMPOSER)
        bricks = BrickSet.of(loaded.models, cut.granularity, cut.strategy)
        return Done(bricks, loaded.failures)


@click.command("inspect", cls=Concise)
@options.models_argument
@options.cut_options
@options.load_options
@options.json_option
@options.table_options
def layers_command(models: tuple[str, ...], **values: Any) -> int:
    """Show layers, unique layers, bricks, and layers that cannot be timed.

    With -v, every layer is listed.
    """
    output = Output(values)
    job = given.job_of(ShowLayersJob, models, values)
    with output.progress() as progress:
        shown = job.run(progress)
    print_inspection(output.console, shown.result, layers=values["verbose"])
    print_failures(output.console, shown.failures)
    output.write_record(lambda: inspect_data(shown.result, shown.failures, job.models.options))
    return EXIT_PARTIAL if shown.failures else 0


@dataclass(frozen=True, kw_only=True)
class ShowRepeatsJob:
    """Layers that repeat within and across models."""

    models: Models  #: The models.

    def run(self, observer: Observer) -> Done[Analysis]:
        """Compares the layers."""
        from dlbricks_core.analysis import analyze

        loaded = self.models.or_default().load(observer)
        return Done(analyze(loaded.models), loaded.failures)


@click.command("analyze", cls=Concise)
@options.models_argument
@options.load_options
@options.json_option
@options.html_option
@options.table_options
def repeats_command(models: tuple[str, ...], **values: Any) -> int:
    """Show how layers repeat within and across models; runs nothing.

    Unique layers of each model and over all, operator types of the repeated layers, Jaccard
    similarity of the models' sets of layers, floating-point operations and bytes.
    """
    output = Output(values)
    job = given.job_of(ShowRepeatsJob, models, values)
    with output.progress() as progress:
        shown = job.run(progress)
    analysis, failures = shown.result, shown.failures
    report.print_analysis(output.console, analysis)
    print_failures(output.console, failures)
    output.write_json(report.analysis_data(analysis, failures, job.models.options))
    output.write_html(lambda: report.analysis_page(analysis, failures))
    return EXIT_PARTIAL if failures else 0

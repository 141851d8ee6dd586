"""``dlbricks show``: layers and bricks of models. Nothing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.models import Done, Models
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.show.inspection import inspect_data, print_inspection
from dlbricks_core.compose.options import PAPER_COMPOSER, CutOptions
from dlbricks_core.progress import Observer
from dlbricks_core.report.remarks import print_failures


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
@shared.models_argument
@shared.cut_options
@shared.load_options
@shared.json_option
@shared.table_options
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

"""``dlbricks show``: layers and bricks of models."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.options import reading
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.show.inspection import inspect_data, print_inspection
from dlbricks_core.importers.models import load_models
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
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    load = reading.load_options_of(values)
    with output.progress() as progress:
        loaded = load_models(models, load, progress, reading.import_settings_of(values))
    cut = reading.cut_options_of(values)
    bricks = BrickSet.of(loaded.models, cut.granularity, cut.strategy)
    print_inspection(output.console, bricks, layers=values["verbose"])
    print_failures(output.console, loaded.failures)
    output.write_record(lambda: inspect_data(bricks, loaded.failures, load))
    return EXIT_PARTIAL if loaded.failures else 0

"""``dlbricks inspect``: shows the composition of a model."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.bricks import BrickSet
from dlbricks_core.cli import given, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import inspect_data, print_failures, print_inspection
from dlbricks_core.workflows import load_models


@click.command("inspect")
@options.models_argument
@options.cut_options
@options.load_options
@options.json_option
@options.quiet_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Show layers, unique layers, bricks, and what cannot be timed.

    With -v, every layer is listed.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    with output.progress() as progress:
        loaded = load_models(
            models,
            given.load_options_of(values),
            progress,
            given.import_settings_of(values),
        )
    cut = given.cut_options_of(values)
    bricks = BrickSet.of(loaded.models, cut.granularity, cut.strategy)
    print_inspection(output.console, bricks, layers=values["verbose"])
    print_failures(output.console, loaded.failures)
    output.write_record(lambda: inspect_data(bricks, loaded.failures))
    return EXIT_PARTIAL if loaded.failures else 0

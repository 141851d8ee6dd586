"""Options, work and output of the command."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import table


@click.command("widest", cls=Concise)
@shared.models_argument
@shared.load_options
@shared.table_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Show the largest tensor that each model computes. Nothing runs."""
    output = Output(values)
    with output.progress() as progress:
        loaded = given.models_of(models, values).or_default().load(progress)
    rows = [(model.name, *largest(model)) for model in loaded.models]
    output.console.print(table("Model", "Tensor", "MB", rows=rows, left=2))
    print_failures(output.console, loaded.failures)
    return EXIT_PARTIAL if loaded.failures else 0


def largest(model: CanonicalModel) -> tuple[str, str]:
    """Name and megabytes of the largest tensor that a layer of the model computes."""
    sizes = {name: model.tensors[name].nbytes for name in model.producers}
    name = max(sizes, key=sizes.__getitem__)
    return name, f"{sizes[name] / 1e6:.2f}"

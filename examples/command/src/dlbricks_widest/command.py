"""Options, work and output of the command."""

from __future__ import annotations

import click

import dlbricks_core as dlbricks
from dlbricks_core.ir import TensorSpec


@click.command("widest")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def command(models: tuple[str, ...]) -> int:
    """Show the largest tensor that each model computes. Nothing runs."""
    for name in models:
        tensor = largest(dlbricks.load(name))
        click.echo(f"{name}: {tensor.name}, {tensor.nbytes / 1e6:.2f} MB")
    return 0


def largest(model: dlbricks.LoadedModel) -> TensorSpec:
    """The largest tensor that a layer of the model computes."""
    ir = model.ir
    return max((ir.tensors[name] for name in ir.producers), key=lambda each: each.nbytes)

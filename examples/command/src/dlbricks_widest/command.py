"""Options, work and output of the command."""

from __future__ import annotations

import click

import dlbricks


@click.command("widest")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def command(models: tuple[str, ...]) -> int:
    """Show the largest tensor that each model computes. Nothing runs."""
    for name in models:
        tensor, nbytes = largest(dlbricks.load(name))
        click.echo(f"{name}: {tensor}, {nbytes / 1e6:.2f} MB")
    return 0


def largest(model: dlbricks.LoadedModel) -> tuple[str, int]:
    """Name and bytes of the largest tensor that a layer of the model computes."""
    sizes = {name: model.ir.tensors[name].nbytes for name in model.ir.producers}
    return max(sizes.items(), key=lambda each: each[1])

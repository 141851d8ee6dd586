"""``dlbricks generate``: a suite for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import SCHEMA_VERSION, failures_data, print_failures
from dlbricks_core.report.heading import count
from dlbricks_core.suites import Suite, check_unused
from dlbricks_core.workflows import generate, load_models


@click.command("generate")
@options.models_argument
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to.",
)
@options.cut_options
@options.load_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the weights.")  # fmt: skip
@options.json_option
@options.quiet_options
def command(models: tuple[str, ...], folder: Path, seed: int, **values: Any) -> int:
    """Pack what another machine needs to time MODELs, without their weights.

    The folder holds the structures of the MODELs and a manifest. Time it on any machine, with any
    framework: 'dlbricks bench FOLDER --backend NAME --results FILE'. Then estimate on yours:
    'dlbricks estimate MODEL... --backend NAME --results FILE'.

    With -G or --split, the folder holds the paper's bricks instead: ONNX files that tell neither
    which model they are from nor in which order they stand.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    check_unused(folder)
    asked = values["granularity"] is not None or values["strategy"] is not None
    cut = options.cut_options_of(values) if asked else None
    with output.progress() as progress:
        loaded = load_models(
            models,
            options.load_options_of(values),
            progress,
            options.import_settings_of(values),
        )
        written = generate(loaded.models, cut, folder, seed, progress)
    output.console.print(_summary(written, folder), soft_wrap=True)
    failures = [*loaded.failures, *written.omitted]
    print_failures(output.console, failures)
    output.write_json(
        {
            "schema_version": SCHEMA_VERSION,
            "folder": str(folder),
            "models": [
                {"name": each.model.name, "layers": len(each.model.layers)}
                for each in written.models
            ],
            "bricks": [
                {"signature": each.brick.signature, "layers": list(each.brick.operators)}
                for each in written.bricks
            ],
            **failures_data(failures),
        }
    )
    return EXIT_PARTIAL if failures else 0


def _summary(suite: Suite, folder: Path) -> str:
    bricks = count(len(suite.bricks), "brick")
    if not suite.models:
        return f"{bricks} in {folder}"
    return f"{count(len(suite.models), 'model')} of {bricks} in {folder}"

"""``dlbricks generate``: bricks as ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import SCHEMA_VERSION, failures_data, print_failures
from dlbricks_core.workflows import generate, load_models
from dlbricks_core.workflows.generate import check_unused


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
    """Write bricks as ONNX files, without the models' weights.

    The folder can be given away: it tells neither the models' topology nor their weights.
    Time it on another machine with 'dlbricks bench FOLDER --store FILE', and compose on
    yours with 'dlbricks estimate MODEL... --store FILE --system FINGERPRINT'. Naming
    decoy models beside your own hides which bricks are yours.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    check_unused(folder)
    with output.progress() as progress:
        loaded = load_models(
            models,
            options.load_options_of(values),
            progress,
            options.import_settings_of(values),
        )
        written = generate(loaded.models, options.cut_options_of(values), folder, seed, progress)
    output.console.print(f"{len(written.bricks)} bricks in {written.path}", soft_wrap=True)
    failures = [*loaded.failures, *written.omitted]
    print_failures(output.console, failures)
    output.write_json(
        {
            "schema_version": SCHEMA_VERSION,
            "folder": str(written.path),
            "bricks": [
                {"signature": brick.signature, "layers": list(brick.operators)}
                for brick in written.bricks
            ],
            **failures_data(failures),
        }
    )
    return EXIT_PARTIAL if failures else 0

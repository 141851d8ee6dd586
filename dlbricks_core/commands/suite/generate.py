"""``dlbricks suite write``: a suite for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import reading
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.commands.suite.writing import generate, generated_data, print_generated
from dlbricks_core.importers.models import load_models
from dlbricks_core.suites import check_unused


@click.command("generate", cls=Concise)
@options.models_argument
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False),
              required=True, help="Folder to write to.")  # fmt: skip
@options.cut_options
@options.load_options_beside_a_file
@option("seed", help="Seed of the weights.")
@options.json_option
@options.quiet_options
def command(models: tuple[str, ...], folder: Path, seed: int, **values: Any) -> int:
    """Pack MODELs without their weights, for another machine to time.

    The folder holds the structures of the MODELs and a manifest. Time it on any machine, with any
    framework: 'dlbricks suite time FOLDER --backend NAME --results FILE'. Then estimate on yours:
    'dlbricks estimate MODEL... --backend NAME --results FILE'.

    With -G or --split, the folder holds the paper's bricks instead: ONNX files without the model of
    a brick or the order of bricks.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    output = Output(values)
    check_unused(folder)
    asked = values["granularity"] is not None or values["split"] is not None
    cut = reading.cut_options_of(values) if asked else None
    with output.progress() as progress:
        loaded = load_models(
            models, reading.load_options_of(values), progress, reading.import_settings_of(values)
        )
        written = generate(loaded.models, cut, folder, seed, progress)
    failures = [*loaded.failures, *written.omitted]
    print_generated(output.console, written, folder, failures)
    output.write_json(generated_data(written, folder, failures))
    return EXIT_PARTIAL if failures else 0

"""``dlbricks suite write``: a suite for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.commands.suite.job import SuiteWriteJob
from dlbricks_core.commands.suite.writing import generated_data, print_generated


@click.command("generate", cls=Concise)
@options.models_argument
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False),
              required=True, help="Folder to write to.")  # fmt: skip
@options.cut_options
@options.load_options_beside_a_file
@option("seed", help="Seed of the weights.")
@options.json_option
@options.quiet_options
def command(models: tuple[str, ...], **values: Any) -> int:
    """Pack what another machine needs to time MODELs, without their weights.

    The folder holds the structures of the MODELs and a manifest. Time it on any machine, with any
    framework: 'dlbricks suite time FOLDER --backend NAME --results FILE'. Then estimate on yours:
    'dlbricks estimate MODEL... --backend NAME --results FILE'.

    With -G or --split, the folder holds the paper's bricks instead: ONNX files that tell neither
    which model they are from nor in which order they stand.
    """
    output = Output(values)
    job = given.job_of(SuiteWriteJob, models, values)
    with output.progress() as progress:
        done = job.run(progress)
    print_generated(output.console, done.suite, job.folder, done.failures)
    output.write_json(generated_data(done, job, job.models.options))
    return EXIT_PARTIAL if done.failures else 0

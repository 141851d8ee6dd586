"""``dlbricks suite``: writes a suite for another machine, and times one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given, kinds, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.commands.suite.job import SuiteTimeJob, SuiteWriteJob
from dlbricks_core.commands.suite.writing import generated_data, print_generated
from dlbricks_core.report import print_bench, run_data


@click.command("bench", cls=Concise)
@click.argument("bricks", metavar="FOLDER", type=click.Path(path_type=Path))
@measuring.quantity_option
@measuring.measure_options
@options.timeout_option
@measuring.timing_options
@option("results", kind=kinds.PATH,
        help="Write what is measured to a file that 'dlbricks estimate --results' reads, not to a "
        "store. What the file holds already is not measured again.")  # fmt: skip
@options.store_option
@options.json_option
@options.table_options
def time_command(bricks: Path, store: str | None, **values: Any) -> int:
    """Time the suite in FOLDER, which 'dlbricks suite write' wrote.

    No whole model is timed. Interrupt it as you like: the same command goes on where it ended.
    """
    output = Output(values)
    job = given.job_of(SuiteTimeJob, (), values, folder=bricks)
    with output.progress() as progress:
        timed = job.run(store, progress)
    print_bench(output.console, timed.result)
    output.console.print(f"Stored in {timed.location}", soft_wrap=True)
    output.write_json(run_data(timed.result))
    return 0 if timed.result.is_sound else EXIT_PARTIAL


@click.command("generate", cls=Concise)
@options.models_argument
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False),
              required=True, help="Folder to write to.")  # fmt: skip
@options.cut_options
@options.load_options_beside_a_file
@option("seed", help="Seed of the weights.")
@options.json_option
@options.quiet_options
def write_command(models: tuple[str, ...], **values: Any) -> int:
    """Pack what another machine needs to time MODELs, without their weights.

    The folder holds the structures of the MODELs and a manifest. Time it on any machine, with any
    framework: 'dlbricks suite time FOLDER --backend NAME --results FILE'. Then estimate on yours:
    'dlbricks estimate MODEL... --backend NAME --results FILE'.

    With -G or --split, the folder holds the paper's bricks instead: ONNX files without the model of
    a brick or the order of bricks.
    """
    output = Output(values)
    job = given.job_of(SuiteWriteJob, models, values)
    with output.progress() as progress:
        done = job.run(progress)
    print_generated(output.console, done.result, job.folder, done.failures)
    output.write_json(generated_data(done, job, job.models.options))
    return EXIT_PARTIAL if done.failures else 0

"""``dlbricks suite time``: times a suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.commands.options import given, kinds, measuring
from dlbricks_core.commands.options import shared as options
from dlbricks_core.commands.options.help import Concise
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import option
from dlbricks_core.commands.suite.job import SuiteTimeJob
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
def command(bricks: Path, store: str | None, **values: Any) -> int:
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

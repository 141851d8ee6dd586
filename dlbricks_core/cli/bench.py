"""``dlbricks bench``: times a suite."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import print_bench, run_data
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import bench
from dlbricks_core.workflows.carried import written_results


@click.command("bench")
@click.argument("bricks", metavar="FOLDER", type=click.Path(path_type=Path))
@measuring.quantity_option
@measuring.measure_options
@options.timeout_option
@measuring.timing_options
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what is measured to a file that 'dlbricks estimate --results' reads, not to a "
    "store. What the file holds already is not measured again.",
)
@options.store_option
@options.json_option
@options.quiet_options
def command(bricks: Path, results: Path | None, store: str | None, **values: Any) -> int:
    """Time the suite in FOLDER, which 'dlbricks generate' wrote.

    No whole model is timed. Interrupt it as you like: the same command goes on where it ended.
    """
    output = Output(values)
    with output.progress() as progress, _opened(results, store) as opened:
        result = bench(bricks, given.request_of(values), opened, progress)
        location = results or opened.info().location
    print_bench(output.console, result)
    output.console.print(f"Stored in {location}", soft_wrap=True)
    output.write_json(run_data(result))
    return EXIT_PARTIAL if result.failures else 0


def _opened(results: Path | None, store: str | None) -> AbstractContextManager[ResultStore]:
    if results is None:
        return ResultStore.open(store)
    if store is not None:
        raise click.UsageError("--results and --store exclude each other: name one file.")
    return written_results(results)

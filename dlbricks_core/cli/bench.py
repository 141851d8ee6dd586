"""``dlbricks bench``: times generated bricks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.report import print_bench, run_data
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import bench


@click.command("bench")
@click.argument("bricks", metavar="FOLDER", type=click.Path(path_type=Path))
@options.measure_options
@options.timeout_option
@options.timing_options
@options.store_option
@options.json_option
@options.quiet_options
def command(bricks: Path, store: str | None, **values: Any) -> int:
    """Time the bricks in FOLDER, which 'dlbricks generate' wrote."""
    output = Output(values)
    with output.progress() as progress, ResultStore.open(store) as opened:
        result = bench(bricks, options.request_of(values), opened, progress)
        location = opened.info().location
    print_bench(output.console, result)
    output.console.print(f"Stored in {location}", soft_wrap=True)
    output.write_json(run_data(result))
    return EXIT_PARTIAL if result.failures else 0

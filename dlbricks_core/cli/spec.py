"""``dlbricks spec``: writes a record of a run that others can repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.workflows.record import read_record


@click.command("spec")
@click.argument("results", metavar="RUN", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    default="-",
    help="Write the record to a file.  [default: standard output]",
)
@options.quiet_options
def command(results: Path, **values: Any) -> int:
    """Write a record of a run as one JSON object, from which others can repeat it.

    RUN is a JSON file that 'dlbricks run', 'estimate', 'evaluate' or 'compare' wrote. The record
    holds the models with their hashes and licences, the software, the hardware in the words of
    MLPerf, the protocol, and the results. 'dlbricks rerun' repeats it.
    """
    output = Output(values)
    output.write_json(read_record(results).to_dict())
    return 0

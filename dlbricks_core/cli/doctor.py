"""``dlbricks doctor``: is this machine ready to measure?"""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.machine.readiness import check_readiness
from dlbricks_core.machine.system import current_system, physical_cores_available
from dlbricks_core.report import print_readiness, readiness_data


@click.command("doctor")
@options.json_option
@options.quiet_options
def command(**values: Any) -> int:
    """Check whether this machine is ready to measure, and what to do about it."""
    output = Output(values)
    found = current_system(), check_readiness(), physical_cores_available()
    print_readiness(output.console, *found)
    output.write_json(readiness_data(*found))
    return 0

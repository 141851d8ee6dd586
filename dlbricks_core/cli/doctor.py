"""``dlbricks doctor``: is this machine ready to measure?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.machine.readiness import check_readiness
from dlbricks_core.machine.system import current_system, physical_cores_available
from dlbricks_core.report import SCHEMA_VERSION
from dlbricks_core.report.console import styled

_STYLES = {"ok": "green", "warn": "yellow", "unknown": "dim"}


@click.command("doctor")
@options.json_option
@options.quiet_options
def command(**values: Any) -> int:
    """Check whether this machine is ready to measure, and what to do about it."""
    output = Output(values)
    system = current_system()
    checks = check_readiness()
    output.console.print(styled((system.describe(), "bold")))
    output.console.print(
        f"System {system.fingerprint}; --threads defaults to {physical_cores_available()}"
    )
    output.console.print()
    for check in checks:
        output.console.print(
            styled(
                (f"{check.status:7}", _STYLES[check.status]),
                " ",
                (check.name, "bold"),
                f": {check.finding}",
            )
        )
        if check.advice:
            output.console.print(f"        -> {check.advice}")
    output.write_json(
        {
            "schema_version": SCHEMA_VERSION,
            "system": system.to_dict(),
            "threads": physical_cores_available(),
            "checks": [asdict(check) for check in checks],
        }
    )
    return 0

"""``dlbricks doctor``: is this machine ready to measure?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape

from dlbricks_core.cli import options
from dlbricks_core.cli.output import Output
from dlbricks_core.measure.readiness import check_readiness
from dlbricks_core.measure.system import current_system, physical_cores_available
from dlbricks_core.report import SCHEMA_VERSION

_MARKS = {"ok": "[green]ok[/]     ", "warn": "[yellow]warn[/]   ", "unknown": "[dim]unknown[/]"}


@click.command("doctor")
@options.json_option
@options.quiet_options
def command(**values: Any) -> int:
    """Check whether this machine is ready to measure, and what to do about it."""
    output = Output(values)
    system = current_system()
    checks = check_readiness()
    output.console.print(f"[bold]{escape(system.describe())}[/]")
    output.console.print(
        f"System {system.fingerprint}; --threads defaults to {physical_cores_available()}\n"
    )
    for check in checks:
        output.console.print(
            f"{_MARKS[check.status]} [bold]{escape(check.name)}[/]: {escape(check.finding)}"
        )
        if check.advice:
            output.console.print(f"        -> {escape(check.advice)}")
    output.write_json(
        {
            "schema_version": SCHEMA_VERSION,
            "system": system.to_dict(),
            "threads": physical_cores_available(),
            "checks": [asdict(check) for check in checks],
        }
    )
    return 0

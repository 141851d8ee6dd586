"""Whether a machine is ready to measure, for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dlbricks_core.facts import System
from dlbricks_core.machine.arithmetic import MULTIPLYING, multiplying
from dlbricks_core.machine.readiness import Check
from dlbricks_core.report.arithmetic import of_processor
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import SCHEMA_VERSION
from dlbricks_core.report.heading import count
from dlbricks_core.wording import argument

_STYLES = {"warn": "yellow", "unknown": "dim", "ok": "green"}
"""Style of each status, in display order."""


def print_readiness(
    console: Console, system: System, checks: Sequence[Check], threads: int
) -> None:
    """Prints whether the machine is ready, the advice, and all findings.

    Args:
        console: The console.
        system: The machine.
        checks: Findings about the machine.
        threads: Default number of threads of measurements.
    """
    found = {status: [each for each in checks if each.status == status] for status in _STYLES}
    console.print(styled((_answer(len(found["warn"]), len(found["unknown"])), "bold")))
    console.print(system.describe())
    console.print(f"System {system.fingerprint}; {argument('threads')} defaults to {threads}")
    for line in of_processor(system):
        console.print(line)
    console.print()
    for status, style in _STYLES.items():
        for check in found[status]:
            finding = f": {check.finding}"
            console.print(styled((f"{status:7}", style), " ", (check.name, "bold"), finding))
            if status == "warn":
                _print_advice(console, [check])
        if status == "unknown":
            _print_advice(console, found[status])


def _print_advice(console: Console, checks: Sequence[Check]) -> None:
    """Prints the advice of some checks; shared advice is printed once."""
    for advice in dict.fromkeys(check.advice for check in checks if check.advice):
        console.print(f"        -> {advice}")


def _answer(warnings: int, unknown: int) -> str:
    hidden = f"; {count(unknown, 'fact')} of the machine cannot be seen from here"
    end = f"{hidden if unknown else ''}."
    if warnings:
        return f"Not ready to measure: {count(warnings, 'warning')}{end}"
    return f"Ready to measure{end}"


def readiness_data(system: System, checks: Sequence[Check], threads: int) -> dict[str, Any]:
    """Readiness of a machine as the JSON object that scripts read."""
    return {
        "schema_version": SCHEMA_VERSION,
        "system": system.to_dict(),
        "threads": threads,
        "arithmetic": {dtype: multiplying(system, dtype) for dtype in MULTIPLYING},
        "checks": [asdict(check) for check in checks],
    }

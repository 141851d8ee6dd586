"""Options that commands share which put models under load: how they are read and refused."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.cli.spelling import option_of
from dlbricks_core.facts import LATENCY
from dlbricks_core.workflows.scenarios.run import Asked

_FOR_SCENARIOS = ("instances", "latency_bound", "duration_s")
"""Options that have no effect without a scenario."""

_NOT_FOR_SCENARIOS = ("prompt", "generate", "sweeps")
"""Options that request more than one model."""


def check_no_scenario(values: dict[str, Any]) -> None:
    """Refuses options that have no effect without a scenario."""
    for name in _FOR_SCENARIOS:
        if values[name] is not None:
            raise click.UsageError(f"{option_of(name)} needs --scenario.")


def one_number(threads: tuple[int, ...] | None) -> int | None:
    """The only number of threads; ``None`` for the default."""
    if threads is None:
        return None
    if len(threads) > 1:
        raise click.UsageError("Several numbers of --threads need --scenario.")
    return threads[0]


def asked_of(models: tuple[str, ...], scenario: str, values: dict[str, Any]) -> Asked:
    """The load that the options request. Refuses those that are not for loads."""
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    for name in _NOT_FOR_SCENARIOS:
        if values.get(name):
            raise click.UsageError(f"{option_of(name)} is not for --scenario.")
    if values["quantity"] != LATENCY.name:
        raise click.UsageError("--quantity is not for --scenario.")
    return Asked.of(
        scenario,
        instances=values["instances"],
        threads=values["threads"],
        bound_ms=values["latency_bound"],
        seconds=values["duration_s"],
        end_to_end=values["end_to_end"],
    )

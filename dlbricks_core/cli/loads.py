"""Options and report of the commands that put models under load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dlbricks_core import report as reports
from dlbricks_core.cli import given
from dlbricks_core.cli.kinds import COUNTS, DURATION, LATENCY_MS
from dlbricks_core.cli.options import group, time_option
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.cli.spelling import option_of
from dlbricks_core.facts import LATENCY
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.scenarios import LOAD_S, Scenario
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import LoadOptions, Observer, load_models

if TYPE_CHECKING:
    # Few commands put models under load, and all that have the options would import this.
    from dlbricks_core.report.scenarios.words import Told
    from dlbricks_core.workflows.scenarios.comparing import ComparedLoads
    from dlbricks_core.workflows.scenarios.run import Asked, UnderLoad

LoadsT = TypeVar("LoadsT", "UnderLoad", "ComparedLoads")

_FOR_SCENARIOS = ("instances", "latency_bound", "duration_s")
"""Options that have no effect without a scenario."""

_NOT_FOR_SCENARIOS = ("prompt", "generate", "sweeps", "condition")
"""Options that request more than one model, or that do not fit a load."""


pattern_options = group(
    click.option(
        "--scenario",
        type=click.Choice([each.value for each in Scenario]),
        help="Estimate throughput and tail latency under a load of MLPerf Inference, for "
        "n instances x m threads.",
    ),
    click.option(
        "--instances",
        type=COUNTS,
        metavar="LIST",
        help="Numbers of instances (1,2), with cores of their own.  [default: all that fit; above "
        "4 cores powers of two]",
    ),
    click.option(
        "--latency-bound",
        type=LATENCY_MS,
        metavar="TIME",
        help="Bound on the scenario's percentile of the latency (50ms).",
    ),
)
scenario_options = group(
    pattern_options,
    time_option(
        "--duration",
        "Time that each load takes with --end-to-end; MLPerf's rules ask for 10m.  "
        f"[default: {LOAD_S:g}s]",
        kind=DURATION,
    ),
)


def check_no_scenario(values: dict[str, Any]) -> None:
    """Refuses options that have no effect without a scenario."""
    for name in _FOR_SCENARIOS:
        if values.get(name) is not None:
            raise click.UsageError(f"{option_of(name)} needs --scenario.")


def one_number(threads: tuple[int, ...] | None) -> int | None:
    """The only number of threads; ``None`` for the default."""
    if threads is None:
        return None
    if len(threads) > 1:
        raise click.UsageError("Several numbers of --threads need --scenario.")
    return threads[0]


def asked_of(
    models: tuple[str, ...], scenario: str, values: dict[str, Any], cores: int | None = None
) -> Asked:
    """The load that the options request. Refuses those that are not for loads.

    Args:
        models: Names of models as typed by the user.
        scenario: Name of the scenario.
        values: Values of the options.
        cores: Number of cores of the system; ``None`` for this one.
    """
    if not models:
        raise click.UsageError("Name at least one MODEL.")
    for name in _NOT_FOR_SCENARIOS:
        if values.get(name):
            raise click.UsageError(f"{option_of(name)} is not for --scenario.")
    if values["quantity"] != LATENCY.name:
        raise click.UsageError("--quantity is not for --scenario.")
    from dlbricks_core.workflows.scenarios.run import Asked

    return Asked.of(
        scenario,
        instances=values["instances"],
        threads=values["threads"],
        bound_ms=values["latency_bound"],
        seconds=values.get("duration_s"),
        end_to_end=values.get("end_to_end") or False,
        cores=cores,
    )


def report(
    models: tuple[str, ...],
    store: str | None,
    values: dict[str, Any],
    ready: Callable[[ResultStore], Callable[[Sequence[CanonicalModel], Observer], LoadsT]],
    told: Callable[[LoadsT], Told],
    data: Callable[[LoadsT, LoadOptions], dict[str, Any]],
    *,
    writes: bool = True,
) -> int:
    """Reports figures of models under load.

    Args:
        models: Names of models as typed by the user.
        store: Path or URL of the store.
        values: Values of the options.
        ready: Function that checks the request against the store, before models are read, and
            returns the function that finds the figures.
        told: Function that gives the figures in words.
        data: Function that gives the figures as JSON.
        writes: Whether the store may be created and written to.

    Returns:
        The exit status.
    """
    from dlbricks_core.report.scenarios.terminal import print_scenario

    output = Output(values)
    load = given.load_options_of(values)
    with output.progress() as progress, ResultStore.open(store, writes=writes) as opened:
        work = ready(opened)
        loaded = load_models(models, load, progress, given.import_settings_of(values))
        result = work(loaded.models, progress)
    result = replace(result, unread=loaded.failures)
    shown = told(result)
    print_scenario(output.console, shown)
    output.write_record(lambda: data(result, load))
    output.write_html(lambda: reports.scenario_page(shown, load))
    return EXIT_PARTIAL if result.failures else 0

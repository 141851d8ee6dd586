"""``dlbricks fleet``: many hosts measure a suite together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import platformdirs

from dlbricks_core.cli import given, measuring, options
from dlbricks_core.cli.groups import Group
from dlbricks_core.cli.kinds import DURATION
from dlbricks_core.cli.output import EXIT_PARTIAL, Output
from dlbricks_core.cli.signals import Interrupted
from dlbricks_core.store import ResultStore
from dlbricks_fleet import extra
from dlbricks_fleet.report import fleet_data, print_fleet, print_fleet_run, run_data

_PORT = 8786

_scheduler_option = click.option(
    "--scheduler",
    required=True,
    metavar="ADDRESS",
    help=f"Address of the scheduler (tcp://host:{_PORT}).",
)


@click.group("fleet", cls=Group)
def command() -> None:
    """Time a suite on many hosts at once.

    One command starts the scheduler, one joins each host, and one times a suite on every kind of
    host. Whoever can reach the scheduler can run programs on the hosts: expose it only to hosts
    that you trust.
    """


@command.command("scheduler")
@click.option("--host", default="", metavar="ADDRESS", help="Address to listen at.  [default: all]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port to listen at; 0 for a free one.",
)
@options.time_option(
    "--silence",
    "Time after which a silent host counts as gone.",
    "60s",
)
@options.quiet_options
def scheduler_command(host: str, port: int, silence_s: float, **values: Any) -> int:
    """Start the scheduler that hosts join, and that runs go to. Ctrl-C ends it."""
    output = Output(values)
    number = extra.load("scheduler").serve(host, port, silence_s, output.errors.print)
    raise Interrupted(number)


@command.command("worker")
@_scheduler_option
@click.option(
    "--spool",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where this host keeps what it measures.  [default: a folder in the user's data folder]",
)
@click.option("--host", metavar="ADDRESS", help="Address of this host, where it has several.")
@options.time_option(
    "--patience",
    "How long to wait for a scheduler that does not answer.",
    "10m",
)
@options.quiet_options
def worker_command(
    scheduler: str, spool: Path | None, host: str | None, patience_s: float, **values: Any
) -> int:
    """Join this host to a fleet. It measures one share of a suite at a time. Ctrl-C ends it.

    Each share runs in a process of its own, which waits while another command of DLBricks
    measures on this machine.
    """
    output = Output(values)
    output.if_interrupted("What was measured is kept here; the same command joins again.")
    folder = spool or platformdirs.user_data_path("dlbricks") / "fleet"
    number = extra.load("worker").serve(
        scheduler, folder.absolute(), patience_s, output.errors.print, host
    )
    raise Interrupted(number)


@command.command("run")
@click.argument("bricks", metavar="SUITE", type=click.Path(path_type=Path))
@_scheduler_option
@measuring.measure_options
@options.timeout_option
@click.option("--retry-failed", is_flag=True, help="Repeat failed measurements.")
@options.time_option(
    "--wait",
    "How long to wait for the first host, and for a new one once all have left.",
    "60s",
)
@options.time_option(
    "--patience",
    "How long to wait for a scheduler that was lost.",
    "5m",
)
@options.time_option(
    "--deadline",
    "Longest time that a host may take for a share.  [default: ten times what is expected, "
    "and some minutes]",
    kind=DURATION,
)
@options.store_option
@options.json_option
@options.quiet_options
def run_command(bricks: Path, scheduler: str, store: str | None, **values: Any) -> int:
    """Time the SUITE on every kind of host of a fleet.

    'dlbricks generate' writes a SUITE. Hosts with the same hardware and settings share its bricks.
    The store here receives the results of all hosts. Exit status 3: something has no figure; it is
    named.
    """
    output = Output(values)
    output.if_interrupted("What was measured is kept on the hosts; run it again to go on.")
    running = extra.load("run")
    what = running.Command(
        bricks,
        scheduler,
        given.open_request_of(values),
        values["wait_s"],
        values["patience_s"],
        values["deadline_s"],
    )
    with output.progress() as progress, ResultStore.open(store) as opened:
        result = running.run(what, opened, progress)
        location = opened.info().location
    print_fleet_run(output.console, result)
    output.console.print(f"Stored in {location}", soft_wrap=True)
    output.write_json(run_data(result))
    return EXIT_PARTIAL if result.failures else 0


@command.command("status")
@_scheduler_option
@options.json_option
@options.quiet_options
def status_command(scheduler: str, **values: Any) -> int:
    """Show the hosts of a fleet, their activities, and the progress of runs."""
    output = Output(values)
    client = extra.load("client").FleetClient(scheduler)
    try:
        fleet = client.state()
    finally:
        client.close()
    print_fleet(output.console, fleet)
    output.write_json(fleet_data(fleet))
    return 0

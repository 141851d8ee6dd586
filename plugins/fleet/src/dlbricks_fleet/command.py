"""``dlbricks fleet``: many hosts measure a suite together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import platformdirs

from dlbricks_core.commands.options import given, shared
from dlbricks_core.commands.options.actions import Group
from dlbricks_core.commands.options.kinds import DURATION, TIME
from dlbricks_core.commands.options.output import EXIT_PARTIAL, Output
from dlbricks_core.commands.options.settings import CommandT, option
from dlbricks_core.commands.signals import Interrupted
from dlbricks_core.figures.protocols import TIMEOUT_S
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import release
from dlbricks_fleet import certificates as authority
from dlbricks_fleet import extra
from dlbricks_fleet.access import Access
from dlbricks_fleet.report import fleet_data, print_fleet, print_fleet_run, run_data

_PORT = 8786
"""Default port of Dask's schedulers."""

_scheduler_option = click.option(
    "--scheduler",
    required=True,
    metavar="ADDRESS",
    help=f"Address of the scheduler (tls://host:{_PORT}; tcp://localhost:{_PORT} without "
    "certificates).",
)

Function = TypeVar("Function", bound=Callable[..., Any])


def _time_option(
    flag: str,
    help_text: str,
    default: str | None = None,
    kind: Callable[[str], float] = TIME,
) -> Callable[[CommandT], CommandT]:
    """Option for a time. Its value, in seconds, has the flag's name with the suffix ``_s``."""
    return click.option(
        flag,
        f"{flag.lstrip('-')}_s",
        type=kind,
        metavar="TIME",
        default=default,
        show_default=default is not None,
        help=help_text,
    )


def _access_options(function: Function) -> Function:
    """Options for how the command reaches other members of the fleet."""
    for decorate in (
        click.option(
            "--insecure",
            is_flag=True,
            help="Talk to other machines in plain text, and to any program that answers or calls.",
        ),
        click.option(
            "--certificates",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
            metavar="FOLDER",
            help="This member's key and certificates, from 'dlbricks fleet certificates'.",
        ),
    ):
        function = decorate(function)
    return function


@click.group("fleet", cls=Group)
def command() -> None:
    """Time a suite on many hosts at once.

    One command starts the scheduler, one joins each host, and one times a suite on every kind of
    host. Beyond one machine, all of them need certificates, which another command makes.
    """


@command.command("certificates")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False))
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@shared.quiet_options
def certificates_command(folder: Path, hosts: tuple[str, ...], **values: Any) -> int:
    """Make the certificates of a fleet.

    FOLDER receives an authority, and a folder with a key and certificates for the scheduler, for
    the client, and for each HOST, which is a name of your choice. Copy each folder to its machine.
    Keep the authority's folder to yourself: its owner can add hosts. Certificates that exist stay
    as they are.
    """
    output = Output(values)
    for place in authority.make(folder, hosts):
        output.console.print(f"Made {place}", soft_wrap=True)
    return 0


@command.command("scheduler")
@click.option(
    "--host",
    default="",
    metavar="ADDRESS",
    help="Address to listen at.  [default: all with certificates, otherwise 127.0.0.1]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port to listen at; 0 for a free one.",
)
@_time_option(
    "--silence",
    "Time after which a silent host counts as gone.",
    "60s",
)
@_access_options
@shared.quiet_options
def scheduler_command(
    host: str,
    port: int,
    silence_s: float,
    certificates: Path | None,
    *,
    insecure: bool,
    **values: Any,
) -> int:
    """Start the scheduler that hosts join, and that runs go to. Ctrl-C ends it."""
    output = Output(values)
    access = Access(certificates, insecure)
    release()
    number = extra.load("scheduler").serve(host, port, silence_s, output.errors.print, access)
    raise Interrupted(number)


@command.command("worker")
@_scheduler_option
@click.option(
    "--spool",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for the measurements of this host.  [default: a folder in the user's data folder]",
)
@click.option(
    "--host", default="", metavar="ADDRESS", help="Address of this host, where it has several."
)
@_time_option(
    "--patience",
    "How long to wait for a scheduler that does not answer.",
    "10m",
)
@_access_options
@shared.quiet_options
def worker_command(
    scheduler: str,
    spool: Path | None,
    host: str,
    patience_s: float,
    certificates: Path | None,
    *,
    insecure: bool,
    **values: Any,
) -> int:
    """Join this host to a fleet. It measures one share of a suite at a time. Ctrl-C ends it.

    Each share runs in a process of its own, which waits while another command of DLBricks
    measures on this machine.
    """
    output = Output(values)
    output.if_interrupted("All measurements are kept here; the same command joins again.")
    folder = spool or platformdirs.user_data_path("dlbricks") / "fleet"
    access = Access(certificates, insecure)
    release()
    number = extra.load("worker").serve(
        scheduler, folder.absolute(), patience_s, output.errors.print, access, host
    )
    raise Interrupted(number)


@command.command("run")
@click.argument("bricks", metavar="SUITE", type=click.Path(path_type=Path))
@_scheduler_option
@shared.measure_options
@shared.timeout_option
@option("retry_failed")
@_time_option(
    "--wait",
    "How long to wait for the first host, and for a new one once all have left.",
    "60s",
)
@_time_option(
    "--patience",
    "How long to wait for a scheduler that was lost.",
    "5m",
)
@_time_option(
    "--deadline",
    "Longest time that a host may take for a share.  [default: ten times the expected time, "
    "and some minutes]",
    kind=DURATION,
)
@_access_options
@shared.store_option
@shared.json_option
@shared.table_options
def run_command(
    bricks: Path,
    scheduler: str,
    store: str | None,
    certificates: Path | None,
    *,
    insecure: bool,
    **values: Any,
) -> int:
    """Time the SUITE on every kind of host of a fleet.

    'dlbricks suite write' writes a SUITE. Hosts with the same hardware and settings share its
    bricks. The store here receives the results of all hosts. Exit status 3: something has no
    figure; it is named.
    """
    output = Output(values)
    output.if_interrupted("All measurements are kept on the hosts; run it again to go on.")
    running = extra.load("run")
    what = running.Command(
        bricks,
        scheduler,
        Access(certificates, insecure),
        # Hosts have the deadline of the client instead of their default.
        {"timeout_s": TIMEOUT_S, **given.open_request_of(values)},
        values["wait_s"],
        values["patience_s"],
        values["deadline_s"],
    )
    release()
    with output.progress() as progress, ResultStore.open(store) as opened:
        result = running.run(what, opened, progress)
        location = str(opened.place)
    print_fleet_run(output.console, result)
    output.console.print(f"Stored in {location}", soft_wrap=True)
    output.write_json(run_data(result))
    return EXIT_PARTIAL if result.failures else 0


@command.command("status")
@_scheduler_option
@_access_options
@shared.json_option
@shared.table_options
def status_command(
    scheduler: str, certificates: Path | None, *, insecure: bool, **values: Any
) -> int:
    """Show the hosts of a fleet, their activities, and the progress of runs."""
    output = Output(values)
    client = extra.load("client").FleetClient(scheduler, Access(certificates, insecure))
    try:
        fleet = client.state()
    finally:
        client.close()
    print_fleet(output.console, fleet)
    output.write_json(fleet_data(fleet))
    return 0

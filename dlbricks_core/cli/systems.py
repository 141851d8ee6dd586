"""``dlbricks systems``: the systems of a store, and their names."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.cli import options
from dlbricks_core.cli.groups import Group
from dlbricks_core.cli.output import Output
from dlbricks_core.report.systems import (
    named_data,
    print_named,
    print_system,
    print_systems,
    system_shown_data,
    systems_data,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.systems import find_machine, name_machine


@click.group("systems", cls=Group)
def command() -> None:
    """List the systems that were measured, and name them.

    A SYSTEM is a name, the start of a fingerprint, or, where several machines share a fingerprint,
    that with the start of a host: 71bf@09ad.
    """


@command.command("list")
@options.store_option
@options.json_option
@options.quiet_options
def list_command(store: str | None, **values: Any) -> int:
    """List the systems of a store.

    For each system: its hardware, and the number and dates of its measurements.
    """
    output = Output(values)
    with ResultStore.open(store, writes=False, create=False) as opened:
        inventory = opened.inventory()
    print_systems(output.console, inventory)
    output.write_json(systems_data(inventory))
    return 0


@command.command("show")
@click.argument("system", metavar="SYSTEM")
@options.store_option
@options.json_option
@options.quiet_options
def show_command(system: str, store: str | None, **values: Any) -> int:
    """Show all that a store knows of a system."""
    output = Output(values)
    with ResultStore.open(store, writes=False, create=False) as opened:
        machine = find_machine(opened, system)
        within = opened.within(machine)
        inventory, sessions = within.inventory(), within.sessions()
    print_system(output.console, machine, inventory, sessions)
    output.write_json(system_shown_data(machine, inventory, sessions))
    return 0


@command.command("name")
@click.argument("system", metavar="SYSTEM")
@click.argument("name", metavar="NAME")
@options.store_option
@options.json_option
@options.quiet_options
def name_command(system: str, name: str, store: str | None, **values: Any) -> int:
    """Give a system of a store a name.

    The option --system of other commands knows it by that NAME. The name travels with what was
    measured. Machines that are built alike share a fingerprint, and have names of their own. A
    machine keeps its name when it is restarted; in a container it needs the name again then.
    """
    output = Output(values)
    with ResultStore.open(store, create=False) as opened:
        machine = name_machine(opened, system, name)
    print_named(output.console, machine)
    output.write_json(named_data(machine))
    return 0

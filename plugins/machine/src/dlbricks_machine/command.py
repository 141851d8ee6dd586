"""``dlbricks machine``: its readiness, and the systems of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click
from dlbricks_records.contents import inventory

from dlbricks_core.backends import Backend
from dlbricks_core.commands.options import shared
from dlbricks_core.commands.options.actions import Concise
from dlbricks_core.commands.options.output import Output
from dlbricks_core.commands.options.systems import find_machine
from dlbricks_core.errors import DLBricksError
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure.request import usual_threads
from dlbricks_core.plugins import Plugin, attempt, discover
from dlbricks_core.preferences import preferences
from dlbricks_core.store import ResultStore
from dlbricks_machine import report
from dlbricks_machine.names import name_machine
from dlbricks_machine.rates import rates_of
from dlbricks_machine.readiness import Check, check_readiness


@click.command("doctor", cls=Concise)
@shared.json_option
@shared.quiet_options
def check_command(**values: Any) -> int:
    """Check whether this machine is ready to measure, with advice."""
    output = Output(values)
    checks = [*check_readiness(), *_builds()]
    found = current_system(), checks, usual_threads(), preferences()
    report.print_readiness(output.console, *found)
    output.write_json(report.readiness_data(*found))
    return 0


def _builds() -> Iterator[Check]:
    """A check for each framework that could be built for more of this processor."""
    for plugin in discover("backend", Backend):
        name = f"build of {plugin.name}"
        found = () if plugin.problem else attempt(plugin, partial(_advice, plugin))
        if isinstance(found, DLBricksError):
            yield Check(name, "unknown", found.message, found.hint)
            continue
        for advice in found:
            finding, _, cure = advice.partition(": ")
            yield Check(name, "warn", finding, cure)


def _advice(plugin: Plugin) -> Sequence[str]:
    found: Sequence[str] = plugin.loaded().advice()
    return found


@click.command("list", cls=Concise)
@shared.store_option
@shared.json_option
@shared.table_options
def list_command(store: str | None, **values: Any) -> int:
    """List the systems of a store.

    For each system: its hardware, and the number and dates of its measurements.
    """
    output = Output(values)
    with ResultStore.open(store, writes=False, create=False) as opened:
        known = inventory(opened)
    report.print_systems(output.console, known)
    output.write_json(report.systems_data(known))
    return 0


@click.command("show", cls=Concise)
@click.argument("system", metavar="SYSTEM")
@shared.store_option
@shared.json_option
@shared.table_options
def show_command(system: str, store: str | None, **values: Any) -> int:
    """Show all facts about a system in a store."""
    output = Output(values)
    with ResultStore.open(store, writes=False, create=False) as opened:
        machine = find_machine(opened, system)
        within = opened.within(machine)
        known, sessions = inventory(within), within.sessions()
        rates = rates_of(within, machine.system)
    report.print_system(output.console, machine, known, sessions, rates)
    output.write_json(report.system_shown_data(machine, known, sessions, rates))
    return 0


@click.command("name", cls=Concise)
@click.argument("system", metavar="SYSTEM")
@click.argument("name", metavar="NAME")
@shared.store_option
@shared.json_option
@shared.quiet_options
def name_command(system: str, name: str, store: str | None, **values: Any) -> int:
    """Give a system of a store a name.

    The option --system of other commands accepts this NAME. The name is exported with the
    measurements. Machines that are built alike share a fingerprint, and have names of their own. A
    machine keeps its name when it is restarted; a container has to be named again.
    """
    output = Output(values)
    with ResultStore.open(store, create=False) as opened:
        machine = name_machine(opened, system, name)
    report.print_named(output.console, machine)
    output.write_json(report.named_data(machine))
    return 0

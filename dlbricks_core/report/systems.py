"""Systems that were measured, as tables and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlbricks_core.facts import Machine, Session, System
from dlbricks_core.report.console import Console, lines, styled
from dlbricks_core.report.data import SCHEMA_VERSION, failures_data
from dlbricks_core.report.heading import count
from dlbricks_core.report.tables import table
from dlbricks_core.report.travelling import holding_data
from dlbricks_core.store import Holding, Inventory
from dlbricks_core.workflows.systems import reference


def print_systems(console: Console, inventory: Inventory) -> None:
    """Prints a row for each machine."""
    if not inventory.machines:
        console.print("The store knows no system: nothing was measured yet.")
        return
    shown = table("System", "Processor", "Cores", "Memory", "Networks", "Samples", "Last", left=2)
    for machine in inventory.machines:
        system, held = _system(inventory, machine), _held(inventory, machine)
        name = [reference(machine)] if machine.name else []
        shown.add_row(
            lines(*name, _fingerprint(machine)),
            system.cpu or "unknown",
            str(system.available_cores or "-"),
            _memory(system),
            f"{_networks(held):,}",
            f"{sum(each.samples for each in held):,}",
            _last(held)[:10] or "-",
        )
    console.print(shown)
    if unnamed := [each for each in inventory.machines if not each.name and not each.alone]:
        first = reference(unnamed[0])
        console.print(f"Several machines share a fingerprint. Tell them apart: name {first}.")


def print_system(
    console: Console, machine: Machine, inventory: Inventory, sessions: Sequence[Session]
) -> None:
    """Prints all facts about a machine."""
    system = _system(inventory, machine)
    console.print(styled((machine.name or machine.system, "bold"), f": {system.describe()}"))
    facts = table("Fact", "Value", left=2)
    for name, value in system.to_dict().items():
        if value not in (None, "", [], ()) and name != "caches":
            facts.add_row(name.replace("_", " "), _text(value))
    for each in system.caches:
        what = f"{each.size // 1024:,} KiB, shared by {count(each.shared_by, 'CPU')}"
        facts.add_row(f"L{each.level} {each.kind}", what)
    console.print(facts)
    held = table("Framework", "Threads", "Networks", "Samples", "Failed", "First", "Last")
    for holding in _held(inventory, machine):
        place = holding.place
        held.add_row(
            f"{place.backend} {place.version}",
            str(place.threads),
            *(f"{n:,}" for n in (len(holding.networks), holding.samples, holding.failures)),
            holding.first[:10] or "-",
            holding.last[:10] or "-",
        )
    console.print(held)
    own = _sessions(machine, sessions)
    hosts = count(len(machine.hosts - {""}), "host")
    console.print(styled((f"{count(len(own), 'session')}, {hosts}.", "dim")))


def print_named(console: Console, machine: Machine) -> None:
    """Prints that a machine has a name."""
    hosts = count(len(machine.hosts), "host")
    console.print(f"{machine.name} is the name of {hosts} of system {machine.system}.")


def systems_data(inventory: Inventory) -> dict[str, Any]:
    """Machines of a store, as the JSON object that scripts read."""
    return {
        "schema_version": SCHEMA_VERSION,
        "systems": [_listed(inventory, machine) for machine in inventory.machines],
        **failures_data([]),
    }


def system_shown_data(
    machine: Machine, inventory: Inventory, sessions: Sequence[Session]
) -> dict[str, Any]:
    """All that is known of a machine, as the JSON object that scripts read."""
    system = _system(inventory, machine).to_dict()
    return {
        "schema_version": SCHEMA_VERSION,
        **_listed(inventory, machine),
        "facts": {name: value for name, value in system.items() if name != "fingerprint"},
        "holdings": [holding_data(each) for each in _held(inventory, machine)],
        "sessions": [each.to_dict() for each in _sessions(machine, sessions)],
        **failures_data([]),
    }


def named_data(machine: Machine) -> dict[str, Any]:
    """A newly named machine, as a JSON object for scripts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "fingerprint": machine.system,
        "name": machine.name,
        "hosts": sorted(machine.hosts),
        **failures_data([]),
    }


def _listed(inventory: Inventory, machine: Machine) -> dict[str, Any]:
    system, held = _system(inventory, machine), _held(inventory, machine)
    return {
        "reference": reference(machine),
        "fingerprint": machine.system,
        "name": machine.name or None,
        "hosts": sorted(machine.hosts - {""}),
        "processor": system.cpu,
        "cores": system.available_cores,
        "memory_bytes": system.memory,
        "backends": sorted({each.place.backend for each in held}),
        "networks": _networks(held),
        "samples": sum(each.samples for each in held),
        "first": min((each.first for each in held if each.first), default=None),
        "last": _last(held) or None,
    }


def _system(inventory: Inventory, machine: Machine) -> System:
    return inventory.systems.get(machine.system) or System.from_dict(machine.system, {})


def _held(inventory: Inventory, machine: Machine) -> list[Holding]:
    """Holdings of the store for a machine, or for all machines of a system."""
    return [
        each
        for each in inventory.holdings
        if each.place.system == machine.system
        and (machine.alone or each.place.machine == machine.name)
    ]


def _sessions(machine: Machine, sessions: Sequence[Session]) -> list[Session]:
    return [s for s in sessions if s.system == machine.system and s.host in machine.hosts]


def _networks(held: Sequence[Holding]) -> int:
    return len(frozenset[str]().union(*(each.networks for each in held)))


def _last(held: Sequence[Holding]) -> str:
    return max((each.last for each in held), default="")


def _fingerprint(machine: Machine) -> str:
    """Beginning of the fingerprint, with a host where only that distinguishes machines."""
    return machine.system[:8] if machine.name else reference(machine)


def _memory(system: System) -> str:
    return f"{system.memory / 2**30:.1f} GiB" if system.memory else "-"


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

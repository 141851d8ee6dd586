"""Readiness of this machine, and systems of a store, as tables and plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Literal, TypedDict, cast

from dlbricks_records.contents import Inventory
from dlbricks_records.holdings import HoldingData, holding_data
from rich.table import Table

from dlbricks_core.facts import Machine, Session, Setup, System
from dlbricks_core.machine.speed import MULTIPLYING, multiplying
from dlbricks_core.preferences import NAMES, Preference, preferences_file, variable
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import text
from dlbricks_core.report.remarks import processor_notes
from dlbricks_core.report.tables import Console, lines, styled, table
from dlbricks_core.sanitize import without_secrets
from dlbricks_core.wording import argument, count
from dlbricks_machine.rates import MachineRate
from dlbricks_machine.readiness import Check


class MachineCheckData(common.WrittenData):
    """Output of ``dlbricks machine check``."""

    system: common.SystemData  #: This machine.
    threads: int  #: Default number of threads.
    preferences: list[PreferenceData]  #: Defaults that the user has set.
    #: Instruction sets that multiply numbers of an element type, by the type: none if the processor
    #: converts them; null if its instruction sets are not known.
    arithmetic: dict[str, list[str] | None]
    checks: list[ReadinessCheckData]  #: The checks.


class PreferenceData(TypedDict):
    """A default that the user has set."""

    name: str  #: Name of the option.
    value: str  #: Its value, without passwords.
    origin: str  #: The environment variable or the file that it comes from.


class ReadinessCheckData(TypedDict):
    """One thing that doctor looks at."""

    name: str  #: Subject of the check.
    status: Literal["ok", "warn", "unknown"]  #: Result.
    finding: str  #: Finding.
    advice: str  #: Remedy; empty if ok.


#: Style of each status, in display order.
_STYLES = {"warn": "yellow", "unknown": "dim", "ok": "green"}


def print_readiness(
    console: Console,
    system: System,
    checks: Sequence[Check],
    threads: int,
    preferences: Sequence[Preference],
) -> None:
    """Prints whether the machine is ready, the advice, and all findings."""
    found = {status: [each for each in checks if each.status == status] for status in _STYLES}
    console.print(styled((_answer(len(found["warn"]), len(found["unknown"])), "bold")))
    console.print(system.describe())
    console.print(f"System {system.fingerprint}; {argument('threads')} defaults to {threads}")
    console.print(_preferred(preferences))
    for note in processor_notes(system):
        console.print(text(note))
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


def _preferred(preferences: Sequence[Preference]) -> str:
    """Line on the preferences and where each was read, or where they would be."""
    if preferences:
        read = (f"{each.name} {each.value} ({each.origin})" for each in preferences)
        return without_secrets(f"Preferences: {', '.join(read)}")
    variables = ", ".join(map(variable, NAMES))
    return f"No preferences: no file {preferences_file()}, and none of {variables} is set"


def _answer(warnings: int, unknown: int) -> str:
    hidden = f"; {count(unknown, 'fact')} of the machine cannot be seen from here"
    end = f"{hidden if unknown else ''}."
    if warnings:
        return f"Not ready to measure: {count(warnings, 'warning')}{end}"
    return f"Ready to measure{end}"


def readiness_data(
    system: System, checks: Sequence[Check], threads: int, preferences: Sequence[Preference]
) -> MachineCheckData:
    """Readiness of a machine as the JSON object that scripts read."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "system": cast("common.SystemData", system.to_dict()),
        "threads": threads,
        "preferences": [
            {"name": each.name, "value": without_secrets(str(each.value)), "origin": each.origin}
            for each in preferences
        ],
        "arithmetic": {
            dtype: None if (sets := multiplying(system, dtype)) is None else list(sets)
            for dtype in MULTIPLYING
        },
        "checks": [cast("ReadinessCheckData", asdict(check)) for check in checks],
    }


class MachineListData(common.ListedFailuresData):
    """Output of ``dlbricks machine list``."""

    systems: list[ListedSystemData]  #: Machines, by fingerprint and name.


class ListedSystemData(TypedDict):
    """A machine of a store."""

    reference: str  #: Shortest text that names this machine in commands.
    fingerprint: str  #: Fingerprint of the system; equal machines share it.
    name: str | None  #: Name that its owner gave it.
    #: Hashes that separate machines of one fingerprint; a restarted machine has several in
    #: containers.
    hosts: list[str]
    processor: str  #: Name of the processor.
    cores: int  #: Physical cores that may be used; 0 if unknown.
    memory_bytes: int  #: Memory; 0 if unknown.
    backends: list[str]  #: Names of the backends that were measured.
    networks: int  #: Different bricks and models that were measured.
    samples: int  #: Samples in all observations.
    first: str | None  #: Time of the first observation, as ISO 8601.
    last: str | None  #: Time of the last observation.


class MachineShowData(ListedSystemData, common.ListedFailuresData):
    """Output of ``dlbricks machine show``."""

    facts: common.SystemFactsData  #: All facts about the system.
    holdings: list[HoldingData]  #: Its measurements.
    sessions: list[SessionData]  #: Its sessions, oldest first.
    rates: list[SystemRatesData]  #: What it does in a second, by framework and threads.


class SystemRatesData(TypedDict):
    """Work of a machine in a second inside a framework."""

    backend: str  #: Name of the backend.
    version: str  #: Version of its framework.
    options: str  #: Options of the backend.
    threads: int  #: Threads that compute one operator.
    rates: list[MachineRate]  #: The rates.


class SessionData(TypedDict):
    """A run of DLBricks that measured."""

    id: str  #: Unique text.
    host: str  #: Hash that separates machines of one fingerprint.
    system: str  #: Fingerprint of the system.
    version: str  #: Version of DLBricks.
    started_at: str  #: Start, as ISO 8601.
    load: float | None  #: Share of the processors' time that others used meanwhile.
    pulse_ms: float | None  #: Milliseconds of a fixed piece of work, the median over the session.
    pulse_spread: float | None  #: Standard deviation of its logarithm within the session.


class MachineNameData(common.ListedFailuresData):
    """Output of ``dlbricks machine name``."""

    fingerprint: str  #: Fingerprint of the system.
    name: str  #: Its name from now on.
    hosts: list[str]  #: Hosts that have the name; empty text for samples whose host is not known.


def print_systems(console: Console, inventory: Inventory) -> None:
    """Prints a row for each machine."""
    if not inventory.machines:
        console.print("The store has no system: nothing was measured yet.")
        return
    shown = table("System", "Processor", "Cores", "Memory", "Networks", "Samples", "Last", left=2)
    for machine in inventory.machines:
        row = _listed(inventory, machine)
        shown.add_row(
            lines(row["reference"], *([machine.system[:8]] if machine.name else [])),
            row["processor"] or "unknown",
            str(row["cores"] or "-"),
            f"{row['memory_bytes'] / 2**30:.1f} GiB" if row["memory_bytes"] else "-",
            *(f"{number:,}" for number in (row["networks"], row["samples"])),
            (row["last"] or "-")[:10],
        )
    console.print(shown)
    if unnamed := [each for each in inventory.machines if not each.name and not each.alone]:
        first = unnamed[0].reference
        console.print(f"Several machines share a fingerprint. To separate them, name {first}.")


def print_system(
    console: Console,
    machine: Machine,
    inventory: Inventory,
    sessions: Sequence[Session],
    rates: Mapping[Setup, Sequence[MachineRate]],
) -> None:
    """Prints all facts about a machine."""
    system = _system(inventory, machine)
    console.print(styled((machine.name or machine.system, "bold"), f": {system.describe()}"))
    facts = table("Fact", "Value", left=2)
    for name, value in system.to_dict().items():
        if value not in (None, "", [], ()) and name != "caches":
            facts.add_row(name.replace("_", " "), _fact(name, value))
    for each in system.caches:
        what = f"{each.size // 1024:,} KiB, shared by {count(each.shared_by, 'CPU')}"
        facts.add_row(f"L{each.level} {each.kind}", what)
    console.print(facts)
    held = table("Framework", "Threads", "Networks", "Samples", "Failed", "First", "Last")
    for holding in inventory.held_by(machine):
        place = holding.place
        held.add_row(
            f"{place.backend} {place.version}",
            str(place.threads),
            *(f"{n:,}" for n in (len(holding.networks), holding.samples, holding.failures)),
            holding.first[:10] or "-",
            holding.last[:10] or "-",
        )
    console.print(held)
    if rates:
        console.print(_rates(rates))
    own = _sessions(machine, sessions)
    hosts = count(len(machine.hosts - {""}), "host")
    console.print(styled((f"{count(len(own), 'session')}, {hosts}.", "dim")))


def _fact(name: str, value: object) -> str:
    """Text of one fact; amounts of memory are in GiB."""
    if name.startswith("memory") and isinstance(value, int):
        return f"{value / 2**30:.1f} GiB"
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _rates(rates: Mapping[Setup, Sequence[MachineRate]]) -> Table:
    """Table of rates, with a column for each setup."""
    heads = [f"{setup.backend}, {count(setup.threads, 'thread')}" for setup in rates]
    shown = table("What it does", "Unit", *heads, left=2)
    every = [{each.name: each for each in own} for own in rates.values()]
    units = {each.name: each.unit for own in rates.values() for each in own}
    for name, unit in units.items():
        shown.add_row(
            name, unit, *(f"{own[name].value:.3g}" if name in own else "-" for own in every)
        )
    return shown


def print_named(console: Console, machine: Machine) -> None:
    """Prints that a machine has a name."""
    hosts = count(len(machine.hosts), "host")
    console.print(f"{machine.name} is the name of {hosts} of system {machine.system}.")


def systems_data(inventory: Inventory) -> MachineListData:
    """Machines of a store, as the JSON object that scripts read."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "systems": [_listed(inventory, machine) for machine in inventory.machines],
        "failures": common.failures_data([]),
    }


def system_shown_data(
    machine: Machine,
    inventory: Inventory,
    sessions: Sequence[Session],
    rates: Mapping[Setup, Sequence[MachineRate]],
) -> MachineShowData:
    """All that is known of a machine, as the JSON object that scripts read."""
    facts = _system(inventory, machine).to_dict()
    del facts["fingerprint"]
    return {
        "schema_version": common.SCHEMA_VERSION,
        **_listed(inventory, machine),
        "facts": cast("common.SystemFactsData", facts),
        "holdings": [holding_data(each) for each in inventory.held_by(machine)],
        "sessions": [cast("SessionData", each.to_dict()) for each in _sessions(machine, sessions)],
        "rates": [_rates_data(setup, own) for setup, own in rates.items()],
        "failures": common.failures_data([]),
    }


def _rates_data(setup: Setup, rates: Sequence[MachineRate]) -> SystemRatesData:
    return {
        "backend": setup.backend,
        "version": setup.version,
        "options": setup.options,
        "threads": setup.threads,
        "rates": list(map(common.plain, rates)),
    }


def named_data(machine: Machine) -> MachineNameData:
    """A newly named machine, as a JSON object for scripts."""
    return {
        "schema_version": common.SCHEMA_VERSION,
        "fingerprint": machine.system,
        "name": machine.name,
        "hosts": sorted(machine.hosts),
        "failures": common.failures_data([]),
    }


def _listed(inventory: Inventory, machine: Machine) -> ListedSystemData:
    system, held = _system(inventory, machine), inventory.held_by(machine)
    return {
        "reference": machine.reference,
        "fingerprint": machine.system,
        "name": machine.name or None,
        "hosts": sorted(machine.hosts - {""}),
        "processor": system.cpu,
        "cores": system.available_cores,
        "memory_bytes": system.memory,
        "backends": sorted({each.place.backend for each in held}),
        "networks": len(frozenset[str]().union(*(each.networks for each in held))),
        "samples": sum(each.samples for each in held),
        "first": min((each.first for each in held if each.first), default=None),
        "last": max((each.last for each in held if each.last), default=None),
    }


def _system(inventory: Inventory, machine: Machine) -> System:
    return inventory.systems.get(machine.system) or System.from_dict(machine.system, {})


def _sessions(machine: Machine, sessions: Sequence[Session]) -> list[Session]:
    return [s for s in sessions if s.system == machine.system and s.host in machine.hosts]

"""Inventory of a store in numbers: machines, setups, samples and dates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import Connection, Table, func, select

from dlbricks_core.facts import Machine, Question, System
from dlbricks_core.store import ResultStore
from dlbricks_core.store.opened import again_when_lost
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import HEAD, calibrations, networks, rewrites
from dlbricks_core.store.store import machines_of


@dataclass(frozen=True, order=True)
class HoldingKey:
    """System, backend and threads of measured networks.

    Attributes:
        system: Fingerprint of the system.
        machine: Name of the machine; empty if it has none.
        backend: Name of the backend.
        version: Version of its framework.
        threads: Number of threads that compute one operator.
    """

    system: str
    machine: str
    backend: str
    version: str
    threads: int


@dataclass
class Holding:
    """Holdings of a store for one place.

    Attributes:
        place: System, backend and threads of the measurements.
        networks: Signatures of bricks and models that were measured.
        failures: Number of measurements that failed.
        observations: Number of observations.
        samples: Number of values in all observations.
        first: Time of the first observation, as ISO 8601; empty if there is none.
        last: Time of the last observation.
    """

    place: HoldingKey
    networks: set[str] = field(default_factory=set)
    failures: int = 0
    observations: int = 0
    samples: int = 0
    first: str = ""
    last: str = ""

    def take(self, taken_at: str, samples: int) -> None:
        """Counts an observation."""
        self.observations += 1
        self.samples += samples
        self.first = min(self.first or taken_at, taken_at)
        self.last = max(self.last, taken_at)


@dataclass(frozen=True)
class Inventory:
    """Inventory of a store.

    Attributes:
        schema: Version of the tables.
        versions: Versions of DLBricks that measured, as far as they are known.
        systems: Systems by fingerprint.
        machines: Machines that measured.
        holdings: Holdings for each place, by machine.
        sessions: Number of sessions.
        networks: Number of networks whose features are kept.
        calibrations: Number of calibrations.
        rewrites: Number of graphs that backends made of models.
    """

    schema: str
    versions: tuple[str, ...]
    systems: Mapping[str, System]
    machines: tuple[Machine, ...]
    holdings: tuple[Holding, ...]
    sessions: int
    networks: int
    calibrations: int
    rewrites: int

    def held_by(self, machine: Machine) -> list[Holding]:
        """Holdings for a machine, or for all machines of a system."""
        own = self._of_system.get(machine.system, [])
        return [each for each in own if machine.alone or each.place.machine == machine.name]

    @cached_property
    def _of_system(self) -> Mapping[str, list[Holding]]:
        found = defaultdict[str, list[Holding]](list)
        for each in self.holdings:
            found[each.place.system].append(each)
        return found


@again_when_lost
def inventory(store: ResultStore) -> Inventory:
    """Inventory of a store, by machine and setup."""
    with store.reading() as connection, Reader(connection, store.place) as reader:
        return _counted(connection, reader)


def _counted(connection: Connection, reader: Reader) -> Inventory:
    machines = machines_of(connection, reader)
    recorded = reader.sessions()
    return Inventory(
        schema=HEAD,
        versions=tuple(sorted({session.version for session in recorded})),
        systems={name: System.from_dict(name, each) for name, each in reader.systems().items()},
        machines=tuple(machines),
        holdings=tuple(_holdings(reader, machines)),
        sessions=len(recorded),
        networks=_count(connection, networks),
        calibrations=_count(connection, calibrations),
        rewrites=_count(connection, rewrites),
    )


def _holdings(reader: Reader, machines: Iterable[Machine]) -> list[Holding]:
    """Holdings for each place, by machine.

    A failure without observations names no machine. It counts for the only machine of its system.
    """
    names = {(each.system, host): each.name for each in machines for host in each.hosts}
    only = {each.system: each.name for each in machines if each.alone}
    holdings: dict[HoldingKey, Holding] = {}

    def holding(question: Question, machine: str) -> Holding:
        setup = question.setup
        place = HoldingKey(question.system, machine, setup.backend, setup.version, setup.threads)
        found = holdings.setdefault(place, Holding(place))
        found.networks.add(question.subject.signature)
        return found

    asked = reader.asked()
    hosts = {session.id: session.host for session in reader.sessions()}
    for identifier, session, taken_at, samples in reader.sizes():
        if identifier in asked:
            question = asked[identifier].question
            machine = names.get((question.system, hosts.get(session, "")), "")
            holding(question, machine).take(taken_at, samples)
    for each in asked.values():
        if each.failure is not None:
            holding(each.question, only.get(each.question.system, "")).failures += 1
    return sorted(holdings.values(), key=lambda each: each.place)


def _count(connection: Connection, table: Table) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0

"""Descriptions behind measurements: systems, sessions, machines, and features of networks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, true

from dlbricks_core.facts import (
    Calibration,
    CalibrationKey,
    Machine,
    MachineName,
    NetworkFeatures,
    Pulse,
    Question,
    Rewrite,
    Session,
    Setup,
    System,
)
from dlbricks_core.store.merging import Merger, keep_calibration, network_row, rewrite_row
from dlbricks_core.store.opened import OpenStore, again_when_lost
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import (
    HEAD,
    calibrations,
    measurements,
    networks,
    observations,
    rewrites,
    sessions,
    systems,
)
from dlbricks_core.store.selection import all_equal, batches, is_key, readable

# Inventory of a store in numbers: machines, setups, samples and dates.


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


def inventory_of(connection: Connection, reader: Reader) -> Inventory:
    """Counts the records of a store."""
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


def machines_of(connection: Connection, reader: Reader) -> list[Machine]:
    """Machines of every system: one machine for each name, and one for all hosts without a name."""
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for session in reader.sessions():
        hosts[session.system].add(session.host)
    unrecorded = select(measurements.c.system).join(observations)
    unrecorded = unrecorded.where(observations.c.session.not_in(select(sessions.c.id)))
    for system in filter(_is_text, connection.scalars(unrecorded.distinct())):
        hosts[system].add("")
    measured = connection.scalars(select(measurements.c.system).distinct())
    for system in (*reader.systems(), *filter(_is_text, measured)):
        hosts[system] = hosts[system] or {""}
    names = {(each.system, each.host): each.name for each in reader.machines()}
    for system, host in names:
        hosts[system].add(host)
    found = []
    for system, every in sorted(hosts.items()):
        named: defaultdict[str, set[str]] = defaultdict(set)
        for host in every:
            named[names.get((system, host), "")].add(host)
        found += [
            Machine(system, name, frozenset(own), alone=len(named) == 1)
            for name, own in sorted(named.items())
        ]
    return found


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


def _is_text(value: object) -> bool:
    return readable([value])


def _count(connection: Connection, table: Table) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


# Derived records: calibrations of composers, and graphs that backends make of models.


class DerivedStore(OpenStore):
    """The part of a store with derived records: calibrations and rewritten graphs."""

    @again_when_lost
    def keep_calibration(self, calibration: Calibration) -> None:
        """Keeps a calibration, in place of an earlier one with the same key."""
        with self._writing() as connection:
            keep_calibration(connection, calibration)

    @again_when_lost
    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """Calibration of this key; ``None`` if there is none."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.calibrations_of([key]).get(key)

    @again_when_lost
    def forget_calibration(self, key: CalibrationKey) -> bool:
        """Removes the calibration of this key.

        Returns:
            Whether there was one.
        """
        with self._writing() as connection:
            same = calibrations.c.key == key.text
            return bool(connection.execute(delete(calibrations).where(same)).rowcount)

    @again_when_lost
    def keep_rewrite(self, signature: str, setup: Setup, system: str, graph: bytes) -> None:
        """Stores the graph that a backend makes of a model; it replaces an earlier graph.

        Args:
            signature: Signature of the whole model.
            setup: How the model would run; its protocol makes no difference.
            system: Fingerprint of the system that the backend ran on; frameworks choose layouts
                by the processor.
            graph: Serialized graph. The store compresses it.
        """
        key = _rewrite_key(signature, setup, system)
        with self._writing() as connection:
            connection.execute(delete(rewrites).where(all_equal(rewrites, key)))
            connection.execute(insert(rewrites), rewrite_row(Rewrite(**key, graph=graph)))

    @again_when_lost
    def rewrite(self, signature: str, setup: Setup, system: str) -> bytes | None:
        """Serialized graph that :meth:`keep_rewrite` got for the same; ``None`` if it got none."""
        key = _rewrite_key(signature, setup, system)
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return next((each.graph for each in reader.rewrites(all_equal(rewrites, key))), None)

    @again_when_lost
    def rewritten(self) -> list[tuple[str, Setup, str]]:
        """Arguments of :meth:`rewrite` for every graph that is kept; the protocol is empty."""
        names = [each.name for each in fields(Setup) if each.name != "protocol"]
        columns = [rewrites.c[name] for name in names]
        query = select(rewrites.c.signature, rewrites.c.system, *columns)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(*rewrites.primary_key)).all()
        return [
            (row.signature, Setup(**{n: row._mapping[n] for n in names}, protocol=""), row.system)
            for row in rows
            if is_key(row._asdict())
        ]


def _rewrite_key(signature: str, setup: Setup, system: str) -> dict[str, Any]:
    """Values of the key columns of a rewritten graph."""
    key = {"signature": signature, **asdict(setup), "system": system}
    del key["protocol"]
    return key


class Described(OpenStore):
    """The part of a store that describes the systems, sessions and networks of measurements."""

    @again_when_lost
    def remember_system(self, fingerprint: str, facts: Mapping[str, Any]) -> None:
        """Stores facts about a system; they replace earlier facts."""
        with self._writing() as connection:
            connection.execute(delete(systems).where(systems.c.fingerprint == fingerprint))
            connection.execute(insert(systems), {"fingerprint": fingerprint, "facts": dict(facts)})

    @again_when_lost
    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.systems()

    @again_when_lost
    def keep_session(self, session: Session) -> None:
        """Keeps a session, in place of an earlier record with the same id."""
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session.id))
            connection.execute(insert(sessions), session.to_dict())

    @again_when_lost
    def sessions(self) -> list[Session]:
        """Sessions, oldest first; DLBricks did not record them before version 0004 of the store."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.sessions()

    @again_when_lost
    def pulses(self, host: str, *, without: str) -> list[Pulse]:
        """Pulse of each session on a machine that no other program disturbed.

        Args:
            host: Hash of the machine, as sessions name it.
            without: Identifier of a session that does not count.
        """
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.pulses(host, without=without)

    @again_when_lost
    def machines(self) -> list[Machine]:
        """Machines that measured, by fingerprint and name."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return machines_of(connection, reader)

    @again_when_lost
    def name_machine(self, machine: Machine, name: str) -> None:
        """Names a machine; the name replaces an earlier name."""
        named = [MachineName(machine.system, host, name) for host in sorted(machine.hosts)]
        with self._writing() as connection:
            Merger(connection, self.place).add(named)

    @again_when_lost
    def keep_networks(self, described: Iterable[NetworkFeatures]) -> None:
        """Stores features of networks, which replace features of other versions; groups add up."""
        new = {each.signature: each for each in described}
        with self._writing() as connection, Reader(connection, self.place) as reader:
            for signatures in batches(new):
                same = networks.c.signature.in_(signatures)
                known = reader.networks(same)
                connection.execute(delete(networks).where(same))
                connection.execute(
                    insert(networks),
                    [
                        network_row(replace(new[s], groups=new[s].groups | known[s].groups))
                        if s in known
                        else network_row(new[s])
                        for s in signatures
                    ],
                )

    @again_when_lost
    def networks(
        self, version: str | None, signatures: Iterable[str] | None = None
    ) -> dict[str, NetworkFeatures]:
        """Features of networks, by signature.

        Args:
            version: Version of the features; others are left out. ``None`` for any.
            signatures: Requested networks; ``None`` for all.
        """
        condition = true() if version is None else networks.c.version == version
        with self._reading() as connection, Reader(connection, self.place) as reader:
            if signatures is None:
                return reader.networks(condition)
            found: dict[str, NetworkFeatures] = {}
            for each in batches(signatures):
                found |= reader.networks(condition & networks.c.signature.in_(each))
            return found

    @again_when_lost
    def model_names(self) -> dict[str, str]:
        """Names of whole models by signature, from calibrations."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.model_names()

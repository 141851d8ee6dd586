"""The result store: all measurements, each committed at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import asdict, fields, replace
from typing import Any, Self

from sqlalchemy import Connection, delete, insert, select, true

from dlbricks_core.facts import (
    Calibration,
    CalibrationKey,
    Machine,
    MachineName,
    NetworkFeatures,
    Pulse,
    Rewrite,
    Session,
    Setup,
)
from dlbricks_core.store.measured import MeasurementStore
from dlbricks_core.store.opened import OpenStore, again_when_lost
from dlbricks_core.store.questions import all_equal, batches, is_key, measured_by_no_other, readable
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import (
    calibrations,
    machines,
    measurements,
    networks,
    observations,
    rewrites,
    sessions,
    systems,
)
from dlbricks_core.store.written import keep_calibration, network_row, rewrite_row


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


def _is_text(value: object) -> bool:
    return readable([value])


# Derived records: calibrations of composers, and graphs that backends make of models.


class DerivedStore(OpenStore):
    """The part of a store with derived records: calibrations and rewritten graphs."""

    @again_when_lost
    def keep_calibration(self, calibration: Calibration) -> None:
        """Keeps a calibration, in place of an earlier one with the same key."""
        with self.writing() as connection:
            keep_calibration(connection, calibration)

    @again_when_lost
    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """Calibration of this key; ``None`` if there is none."""
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return reader.calibrations_of([key]).get(key)

    @again_when_lost
    def forget_calibration(self, key: CalibrationKey) -> bool:
        """Removes the calibration of this key.

        Returns:
            Whether there was one.
        """
        with self.writing() as connection:
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
        with self.writing() as connection:
            connection.execute(delete(rewrites).where(all_equal(rewrites, key)))
            connection.execute(insert(rewrites), rewrite_row(Rewrite(**key, graph=graph)))

    @again_when_lost
    def rewrite(self, signature: str, setup: Setup, system: str) -> bytes | None:
        """Serialized graph that :meth:`keep_rewrite` got for the same; ``None`` if it got none."""
        key = _rewrite_key(signature, setup, system)
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return next((each.graph for each in reader.rewrites(all_equal(rewrites, key))), None)

    @again_when_lost
    def rewritten(self) -> list[tuple[str, Setup, str]]:
        """Arguments of :meth:`rewrite` for every graph that is kept; the protocol is empty."""
        names = [each.name for each in fields(Setup) if each.name != "protocol"]
        columns = [rewrites.c[name] for name in names]
        query = select(rewrites.c.signature, rewrites.c.system, *columns)
        with self.reading() as connection:
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
        with self.writing() as connection:
            connection.execute(delete(systems).where(systems.c.fingerprint == fingerprint))
            connection.execute(insert(systems), {"fingerprint": fingerprint, "facts": dict(facts)})

    @again_when_lost
    def systems(self) -> dict[str, dict[str, Any]]:
        """Facts about every system, by fingerprint."""
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return reader.systems()

    @again_when_lost
    def keep_session(self, session: Session) -> None:
        """Keeps a session, in place of an earlier record with the same id."""
        with self.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session.id))
            connection.execute(insert(sessions), session.to_dict())

    @again_when_lost
    def sessions(self) -> list[Session]:
        """Sessions, oldest first; DLBricks did not record them before version 0004 of the store."""
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return reader.sessions()

    @again_when_lost
    def pulses(self, host: str, *, without: str) -> list[Pulse]:
        """Pulse of each session on a machine that no other program disturbed.

        Args:
            host: Hash of the machine, as sessions name it.
            without: Identifier of a session that does not count.
        """
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return reader.pulses(host, without=without)

    @again_when_lost
    def machines(self) -> list[Machine]:
        """Machines that measured, by fingerprint and name."""
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return machines_of(connection, reader)

    @again_when_lost
    def name_machine(self, machine: Machine, name: str) -> None:
        """Names a machine; the name replaces an earlier name."""
        named = [MachineName(machine.system, host, name) for host in sorted(machine.hosts)]
        same = (machines.c.system == machine.system) & machines.c.host.in_(machine.hosts)
        with self.writing() as connection:
            connection.execute(delete(machines).where(same))
            connection.execute(insert(machines), [each.to_dict() for each in named])

    @again_when_lost
    def keep_networks(self, described: Iterable[NetworkFeatures]) -> None:
        """Stores features of networks, which replace features of other versions; groups add up."""
        new = {each.signature: each for each in described}
        with self.writing() as connection, Reader(connection, self.place) as reader:
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
        with self.reading() as connection, Reader(connection, self.place) as reader:
            if signatures is None:
                return reader.networks(condition)
            found: dict[str, NetworkFeatures] = {}
            for each in batches(signatures):
                found |= reader.networks(condition & networks.c.signature.in_(each))
            return found

    @again_when_lost
    def model_names(self) -> dict[str, str]:
        """Names of whole models by signature, from calibrations."""
        with self.reading() as connection, Reader(connection, self.place) as reader:
            return reader.model_names()


class ResultStore(MeasurementStore, Described, DerivedStore):
    """Results of all runs on one or many systems, in a SQLite file or a PostgreSQL database.

    Every change is committed before its method returns, so that a killed process loses only its
    current measurement. Several processes can write to one store. Where a row is damaged, it is
    left out, and a warning names it. If a server is lost, methods wait for it, and repeat changes
    that it has not kept.

    Args:
        place: Where the store is kept.
        writes: Whether results will be added.

    Attributes:
        place: Where the store is kept. Its text, for people, holds no password.
        only: Machine without whose equals the store is seen; ``None`` for all of them.

    Example:
        >>> with ResultStore.open("results.db") as store:  # doctest: +SKIP
        ...     store.add_samples(question, Observation(session, 0, (1.25,)), layers=["Conv"])
        ...     store.get([question])[question].values
        (1.25,)
    """

    only: Machine | None = None

    def within(self, machine: Machine) -> Self:
        """This store without measurements of other machines with the same fingerprint.

        It uses the same connections: close the original.
        """
        narrowed = copy(self)
        narrowed._taken = None if machine.alone else measured_by_no_other(machine)
        narrowed.only = machine
        return narrowed

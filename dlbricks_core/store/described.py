"""Descriptions behind measurements: systems, sessions, machines, and features of networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, insert, true

from dlbricks_core.facts import Machine, MachineName, NetworkFeatures, Session
from dlbricks_core.store.columns import batches
from dlbricks_core.store.inventory import machines_of
from dlbricks_core.store.merging import Merger, network_row
from dlbricks_core.store.opened import OpenStore, again_when_lost
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import networks, sessions, systems


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

"""Places where models may run: systems, with setups under which networks were measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Machine, Setup, System
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.probe import Probe
from dlbricks_core.predict import shipped
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.systems import reference

_PROTOCOL = next(iter(PROTOCOLS.values()))
"""Protocol whose latencies are compared; other protocols leave the caches in another state."""

_SHORTEST = 4
"""Minimum number of characters that name a fingerprint."""


@dataclass(frozen=True)
class Place:
    """A system with a setup.

    Attributes:
        system: The system.
        setup: How models run.
        machine: The machine of the system; ``None`` if only the atlas of the package has
            measurements of the system, and the store has none.
    """

    system: System
    setup: Setup
    machine: Machine | None = None

    def __str__(self) -> str:
        return f"{self.setup.backend}, {self.setup.told_threads} on {self.name}"

    @property
    def name(self) -> str:
        """Short name: that of the machine, or the beginning of the fingerprint."""
        return reference(self.machine) if self.machine else self.system.fingerprint[:8]

    @property
    def only_shipped(self) -> bool:
        """Whether only the atlas of the package has measurements of the system."""
        return self.machine is None

    def is_called(self, name: str) -> bool:
        """Whether a text names the machine or its system.

        A system has the names of its processor and its microarchitecture, and every beginning of
        its fingerprint. With the beginning of a host behind it, ``71bf@09ad``, this names the
        machine.
        """
        system = self.system
        fingerprint, at, host = name.lower().partition("@")
        begins = len(fingerprint) >= _SHORTEST and system.fingerprint.startswith(fingerprint)
        if at and self.machine is not None:
            begins &= any(each.startswith(host) for each in self.machine.hosts)
        kinds = (system.cpu.casefold(), system.microarchitecture or None)
        return begins or name == self.name or name.casefold() in kinds

    def seen_in(self, store: ResultStore) -> ResultStore:
        """The store without what other machines of the same fingerprint measured."""
        return store if self.machine is None else store.within(self.machine)


def places(
    store: ResultStore,
    on: Sequence[str] = (),
    backends: Collection[str] = (),
    probes: Iterable[Probe] = (),
) -> list[Place]:
    """Places with measurements in the store, and places of the atlas that the user names.

    Where a framework was measured with several versions of its plugin, the version with most
    measurements counts.

    Args:
        store: Store of the measurements.
        on: Names of machines or processors, or beginnings of fingerprints; empty for all systems
            in the store. Systems that only the atlas knows have to be named.
        backends: Names of backends; empty for all.
        probes: Probes of further quantities. Setups in which the store holds one of these without
            latencies are places, too.

    Raises:
        DLBricksError: If a named system has no measurement with one of the backends, or if there is
            no place.
    """
    own = _of_store(store, [each.protocol.identity for each in probes])
    held = {place.system.fingerprint for place in own}
    elsewhere = [
        Place(each.system, replace(each.setup, protocol=_PROTOCOL.identity))
        for each in shipped()
        if each.system.fingerprint not in held
    ]
    every = [*own, *elsewhere]
    for name in on:
        if not any(place.is_called(name) for place in every):
            raise DLBricksError(
                f"no system {name!r} in store or atlas", hint=f"Systems: {_listed(every)}."
            )
    wanted = [place for place in every if any(map(place.is_called, on))] if on else own
    found = [place for place in wanted if not backends or place.setup.backend in backends]
    if not found:
        raise DLBricksError(_nothing(wanted, backends), hint=_how(every, wanted, store))
    return found


def _of_store(store: ResultStore, others: Sequence[str]) -> list[Place]:
    """Places with measurements in the store, in a stable order.

    Args:
        store: Store of the measurements.
        others: Protocols of quantities other than latency whose setups are places, too.
    """
    facts = store.systems()
    best: dict[tuple[str, str, str, str, str, int], Place] = {}
    found = list(_setups(store))
    for protocol in (_PROTOCOL.identity, *others):
        for setup, machine in found:
            fingerprint = machine.system
            if setup.protocol != protocol or fingerprint not in facts:
                continue
            how = (setup.backend, setup.version, setup.options, setup.threads)
            key = (fingerprint, machine.name, *how)
            if key not in best:  # the setup with most measurements comes first
                system = System.from_dict(fingerprint, facts[fingerprint])
                best[key] = Place(system, replace(setup, protocol=_PROTOCOL.identity), machine)
    return [best[key] for key in sorted(best)]


def _setups(store: ResultStore) -> Iterator[tuple[Setup, Machine]]:
    """Setups under which each machine measured, those with most measurements first."""
    for machine in store.machines():
        for backend in store.backends():
            for setup, fingerprint in store.within(machine).setups(backend):
                if fingerprint == machine.system:
                    yield setup, machine


def _nothing(wanted: Sequence[Place], backends: Collection[str]) -> str:
    if not wanted:
        return "the store holds no latencies: there is no system to advise on"
    return f"nothing was measured with {' or '.join(backends)} on the requested systems"


def _how(every: Sequence[Place], wanted: Sequence[Place], store: ResultStore) -> str:
    if wanted:
        return f"Measured with: {', '.join(sorted({place.setup.backend for place in wanted}))}."
    return (
        f"Measure first, choose another store than {store.place} with {argument('store')}, or name "
        f"a system of the atlas with {argument('on')}: {_listed(every)}."
    )


def _listed(every: Iterable[Place]) -> str:
    known = {place.name: place.system for place in every}
    return (
        ", ".join(
            f"{name} ({system.cpu}, {system.microarchitecture})" for name, system in known.items()
        )
        or "none"
    )

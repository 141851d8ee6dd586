"""Places where models may run: systems, with setups under which networks were measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import eq

from dlbricks_core.backends import Backend
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Machine, Setup, System
from dlbricks_core.figures.protocols import HOT, PROTOCOLS
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure.metric import Metric
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import attempt, discover
from dlbricks_core.predict import usual_predictor
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, count

_PROTOCOL = next(iter(PROTOCOLS.values()))
"""Protocol whose latencies are compared; other protocols leave the caches in another state."""

_SHORTEST = 4
"""Minimum number of characters that name a fingerprint."""


@dataclass(frozen=True)
class Place:
    """A system with a setup."""

    system: System  #: The system.
    setup: Setup  #: How models run.
    #: The machine of the system; ``None`` if only the atlas of the package has measurements of the
    #: system, and the store has none.
    machine: Machine | None = None
    #: Number of processes that run a model at the same time, each with the setup's threads;
    #: ``None`` for a single one that has the system for itself.
    instances: int | None = None

    def __str__(self) -> str:
        return f"{self.setup.backend}, {self.size} on {self.name}"

    @property
    def size(self) -> str:
        """Threads, or instances x threads: ``2 threads`` or ``4 x 2 threads``."""
        threads = count(self.setup.threads, "thread")
        return threads if self.instances is None else f"{self.instances} x {threads}"

    @property
    def name(self) -> str:
        """Short name: that of the machine, or the beginning of the fingerprint."""
        return self.machine.reference if self.machine else self.system.fingerprint[:8]

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
        """The store without measurements of other machines with the same fingerprint."""
        return store if self.machine is None else store.within(self.machine)


def places(
    store: ResultStore,
    systems: Sequence[str] = (),
    backends: Collection[str] = (),
    metrics: Iterable[Metric] = (),
    *,
    under_load: bool = False,
    predicts: bool = True,
    installed: bool = False,
) -> list[Place]:
    """Places with measurements in the store, and places of the atlas that the user names.

    Where a framework was measured with several versions of its plugin, the version with most
    measurements counts.

    Args:
        store: Store of the measurements.
        systems: Names of machines or processors, or beginnings of fingerprints; empty for all
            systems in the store. Systems that only the atlas has must be named.
        backends: Names of backends; empty for all.
        metrics: Metrics of further quantities. Setups in which the store has one of these without
            latencies are places, too.
        under_load: Whether setups count under which models or bricks ran side by side.
        predicts: Whether places count whose loads have to be predicted.
        installed: Whether this machine counts, with every installed backend that is wanted, if the
            store has no place with one of these and no system is named.

    Raises:
        DLBricksError: If a named system has no measurement with one of the backends, or if there is
            no place.
    """
    only_loads = under_load and not predicts
    alone = [] if only_loads else _protocols(metrics)
    own = _chosen(store, [*alone, _is_loaded] if under_load else alone)
    held = {place.system.fingerprint for place in own}
    elsewhere = [
        Place(each.system, replace(each.setup, protocol=_PROTOCOL.identity))
        for each in (() if only_loads else usual_predictor().shipped())
        if each.system.fingerprint not in held
    ]
    every = [*own, *elsewhere]
    for name in systems:
        if not any(place.is_called(name) for place in every):
            where = "with figures under load in the store" if only_loads else "in store or atlas"
            raise DLBricksError(f"no system {name!r} {where}", hint=f"Systems: {_listed(every)}.")
    wanted = [place for place in every if any(map(place.is_called, systems))] if systems else own
    found = [place for place in wanted if not backends or place.setup.backend in backends]
    if not found and not systems and installed and predicts:
        found = list(_here(backends))
        if not found and backends:
            raise DLBricksError(
                f"nothing was measured with {' or '.join(backends)}, which is not installed here",
                hint="Measured or installed are: "
                + ", ".join(sorted({each.setup.backend for each in [*own, *_here(())]}))
                + ".",
            )
    if not found:
        why = _nothing(wanted, backends, only_loads=only_loads)
        raise DLBricksError(why, hint=_how(every, wanted, store, only_loads=only_loads))
    return found


def _here(backends: Collection[str]) -> Iterator[Place]:
    """This machine with each installed backend that is wanted, as users run it by default."""
    for plugin in discover("backend", Backend):
        if plugin.problem or (backends and plugin.name not in backends):
            continue
        request = attempt(plugin, partial(Request.of, plugin.name))
        if isinstance(request, Request):
            setup = replace(request.setup, protocol=_PROTOCOL.identity)
            yield Place(current_system(), setup)


def _protocols(metrics: Iterable[Metric]) -> list[Callable[[str], bool]]:
    """Conditions on protocols of what ran alone, latencies first.

    Args:
        metrics: Metrics of quantities other than latency whose setups are places, too.
    """
    asked = (_PROTOCOL.identity, HOT.identity, *(each.protocol.identity for each in metrics))
    return [partial(eq, protocol) for protocol in asked]


def _is_loaded(protocol: str) -> bool:
    """Whether a protocol is one of models or bricks that ran side by side."""
    return protocol.startswith(f"{_PROTOCOL.identity};")


def _chosen(store: ResultStore, wanted: Sequence[Callable[[str], bool]]) -> list[Place]:
    """Places of setups whose protocol is wanted, in a stable order.

    Args:
        store: Store of the measurements.
        wanted: Conditions on protocols; setups that meet an earlier condition come first.
    """
    facts = store.systems()
    best: dict[tuple[str, str, str, str, str, int], Place] = {}
    found = list(_setups(store))
    for is_wanted in wanted:
        for setup, machine in found:
            fingerprint = machine.system
            if not is_wanted(setup.protocol) or fingerprint not in facts:
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


def _nothing(wanted: Sequence[Place], backends: Collection[str], *, only_loads: bool) -> str:
    if not wanted:
        what = "figures under load" if only_loads else "latencies"
        return f"the store holds no {what}: there is no system to advise on"
    return f"nothing was measured with {' or '.join(backends)} on the requested systems"


def _how(
    every: Sequence[Place], wanted: Sequence[Place], store: ResultStore, *, only_loads: bool
) -> str:
    if wanted:
        return f"Measured with: {', '.join(sorted({place.setup.backend for place in wanted}))}."
    if only_loads:
        return (
            f"Put models under load first, with 'dlbricks serve' and {argument('measure')}, or "
            f"choose another store than {store.place} with {argument('store')}."
        )
    return (
        f"Measure first, choose another store than {store.place} with {argument('store')}, or name "
        f"a system of the atlas with {argument('systems')}: {_listed(every)}."
    )


def _listed(every: Iterable[Place]) -> str:
    known = {place.name: place.system for place in every}
    return (
        ", ".join(
            f"{name} ({system.cpu}, {system.microarchitecture})" for name, system in known.items()
        )
        or "none"
    )

"""Systems and setups of results files, of which options choose one."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dlbricks_core.commands.options.systems import find_machine
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.protocols import Protocol
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, count


@dataclass(frozen=True)
class SystemSetup:
    """System and setup under which networks in a results file were measured.

    Attributes:
        system: The system.
        setup: The backend and its settings.
    """

    system: System
    setup: Setup


def place_of(
    store: ResultStore,
    backend: str,
    *,
    protocol: Protocol,
    system: str | None = None,
    threads: int | None = None,
    backend_options: Mapping[str, str] = MappingProxyType({}),
) -> SystemSetup:
    """The only place in the results that matches.

    Args:
        store: Measurements of the results files.
        backend: Name of the backend.
        protocol: Protocol of the requested quantity.
        system: Name of the machine, or beginning of its fingerprint; ``None`` for a single system.
        threads: Threads that compute one operator; ``None`` for a single number.
        backend_options: Values of the backend's options. Omitted options may have any value.

    Raises:
        DLBricksError: If no place matches, or more than one.
    """
    meant = None if system is None else find_machine(store, system).system
    systems = {name: System.from_dict(name, facts) for name, facts in store.systems().items()}
    places = [
        SystemSetup(systems[fingerprint], setup)
        for setup, fingerprint in store.setups(backend)
        if fingerprint in systems
    ]
    filters: Mapping[tuple[str, ...], Callable[[SystemSetup], bool]] = {
        ("backend",): lambda place: True,
        ("system",): lambda place: meant in (None, place.system.fingerprint),
        ("threads",): lambda place: threads in (None, place.setup.threads),
        ("backend_option",): lambda place: (
            backend_options.items() <= json.loads(place.setup.options).items()
        ),
        ("quantity", "protocol"): lambda place: place.setup.protocol == protocol.identity,
    }
    for names, fits in filters.items():
        left = [place for place in places if fits(place)]
        if not left:
            raise DLBricksError(
                f"the results have no measurement with that {' or '.join(map(argument, names))}",
                hint=_choices(store, places),
            )
        places = left
    if ways := _ways(places):
        raise DLBricksError(
            f"the results were measured in {len(places)} places",
            hint=f"Choose with {' or '.join(ways)}. {_choices(store, places)}",
        )
    return _latest(store, places)


def _ways(places: Sequence[SystemSetup]) -> list[str]:
    """Arguments that distinguish places; none if they differ only in versions."""
    differing: Mapping[str, Collection[str | int]] = {
        "system": {place.system.fingerprint for place in places},
        "threads": {place.setup.threads for place in places},
        "backend_option": {place.setup.options for place in places},
    }
    return [argument(name) for name, values in differing.items() if len(values) > 1]


def _latest(store: ResultStore, places: Sequence[SystemSetup]) -> SystemSetup:
    """The place of the latest measurement: an upgrade makes earlier ones obsolete."""
    if len(places) == 1:
        return places[0]
    taken = [
        (observation.taken_at, place)
        for each in store.measurements()
        for place in places
        if (each.question.setup, each.question.system) == (place.setup, place.system.fingerprint)
        for observation in each.observations
    ]
    if not taken:  # the place holds only failures
        return places[0]
    return max(taken, key=lambda pair: pair[0])[1]


def _choices(store: ResultStore, places: Sequence[SystemSetup]) -> str:
    """List of the places in one line."""
    if not places:
        backends = sorted({each.question.setup.backend for each in store.measurements()})
        return f"The results are of: {', '.join(backends) or 'no backend'}."
    return f"There are: {'; '.join(map(_described, places))}."


def _described(place: SystemSetup) -> str:
    setup = place.setup
    return (
        f"{setup.backend} {setup.version}, {count(setup.threads, 'thread')}, {setup.protocol}, on "
        f"{place.system.fingerprint} ({place.system.cpu})"
    )

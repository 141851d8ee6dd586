"""Known systems, and the system that a user names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Machine, System
from dlbricks_core.facts.system import HOST_MARK
from dlbricks_core.predict import usual_predictor
from dlbricks_core.store import ResultStore

_NAMED = 30
"""Systems that a message names; the others are counted."""


def find_machine(store: ResultStore, text: str) -> Machine:
    """The machine of a store that a text names.

    Args:
        store: The store.
        text: Name of a machine; beginning of a fingerprint, for all machines that share it;
            beginnings of a fingerprint and a host, ``71bf@09ad``; or a microarchitecture, ``zen4``.

    Raises:
        DLBricksError: If the store has no such machine, or several.
    """
    machines = store.machines()
    return _only(machines, _systems(store, machines), text, "in the store")


def find_system(store: ResultStore, text: str) -> tuple[System, Machine | None]:
    """The system that a text names, and its machine; ``None`` for a system of the atlas.

    Args:
        store: Store whose machines take precedence over the systems of the atlas.
        text: As for :func:`find_machine`.

    Raises:
        DLBricksError: If not exactly one such system is known.
    """
    machines = store.machines()
    own = _systems(store, machines)
    elsewhere = {each.system.fingerprint: each.system for each in usual_predictor().shipped()}
    others = [Machine(fingerprint, "", frozenset()) for fingerprint in elsewhere]
    if not _meant(machines, own, text):
        every = [*machines, *others]
        machine = _only(every, {**elsewhere, **own}, text, "in store or atlas")
        return elsewhere[machine.system], None
    machine = _only(machines, own, text, "in store or atlas")
    return own[machine.system], machine


def _systems(store: ResultStore, machines: Sequence[Machine]) -> Mapping[str, System]:
    """Systems of machines of a store, by fingerprint."""
    facts = store.systems()
    return {
        each.system: System.from_dict(each.system, facts.get(each.system, {})) for each in machines
    }


def at_system(store: ResultStore, text: str | None) -> tuple[System | None, ResultStore]:
    """The system that a text names, and the store without other machines of its fingerprint.

    Args:
        store: As for :func:`find_system`.
        text: As for :func:`find_machine`; ``None`` for no system and the whole store.

    Raises:
        DLBricksError: If not exactly one such system is known.
    """
    if text is None:
        return None, store
    system, machine = find_system(store, text)
    return system, store if machine is None else store.within(machine)


def _meant(machines: Sequence[Machine], systems: Mapping[str, System], text: str) -> list[Machine]:
    """Machines that a text may name. Machines that share a fingerprint count as one machine."""
    if named := [each for each in machines if text and each.name == text]:
        return named
    of_system: dict[str, list[Machine]] = {}
    for each in machines if text else ():
        of_system.setdefault(each.system, []).append(each)
    found = [each for own in of_system.values() for each in _begun(own, text)]
    kind = text.casefold()
    return found or [
        _whole(own)
        for system, own in of_system.items()
        if systems[system].microarchitecture == kind
    ]


def _begun(machines: Sequence[Machine], text: str) -> Iterator[Machine]:
    """The machine of a system if a text is the beginning of its fingerprint, maybe with a host.

    Args:
        machines: All machines of the system.
        text: The text.
    """
    fingerprint, at, host = text.partition(HOST_MARK)
    whole = _whole(machines)
    if not whole.system.startswith(fingerprint):
        return
    hosts = frozenset(each for each in whole.hosts if each.startswith(host))
    if not at:
        yield whole
    elif hosts:
        yield Machine(whole.system, "", hosts, alone=hosts == whole.hosts)


def _whole(machines: Sequence[Machine]) -> Machine:
    """All machines of a system as one."""
    names = {each.name for each in machines}
    hosts = frozenset[str]().union(*(each.hosts for each in machines))
    return Machine(machines[0].system, names.pop() if len(names) == 1 else "", hosts)


def _only(
    machines: Sequence[Machine], systems: Mapping[str, System], text: str, where: str
) -> Machine:
    found = _meant(machines, systems, text)
    if len(found) == 1:
        return found[0]
    known = list(
        dict.fromkeys(
            f"{each.name or each.system} ({systems[each.system].microarchitecture or 'unknown'})"
            for each in machines
        )
    )
    more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
    raise DLBricksError(
        f"{'more than one' if found else 'no'} system {text!r:.60} {where}",
        hint=f"Systems with measurements: {', '.join(known[:_NAMED]) or 'none'}{more}.",
    )

"""Names of machines, which their owners give."""

from __future__ import annotations

import re

from dlbricks_core.commands.options.systems import find_machine
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Machine
from dlbricks_core.store import ResultStore

_NAME = re.compile(r"\w[\w.+-]{0,39}")


def name_machine(store: ResultStore, text: str, name: str) -> Machine:
    """Names a machine of a store.

    A fingerprint selects its hosts without a name, if it has any.

    Args:
        store: The store.
        text: As for :func:`find_machine`.
        name: The name. Hosts of one system may share a name, because a restarted machine may appear
            as another host.

    Returns:
        The machine with its name.

    Raises:
        DLBricksError: If not exactly one machine matches, or the name is invalid or taken.
    """
    machines = store.machines()
    unnamed = [each for each in machines if not each.name and each.system.startswith(text)]
    machine = unnamed[0] if len(unnamed) == 1 and text else find_machine(store, text)
    if not _NAME.fullmatch(name):
        raise DLBricksError(
            f"{name!r:.60} is not a valid name for a machine",
            hint="A name has up to 40 letters, digits, dots, hyphens and underscores.",
        )
    for each in machines:
        if each.system.startswith(name.lower()):
            raise DLBricksError(
                f"{name} is the beginning of a system's fingerprint", hint="Choose another name."
            )
        if each.name == name and each.system != machine.system:
            raise DLBricksError(
                f"{name} is the name of another system, {each.system}",
                hint="Choose another name, or rename that system first.",
            )
    store.name_machine(machine, name)
    return Machine(machine.system, name, machine.hosts, machine.alone)

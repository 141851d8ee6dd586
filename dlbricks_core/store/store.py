"""The result store: all measurements, each committed at once."""

from __future__ import annotations

from copy import copy
from typing import Self

from dlbricks_core.facts import Machine
from dlbricks_core.store.described import DerivedStore, Described
from dlbricks_core.store.measured import MeasurementStore
from dlbricks_core.store.questions import measured_by_no_other


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

"""The Python API: the action ``machine list`` as a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlbricks_records.contents import Inventory, inventory

from dlbricks_core.api.inputs import Store, opened_store
from dlbricks_core.api.results import Result, Rows, named
from dlbricks_machine.report import systems_data


def systems(*, store: Store = None) -> Systems:
    """Lists the systems of a store, with their facts and numbers of measurements.

    Args:
        store: A path, the URL of a PostgreSQL database, an open store, or ``None`` for the user's
            own file.

    Raises:
        DLBricksError: If there is no such store.
    """
    with opened_store(store, writes=False, create=False) as opened:
        return Systems(inventory(opened))


@dataclass(frozen=True, repr=False)
class Systems(Result):
    """The systems of a store.

    Attributes:
        inventory: Content of the store, as a :class:`dlbricks_records.contents.Inventory`.
    """

    inventory: Inventory

    def to_dict(self) -> dict[str, Any]:
        """Systems and their numbers of measurements, as ``dlbricks machine list`` writes them."""
        return dict(systems_data(self.inventory))

    def rows(self) -> Rows:
        """One row for each machine."""
        rows: Rows = self.to_dict()["systems"]
        return rows

    def __repr__(self) -> str:
        return f"<Systems: {named(row['reference'] for row in self.rows())}>"

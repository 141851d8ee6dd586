"""Interface of what upgrades and repairs stores, which a distribution brings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.plugins import find, names
from dlbricks_core.wording import clone_install

if TYPE_CHECKING:  # lists of plugins import this module, and need no database
    import sqlite3
    from pathlib import Path

    from sqlalchemy import Connection

    from dlbricks_core.store.database import Damage, Database


class StoreUpkeep(ABC):
    """Stores of earlier versions, which are upgraded, and damaged ones, which are read in part.

    Found through the entry-point group ``dlbricks.upkeep``. The class must be importable without
    what does the work, because the list of plugins imports it.
    """

    #: Name, equal to the entry point's.
    name: str

    @abstractmethod
    def migrate(self, connection: Connection, revision: str) -> None:
        """Runs the migrations that a store lacks.

        Args:
            connection: In a transaction that writes.
            revision: Schema revision that they lead to.
        """

    @abstractmethod
    def salvage(self, uri: str, target: sqlite3.Connection) -> Damage:
        """Copies all rows that can be read, each into a table of the same name.

        Args:
            uri: The damaged file, which nobody changes meanwhile. It is only read.
            target: An empty database.

        Returns:
            The rows that are lost.

        Raises:
            sqlite3.DatabaseError: If not even the list of tables can be read.
        """

    @abstractmethod
    def with_new_first_page(self, path: Path) -> sqlite3.Connection | None:
        """The file's content in memory, with the first page that a new store has.

        Args:
            path: The file, which stays as it is.

        Returns:
            The content; ``None`` if the file is not such a store.
        """


_UPKEEP = "upkeep"


def has_upkeep() -> bool:
    """Whether a distribution upgrades and repairs stores."""
    return _UPKEEP in names("upkeep")


def upkeep(database: Database, need: str) -> StoreUpkeep:
    """The plugin that upgrades and repairs stores.

    Args:
        database: Where the store is kept, for messages.
        need: Sentence that says what it is needed for.

    Raises:
        UnknownPluginError: If no distribution does.
    """
    if not has_upkeep():
        raise UnknownPluginError(
            f"{database}: {need} by dlbricks-records, which is not installed",
            hint=clone_install("plugins/accuracy", "plugins/records"),
        )
    found: StoreUpkeep = find("upkeep", _UPKEEP, StoreUpkeep).loaded()
    return found

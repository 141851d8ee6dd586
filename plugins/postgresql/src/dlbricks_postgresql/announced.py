"""Name of the databases, which the list of plugins imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.store import DatabaseKind

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from dlbricks_core.store.database import Database


class PostgreSQLDatabases(DatabaseKind):
    """Databases of PostgreSQL servers, by URLs such as ``postgresql://user@host/database``."""

    name = "postgresql"

    def at(self, url: URL) -> Database:
        """The database of a URL."""
        from dlbricks_postgresql.database import located

        return located(url)

"""Store whose first page is destroyed: SQLite's list of tables and where they begin."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dlbricks_core.store.creation import statements
from dlbricks_core.store.salvage import findings
from dlbricks_core.store.schema import HEAD

_UNUSED = "never used"
"""Words of a finding about a page that was free: the first page listed these, too."""


def replaced(path: Path) -> sqlite3.Connection | None:
    """The file's content in memory, with the first page that a new store has.

    A store that this version has created has its tables on the same pages as a new one. All else
    must be sound, so that no table is read as another one.

    Args:
        path: The file, which stays as it is.

    Returns:
        The content; ``None`` if the file is not such a store.
    """
    memory = sqlite3.connect(":memory:", uri=True, check_same_thread=False)
    memory.isolation_level = None
    for statement in statements("sqlite", "pysqlite"):
        memory.execute(statement)
    (size,) = memory.execute("PRAGMA page_size").fetchone()
    memory.deserialize(memory.serialize()[:size] + path.read_bytes()[size:])
    try:
        versions = memory.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.DatabaseError:
        return None
    found = [each for each in findings(memory, thorough=True) if _UNUSED not in each]
    return memory if versions == [(HEAD,)] and not found else None

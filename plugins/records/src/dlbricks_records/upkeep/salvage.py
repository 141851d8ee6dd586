"""Rows of a damaged SQLite file that can still be read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from dlbricks_core.store.database import Damage
from dlbricks_core.store.schema import HEAD, metadata, statements
from dlbricks_core.store.sqlite import findings

_FIRST, _LAST = -(2**63), 2**63 - 1
"""Smallest and largest number of a row in SQLite."""

_VERSIONS = "alembic_version"
_LOST = "its page is damaged"


def salvage(uri: str, target: sqlite3.Connection) -> Damage:
    """Copies all rows that can be read, each into a table of the same name.

    Args:
        uri: The damaged file, which nobody changes meanwhile. It is only read.
        target: An empty database.

    Returns:
        The rows that are lost.

    Raises:
        sqlite3.DatabaseError: If not even the list of tables can be read.
    """
    target.isolation_level = None
    # Without this, SQLite refuses a file that is shorter than its header states, or a damaged
    # statement.
    target.execute("PRAGMA writable_schema = ON")
    target.execute("ATTACH ? AS damaged", (uri,))
    lost = Damage()
    try:
        number = target.execute("PRAGMA damaged.application_id").fetchone()[0]
        target.execute(f"PRAGMA main.application_id = {int(number)}")
        query = "SELECT name, sql FROM damaged.sqlite_schema WHERE type = 'table'"
        for name, statement in target.execute(query).fetchall():
            if name in {_VERSIONS, *metadata.tables}:
                try:
                    _create(target, statement)
                    _copy(target, name, lost)
                except (sqlite3.Error, TypeError):
                    lost.lose(name, f"all rows of {name}", "its definition is damaged")
        _complete(target, lost)
    finally:
        target.execute("DETACH damaged")
        target.execute("PRAGMA writable_schema = OFF")
    return lost


_CREATES = {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,  # of the table's keys
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_READ,
}
"""Actions that creating a table consists of. Neither rows nor other files come from them."""


def _create(target: sqlite3.Connection, statement: str) -> None:
    """Creates a table as the damaged file defines it. Its statement may do nothing else.

    Raises:
        sqlite3.DatabaseError: If the statement computes something, or touches another file.
    """
    target.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in _CREATES else sqlite3.SQLITE_DENY
    )
    try:
        target.execute(statement)
    finally:
        target.set_authorizer(None)


def _copy(target: sqlite3.Connection, table: str, lost: Damage) -> None:
    """Copies the rows of a table one by one."""
    insert = (
        f'INSERT OR IGNORE INTO main."{table}" '
        f'SELECT * FROM damaged."{table}" NOT INDEXED WHERE rowid = ?'
    )
    copied, gaps = set[int](), list[tuple[int, int | None]]()
    for number in _numbers(target, table, gaps):
        try:
            is_whole = target.execute(insert, (number,)).rowcount == 1
        except sqlite3.DatabaseError:
            is_whole = False
        if is_whole:
            copied.add(number)
        else:
            lost.add(table, number, _LOST)
    listed = _listed(target, table)
    for begin, end in gaps:
        inside = [n for n in listed if begin <= n and (end is None or n < end)]
        for number in inside:
            lost.add(table, number, _LOST)
        if not inside:
            until = "the last one" if end is None else str(end - 1)
            lost.lose(table, f"rows of {table} from {max(begin, 0)} to {until}", _LOST)


def _numbers(
    connection: sqlite3.Connection, table: str, gaps: list[tuple[int, int | None]]
) -> Iterator[int]:
    """Ascending numbers of a table's rows; unreadable ranges between them are added to the gaps."""
    query = f'SELECT rowid FROM damaged."{table}" NOT INDEXED WHERE rowid >= ? ORDER BY rowid'

    def readable(begin: int) -> bool:
        """Whether the first row from a number on can be read, or there is none."""
        try:
            row = connection.execute(query, (begin,)).fetchone()
        except sqlite3.DatabaseError:
            return False
        return row is None or row[0] >= begin

    begin = _FIRST
    while True:
        try:
            for (number,) in connection.execute(query, (begin,)):
                if number < begin:  # pages that refer to each other in a circle
                    break
                yield number
                begin = number + 1
            else:
                return
        except sqlite3.DatabaseError:
            pass
        found = _first_readable(readable, begin)
        gaps.append((begin, found))
        if found is None:
            return
        begin = found


def _first_readable(readable: Callable[[int], bool], begin: int) -> int | None:
    """Number from which on rows can be read again, after one that cannot; ``None`` if none can."""
    bad, step = begin, 1
    while not readable(min(bad + step, _LAST)):
        bad += step
        step *= 2
        if bad >= _LAST:
            return None
    good = min(bad + step, _LAST)
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (bad, middle) if readable(middle) else (middle, good)
    return good


def _listed(connection: sqlite3.Connection, table: str) -> list[int]:
    """Numbers of the rows that the index of the table's key lists, as far as it can be read."""
    found: dict[int, None] = {}
    try:
        names = [
            name
            for name, origin in connection.execute(
                "SELECT name, origin FROM pragma_index_list(?, 'damaged')", (table,)
            )
            if origin in "pu"
        ]
        for name in names[:1]:
            columns = [
                row[0]
                for row in connection.execute(
                    "SELECT name FROM pragma_index_info(?, 'damaged')", (name,)
                )
            ]
            order = ", ".join(f'"{each}"' for each in columns)
            query = f'SELECT rowid FROM damaged."{table}" ORDER BY {order}'
            for (number,) in connection.execute(query):
                if number in found:
                    break  # pages that refer to each other in a circle
                found[number] = None
    except sqlite3.DatabaseError:
        pass  # the index is damaged, too
    return list(found)


def _complete(target: sqlite3.Connection, lost: Damage) -> None:
    """Creates tables that are lost. A store whose version is lost gets that of this DLBricks.

    Whether it has all columns of that version is checked later.
    """
    target.execute(f"CREATE TABLE IF NOT EXISTS main.{_VERSIONS} (version_num TEXT NOT NULL)")
    versions = target.execute(f"SELECT version_num FROM main.{_VERSIONS}").fetchall()
    if not versions:
        lost.lose(_VERSIONS, "the version", _LOST)
        target.execute(f"INSERT INTO main.{_VERSIONS} VALUES (?)", (HEAD,))
    if versions in ([], [(HEAD,)]):
        for table in metadata.sorted_tables:
            statement = CreateTable(table, if_not_exists=True).compile(dialect=sqlite.dialect())
            target.execute(str(statement))


# Store whose first page is destroyed: SQLite's list of tables and where they begin.

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

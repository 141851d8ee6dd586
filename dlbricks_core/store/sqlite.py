"""A store in a SQLite file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from dlbricks_core.errors import StoreError
from dlbricks_core.files import opened
from dlbricks_core.limits import STORE
from dlbricks_core.store import database
from dlbricks_core.store.database import (
    Damage,
    Database,
    check_columns,
    checked_revision,
    is_current,
)
from dlbricks_core.store.schema import APPLICATION_ID, create
from dlbricks_core.store.upkeep import has_upkeep, upkeep
from dlbricks_core.wording import argument, settings

_RETRY_SECONDS = 0.01

_lenient = methodcaller("decode", "utf-8", "surrogateescape")


@dataclass(frozen=True)
class SQLiteFile(Database):
    """A store in a SQLite file.

    Attributes:
        path: Absolute path of the file.
    """

    path: Path
    noun: ClassVar[str] = "file"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def file(self) -> Path:
        """Path of the database file."""
        return self.path

    @property
    def name(self) -> str:
        """Name of the file, without its folder."""
        return self.path.name

    def check_exists(self) -> None:
        """Checks that there is a file."""
        with self.translated():
            if not self.path.exists():
                raise self.absent()

    def check_folder(self) -> None:
        """Checks that there is a folder: whoever reads a file in none has misspelt its path."""
        with self.translated():
            if not self.path.parent.exists():
                raise StoreError(
                    f"{self}: there is no folder {self.path.parent}",
                    f"Check {argument('store')}; commands that measure make the folder.",
                )

    def connect(self) -> Engine:
        """Connection to the database, which is created or upgraded as needed."""
        path, revision = self.path, None
        with self.translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            if _holds_something(path):
                with _looked_at(path) as connection:
                    revision = self._revision(connection)
                    if findings(connection):  # more would be lost
                        raise self._damaged()
        url = URL.create("sqlite", database=str(path))
        timeout = {"timeout": database.BUSY_SECONDS}
        return self.upgraded(_configured(create_engine(url, connect_args=timeout)), revision)

    def inspected(self) -> tuple[Engine, Damage]:
        """Connection to a copy of the file in memory, upgraded there as needed.

        File and folder stay as they are, and need not be writable. Where there is no file, the
        copy is empty. Of a damaged file it holds all rows that can be read.
        """
        memory = sqlite3.connect(":memory:", uri=True, check_same_thread=False)
        with self.translated():
            if not _holds_something(self.path):
                return empty(in_memory(memory)), Damage()
            self._check_size()
            memory, damage = self._sound_copy(memory)
            revision = self._revision(memory)
        return self.upgraded(in_memory(memory), revision), damage

    def findings(self) -> list[str]:
        """Damage of the file's pages and indices, as SQLite describes it."""
        with (
            self.translated(),
            _unchanging(self.path) as uri,
            closing(sqlite3.connect(uri, uri=True)) as connection,
        ):
            return findings(connection, thorough=True)

    def revision(self, connection: Connection) -> str | None:
        """Schema revision, read without writing; ``None`` if the database is empty."""
        driver: Any = connection.connection.driver_connection
        return self._revision(driver)

    def size(self, connection: Connection) -> int:
        """Bytes of all pages."""
        return size(connection)

    def compact(self, engine: Engine) -> int:
        """Writes the file anew without gaps."""
        with self.translated(), closing(engine.raw_connection()) as connection:
            cursor = connection.cursor()  # no transaction may be open
            cursor.execute(_TRUNCATE_LOG)
            before = self.path.stat().st_size
            cursor.execute("VACUUM")
            cursor.execute(_TRUNCATE_LOG)
            return before - self.path.stat().st_size

    def identity(self) -> tuple[int, int] | None:
        """Numbers that identify the file among files of its name; ``None`` without a file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def failure(self, error: Exception) -> StoreError:
        """An error of SQLite or the file system in one line, with a hint."""
        said = getattr(error, "strerror", None) or database.cause(error)
        reason = (str(said).strip() or type(said).__name__).splitlines()[0]
        culprit = getattr(error, "filename", None) or self.path
        fitting = (cure for words, cure in _CURES.items() if words in reason)
        cure = next(fitting, "check the rights to file and folder")
        return StoreError(f"{culprit}: {reason}", self.or_another(cure))

    def _check_size(self) -> None:
        """Refuses a file that is too large to be copied to memory."""
        if self.path.stat().st_size > STORE.most * 2**20:
            raise StoreError(f"{self}: the file has {STORE.words}", STORE.hint)

    def _damaged(self) -> StoreError:
        return StoreError(
            f"{self}: the file is damaged",
            f"copy the readable records to another store: dlbricks results merge {self.name} "
            f"{settings(store='new.db')}",
        )

    def _sound_copy(self, memory: sqlite3.Connection) -> tuple[sqlite3.Connection, Damage]:
        """The file's content in memory; if pages are damaged, the readable part."""
        try:
            _copy(self.path, memory)
            # A damaged index would hide rows: to look for these takes half a microsecond a row.
            # One that computes is refused later: it could take days, in one call.
            found = [] if _computes(memory) else findings(memory, thorough=True)
            memory.execute(_KINDS)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _UNREADABLE:
                raise
            if restored := self._with_new_first_page():
                lost = Damage()
                lost.lose("sqlite_schema", "the first page", "taken from a new store")
                return restored, lost
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            found = [str(error)]
        if not found:
            return memory, Damage()
        repair = upkeep(self, _IN_PART)
        saved = sqlite3.connect(":memory:", uri=True, check_same_thread=False)
        with _unchanging(self.path) as uri:
            return saved, repair.salvage(uri, saved)

    def _with_new_first_page(self) -> sqlite3.Connection | None:
        """The file's content, if its first page is all that is destroyed."""
        self._check_size()
        if _in_use(self.path) or not has_upkeep():
            return None
        return upkeep(self, _IN_PART).with_new_first_page(self.path)

    def _revision(self, connection: sqlite3.Connection) -> str | None:
        """Schema revision, as :meth:`revision` returns it."""
        try:
            kinds = {kind for (kind,) in connection.execute(_KINDS)}
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF in _UNREADABLE and self._with_new_first_page():
                raise self._damaged() from error
            raise
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if not kinds and mark in (0, APPLICATION_ID):
            return None
        if mark != APPLICATION_ID:
            raise StoreError(
                f"{self} is a database of another program, not a result store",
                f"choose another file with {argument('store')}",
            )
        if odd := kinds - {"table", "index"}:
            raise StoreError(
                f"{self}: the result store holds a {min(odd)}, as none should",
                self.damaged,
            )
        versions = connection.execute("SELECT version_num FROM alembic_version")
        revision = checked_revision((row[0] for row in versions), self)
        if is_current(revision):
            columns = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c"
            check_columns(connection.execute(columns), self)
        if connection.execute(_LONG_DEFAULTS).fetchone():
            raise StoreError(f"{self}: a column of the result store has a long default",
                             self.damaged)  # fmt: skip
        if _computes(connection):
            raise StoreError(f"{self}: an index or a column of the result store computes",
                             self.damaged)  # fmt: skip
        return revision


_IN_PART = "a damaged file is read in part"

_UNREADABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_KINDS = """
SELECT DISTINCT CASE WHEN sql LIKE 'CREATE VIRTUAL%' THEN 'virtual table' ELSE type END
FROM sqlite_schema
"""

_LONG_DEFAULTS = """
SELECT 1 FROM sqlite_schema m, pragma_table_info(m.name) c WHERE length(c.dflt_value) > 16
"""
"""Columns whose default each row of a few bytes would give, however long it is."""


_COMPUTED = """
SELECT 1 FROM sqlite_schema m, pragma_index_xinfo(m.name) x WHERE m.type = 'index' AND x.cid = -2
UNION ALL
SELECT 1 FROM sqlite_schema m, pragma_index_list(m.name) x WHERE m.type = 'table' AND x.partial
UNION ALL
SELECT 1 FROM sqlite_schema m, pragma_table_xinfo(m.name) x
WHERE m.sql LIKE 'CREATE TABLE%' AND x.hidden
"""
"""Indices over expressions or with conditions, and columns that are computed: stores have none."""


def _computes(connection: sqlite3.Connection) -> bool:
    """Whether SQLite would compute what a stranger wrote, to compare indices or to read rows."""
    return connection.execute(_COMPUTED).fetchone() is not None


_OF_ROWS = ("NULL value", "CHECK constraint", "non-unique", "NUMERIC value", "TEXT value")
"""Beginnings of findings about single rows, which are checked when they are read."""


def findings(connection: sqlite3.Connection, *, thorough: bool = False) -> list[str]:
    """Damage of a database's pages, as SQLite describes it; none if all pages are sound.

    Args:
        connection: To the database.
        thorough: Whether to compare indices with their tables, too.
    """
    pragma = "integrity_check" if thorough else "quick_check"
    try:
        # Stores have no such constraints: those of a stranger may compute for days in one call.
        connection.execute("PRAGMA ignore_check_constraints = ON")
        found = [str(row[0]) for row in connection.execute(f"PRAGMA {pragma}(20)")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    lines = [line for each in found for line in each.splitlines() if line.strip("* ")]
    return [line for line in lines if line != "ok" and not line.startswith(_OF_ROWS)]


def size(connection: Connection) -> int:
    """Bytes of all pages of a SQLite database."""
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    return int(connection.exec_driver_sql(pages).scalar_one())


def in_memory(memory: sqlite3.Connection | None = None) -> Engine:
    """Engine for a database in memory, which all threads share.

    Args:
        memory: Connection with the database; ``None`` for a new connection.
    """
    memory = memory or sqlite3.connect(":memory:", check_same_thread=False)
    return _configured(create_engine("sqlite://", creator=lambda: memory, poolclass=StaticPool))


def empty(engine: Engine) -> Engine:
    """The engine, after its empty database has become a store."""
    with engine.execution_options(writes=True).begin() as connection:
        create(connection)
    return engine


_TRUNCATE_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Moves all changes from the log into the file."""

_DAMAGED = "restore the file if it was a result store"
_CURES = {
    "not a database": _DAMAGED,
    "malformed": _DAMAGED,
    "no such": _DAMAGED,
    "decode to UTF-8": _DAMAGED,
    "full": "free some space",
    "No space": "free some space",
    # SQLite says no more than this where its log cannot be begun.
    "disk I/O error": "see whether the disk is full, check the rights to file and folder",
    "locked": "another program keeps the file locked: end it",
}
"""First half of the hint, by words of the error that SQLite or the system gives."""


def _holds_something(path: Path) -> bool:
    """Whether there is a file that is not empty."""
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, not a result store",
            f"Name a file in it, such as {settings(store=path / 'results.db')}",
        )
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(
            f"{path} is not a regular file", f"Choose another with {argument('store')}."
        )
    return found.st_size > 0


def _opened(path: Path, how: str) -> closing[sqlite3.Connection]:
    """Connection that is closed at the end of a ``with`` block."""
    uri = f"{path.as_uri()}?{how}"
    return closing(sqlite3.connect(uri, uri=True, timeout=database.BUSY_SECONDS))


def _copy(path: Path, target: sqlite3.Connection) -> None:
    """Copies the database as it is, even where no file can be made beside it."""
    if not _in_use(path):
        # An ordinary connection would leave files of this user beside the database.
        before = path.stat()
        with _opened(path, "mode=ro&immutable=1") as source:
            source.backup(target)
        after = path.stat()
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            return
    if _is_left(path):
        with _copied(path) as copy:
            _copy_shared(copy, "mode=rw", target)
        return
    try:
        _copy_shared(path, "mode=ro", target)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        # A killed process left a log, and the database cannot be written: a copy of both can.
        with _copied(path) as copy:
            _copy_shared(copy, "mode=rw", target)


@contextmanager
def _unchanging(path: Path) -> Iterator[str]:
    """URI for reading a file that must not change meanwhile: the file itself, or a copy."""
    if not _in_use(path):
        yield f"{path.as_uri()}?mode=ro&immutable=1"
        return
    with _copied(path) as copy:
        yield f"{copy.as_uri()}?mode=rw"


@contextmanager
def _looked_at(path: Path) -> Iterator[sqlite3.Connection]:
    """Connection that finds out what a file is: what is no store stays as it is, and its folder."""
    if _is_left(path):
        with _copied(path) as copy, _opened(copy, "mode=rw") as connection:
            yield connection
        return
    # An ordinary connection would begin a log, which is right for a store alone.
    how = "mode=ro" if _in_use(path) or _is_marked(path) else "mode=ro&immutable=1"
    with _opened(path, how) as connection:
        yield connection


_MARK_AT = 68
"""Place of the application's number in a SQLite file."""


def _is_marked(path: Path) -> bool:
    """Whether a file says that it is a store; one that is being made says so in its log."""
    with opened(path) as file:
        file.seek(_MARK_AT)
        return int.from_bytes(file.read(4), "big") == APPLICATION_ID


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """A copy of the database with its logs."""
    path = path.resolve()
    with tempfile.TemporaryDirectory(prefix="dlbricks-store-") as folder:
        for each in (path, *_in_use(path)):
            shutil.copyfile(each, Path(folder) / each.name)
        yield Path(folder) / path.name


def _beside(path: Path, *endings: str) -> list[Path]:
    """Files of SQLite beside the database; those of a link are where it leads."""
    path = path.resolve()
    return [path.with_name(f"{path.name}-{ending}") for ending in endings]


def _in_use(path: Path) -> list[Path]:
    """Logs with changes that the database file does not hold yet.

    Raises:
        StoreError: If SQLite would do something to another file because of one of them.
    """
    logs = _beside(path, "wal", "journal")
    for log in logs:
        if log.is_symlink() or _names_a_file(log):
            raise StoreError(
                f"{log} refers to another file, as no log of a result store does",
                "move it away, if the store comes from somebody else",
            )
    return [log for log in logs if log.exists() and log.stat().st_size]


_NAME_FOLLOWS = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal that names the journal of several databases, as SQLite writes them."""


def _names_a_file(log: Path) -> bool:
    """Whether a log names a file, which SQLite deletes once it has taken the changes back."""
    try:
        with opened(log) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - len(_NAME_FOLLOWS), 0))
            return file.read() == _NAME_FOLLOWS
    except FileNotFoundError:
        return False


def _is_left(path: Path) -> bool:
    """Whether another program left a log without its index, which a connection would begin anew.

    A store whose log has no index is locked by somebody.
    """
    log, index = _beside(path, "wal", "shm")
    return log in _in_use(path) and not index.exists() and not _is_marked(path)


def _copy_shared(path: Path, how: str, target: sqlite3.Connection) -> None:
    with _opened(path, how) as source:
        # Reading waits for a lock as long as it may; the backup would wait for ever.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(target)


def _configured(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transactions begin late, and only for some statements.
        connection.isolation_level = None
        # Bytes that are not UTF-8 must not end a query: the row is found damaged when it is read.
        connection.text_factory = _lenient
        # First: to begin a log with the usual care makes one more wait for the disk.
        connection.execute("PRAGMA synchronous = NORMAL")
        _keep_a_log(connection)
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer locks at once: after a read, SQLite would not wait for the lock.
        mode = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Switches a new file to a write-ahead log, so that many can read while one writes.

    Two processes that switch the same file at once would wait for each other. For one of them,
    SQLite reports a locked file at once, without the wait of other statements.
    """
    deadline = time.monotonic() + database.BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return

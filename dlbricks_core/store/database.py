"""Opening the database file. Only this module and the migrations know that it is SQLite."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from dlbricks_core.errors import StoreError
from dlbricks_core.store.schema import APPLICATION_ID, HEAD, metadata
from dlbricks_core.wording import argument, settings

BUSY_SECONDS = 60.0
"""Longest time that a process waits for another that is writing."""

_RETRY_SECONDS = 0.01
MIGRATIONS = Path(__file__).parent / "migrations"


def locate(location: str | Path | None) -> Path:
    """Absolute path of a store's file.

    Args:
        location: Path, or URL such as ``sqlite:///results.db``; ``None`` for the file in the
            user's data folder.

    Raises:
        StoreError: If a URL names no SQLite file, or there is no data folder.
    """
    if location is None:
        try:
            return _absolute(platformdirs.user_data_path("dlbricks") / "results.db")
        except RuntimeError as error:
            raise _homeless("the result store") from error
    if isinstance(location, Path) or "://" not in location:
        return _absolute(location)
    try:
        url = make_url(location)
    except ArgumentError as error:
        raise StoreError(f"not a database URL: {location}", "try sqlite:///results.db") from error
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        raise StoreError(
            f"the result store must be a SQLite file: {url.render_as_string()}",
            "give a path, or a URL such as sqlite:///results.db",
        )
    return _absolute(str(url.database))


def _absolute(location: str | Path) -> Path:
    path = os.path.expanduser(location)  # noqa: PTH111 - unlike Path's own it never raises
    if path.startswith("~"):
        raise _homeless(str(location))
    with translated(Path(path)):
        return Path(path).absolute()


def _homeless(what: str) -> StoreError:
    return StoreError(
        f"{what}: there is no home folder", f"give a path: {settings(store='results.db')}"
    )


def connect(path: Path) -> Engine:
    """Connection to the database, which is created or upgraded as needed.

    A file is written to only after it has proved to be a result store, or empty.

    Raises:
        StoreError: If the file cannot be used.
    """
    revision = None
    with translated(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if _holds_something(path):
            with _opened(path, "mode=ro") as connection:
                revision = _revision(connection, path)
    url = URL.create("sqlite", database=str(path))
    engine = _configured(create_engine(url, connect_args={"timeout": BUSY_SECONDS}))
    return _current(engine, path, revision)


def snapshot(path: Path) -> Engine:
    """Connection to a copy in memory of what the file holds now, upgraded there as needed.

    File and folder stay as they are, and need not be writable. Where there is no file, the copy
    is empty.

    Raises:
        StoreError: If the file cannot be used.
    """
    memory = sqlite3.connect(":memory:", check_same_thread=False)
    engine = _configured(create_engine("sqlite://", creator=lambda: memory, poolclass=StaticPool))
    with translated(path):
        if not _holds_something(path):
            metadata.create_all(engine)  # nobody will upgrade it
            return engine
        _copy(path, memory)
        revision = _revision(memory, path)
    return _current(engine, path, revision)


def check_exists(path: Path) -> None:
    """Checks that there is a store.

    Raises:
        StoreError: If there is none.
    """
    with translated(path):
        if not path.exists():
            raise StoreError(
                f"{path}: there is no result store", f"name one with {argument('store')}"
            )


def compact(engine: Engine, path: Path) -> int:
    """Gives space that nothing needs back to the file system.

    Returns:
        Bytes that were freed.
    """
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()  # no transaction may be open
        cursor.execute(_TRUNCATE_LOG)
        before = path.stat().st_size
        cursor.execute("VACUUM")
        cursor.execute(_TRUNCATE_LOG)
        return before - path.stat().st_size
    finally:
        connection.close()


_TRUNCATE_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"
"""Moves all changes from the log into the file."""


def identity(path: Path) -> tuple[int, int] | None:
    """Numbers that tell a file from another of the same name; ``None`` where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns errors of database and file system into a :class:`StoreError` with a hint."""
    try:
        yield
    except (sqlite3.Error, SQLAlchemyError, OSError, OverflowError, UnicodeError) as error:
        # SQLAlchemy wraps the driver's error in a text of many lines.
        cause = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        culprit = getattr(error, "filename", None) or path
        raise StoreError(f"{culprit}: {reason}", _hint(reason)) from error


_DAMAGED = "the file is damaged or not a result store"
_CURES = {
    "not a database": _DAMAGED,
    "malformed": _DAMAGED,
    "no such": _DAMAGED,
    "decode to UTF-8": _DAMAGED,
    "full": "free some space",
    "No space": "free some space",
    "locked": "another program keeps the file locked: end it",
}
"""First half of the hint, by words of the error that SQLite or the system gives."""


def _hint(reason: str) -> str:
    fitting = (cure for words, cure in _CURES.items() if words in reason)
    return _or_another(next(fitting, "check the rights to file and folder"))


def _or_another(cure: str) -> str:
    """Hint that ends with the way out: another file."""
    return f"{cure}, or choose another file with {argument('store')}"


def _holds_something(path: Path) -> bool:
    """Whether there is a file that is not empty."""
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, not a result store",
            f"name a file in it, such as {settings(store=path / 'results.db')}",
        )
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is no regular file", f"choose another with {argument('store')}")
    return found.st_size > 0


def _revision(connection: sqlite3.Connection, path: Path) -> str | None:
    """Schema revision of the database, read without writing; ``None`` if the database is new."""
    kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT type FROM sqlite_schema")}
    if not kinds:
        return None
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise StoreError(
            f"{path} is a database of another program, not a result store",
            f"choose another file with {argument('store')}",
        )
    if odd := kinds - {"table", "index"}:
        raise StoreError(
            f"{path}: the result store holds a {min(odd)}, as none should", _or_another(_DAMAGED)
        )
    versions = {row[0] for row in connection.execute("SELECT version_num FROM alembic_version")}
    revision = versions.pop() if len(versions) == 1 else None
    if isinstance(revision, str) and revision > HEAD:
        raise StoreError(
            f"{path}: the result store was written by a newer DLBricks "
            f"(schema {revision}, this one knows {HEAD})",
            _or_another("upgrade DLBricks"),
        )
    if revision not in {f"{number:04}" for number in range(1, int(HEAD) + 1)}:
        raise StoreError(f"{path}: the result store has no schema version", _or_another(_DAMAGED))
    if revision == HEAD:
        _check_columns(connection, path)
    return str(revision)


def _check_columns(connection: sqlite3.Connection, path: Path) -> None:
    for table in metadata.sorted_tables:
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")}
        if missing := [column.name for column in table.columns if column.name not in found]:
            raise StoreError(
                f"{path}: the result store lacks {table.name}.{missing[0]}", _or_another(_DAMAGED)
            )


def _opened(path: Path, how: str) -> closing[sqlite3.Connection]:
    """Connection that is closed at the end of a ``with`` block."""
    uri = f"{path.as_uri()}?{how}"
    return closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS))


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
    try:
        _copy_shared(path, "mode=ro", target)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        # A killed process left a log, and the database cannot be written: a copy of both can.
        with tempfile.TemporaryDirectory(prefix="dlbricks-store-") as folder:
            for each in (path, *_in_use(path)):
                shutil.copyfile(each, Path(folder) / each.name)
            _copy_shared(Path(folder) / path.name, "mode=rw", target)


def _in_use(path: Path) -> list[Path]:
    """Logs with changes that the database file does not hold yet."""
    logs = (path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-journal"))
    return [log for log in logs if log.exists() and log.stat().st_size]


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
        _keep_a_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: after it has read, SQLite would not let it wait.
        mode = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def _current(engine: Engine, path: Path, revision: str | None) -> Engine:
    if revision != HEAD:
        with translated(path):
            _upgrade(engine)
    return engine


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Switches a new file to a write-ahead log, so that many can read while one writes.

    Two processes that switch the same file at once would wait for each other. SQLite tells one of
    them at once that the file is locked, without the wait that other statements get.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _upgrade(engine: Engine) -> None:
    """Migrates under the write lock: a second process waits, and finds the work done."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.execution_options(writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, HEAD)

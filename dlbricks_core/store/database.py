"""Finding, checking and opening the database file; the only place that knows SQLite."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from dlbricks_core.errors import StoreError
from dlbricks_core.store.schema import APPLICATION_ID, HEAD

#: How long a process waits for another that is writing.
BUSY_SECONDS = 60.0
_RETRY_SECONDS = 0.01
MIGRATIONS = Path(__file__).parent / "migrations"


def locate(location: str | Path | None) -> Path:
    """The file that ``--store`` means.

    Args:
        location: A path, a URL such as ``sqlite:///results.db``, or None for the file
            in the user's data folder.

    Raises:
        StoreError: If a URL names no SQLite file.
    """
    if location is None:
        return Path(platformdirs.user_data_path("dlbricks")) / "results.db"
    if isinstance(location, Path) or "://" not in location:
        return Path(location).expanduser().absolute()
    try:
        url = make_url(location)
    except ArgumentError as error:
        raise StoreError(f"not a database URL: {location}", "try sqlite:///results.db") from error
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        raise StoreError(
            f"the result store must be a SQLite file: {url.render_as_string()}",
            "give a path, or a URL such as sqlite:///results.db",
        )
    return Path(str(url.database)).expanduser().absolute()


def connect(path: Path) -> Engine:
    """Opens the database, creating or upgrading it as needed.

    Nothing is written to a file before it is known to be a result store, or empty.

    Raises:
        StoreError: If the file cannot be used.
    """
    revision = _revision(path)
    if revision is not None and revision > HEAD:
        raise StoreError(
            f"{path}: the result store was written by a newer DLBricks "
            f"(schema {revision}, this one knows {HEAD})",
            "upgrade DLBricks, or choose another file with --store",
        )
    engine = _engine(path)
    if revision != HEAD:
        with translated(path):
            _upgrade(engine)
    return engine


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns a database error into one that the user can act on."""
    try:
        yield
    except (sqlite3.Error, SQLAlchemyError, OSError) as error:
        # SQLAlchemy wraps the driver's error in a text of many lines.
        cause = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
        reason = str(cause).strip().splitlines()[0]
        culprit = getattr(error, "filename", None) or path
        raise StoreError(f"{culprit}: {reason}", _hint(reason)) from error


def _hint(reason: str) -> str:
    if "not a database" in reason or "malformed" in reason:
        return "the file is damaged or not a result store; choose another with --store"
    if "full" in reason:
        return "free some space, or choose another place with --store"
    if "locked" in reason:
        return "another program keeps the file locked; end it, or choose another with --store"
    return "check that file and folder can be written, or choose another with --store"


def _revision(path: Path) -> str | None:
    """Schema revision of the file, None if it is new, found without writing to it."""
    with translated(path):
        if path.is_dir():
            raise StoreError(
                f"{path} is a folder, not a result store",
                f"name a file in it, such as --store {path / 'results.db'}",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size == 0:
            return None
        uri = f"{path.as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                return None
            ours = connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            if ours:
                query = "SELECT max(version_num) FROM alembic_version"
                revision: str | None = connection.execute(query).fetchone()[0]
                return revision
    raise StoreError(
        f"{path} is a database of another program, not a result store",
        "choose another file with --store",
    )


def _engine(path: Path) -> Engine:
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver would begin transactions late and only for some statements.
        connection.isolation_level = None
        _keep_a_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: one that has read before it writes cannot wait.
        mode = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Switches a new file to a write-ahead log, which many can read while one writes.

    Two that switch the same file at once hold what the other waits for; SQLite then tells
    one of them that the file is locked, without the wait that all other statements get.
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
    """Migrates under the write lock; whoever comes second finds the work done."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.execution_options(writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, HEAD)

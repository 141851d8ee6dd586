"""A store in a PostgreSQL database, which many machines share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    MetaData,
    String,
    create_engine,
    event,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.compiler import compiles

from dlbricks_core.errors import StoreError
from dlbricks_core.store import database, sqlite
from dlbricks_core.store.database import (
    Damage,
    Database,
    ServerLostError,
    check_columns,
    checked_revision,
    is_current,
)
from dlbricks_core.store.schema import (
    APPLICATION_ID,
    MARK,
    Bytewise,
    JoinedTexts,
    metadata,
)

_READS = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
# Each statement, also the first after the lock, sees commits of other processes.
_WRITES = {"isolation_level": "READ COMMITTED", "postgresql_readonly": False}

_NETWORK = {
    "connect_timeout": 10,
    # A host that vanishes without a word is noticed after a minute rather than after hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "dlbricks",
    "client_encoding": "utf8",
}
"""Parameters of libpq, in seconds and milliseconds, where the URL does not set them."""

_SCHEMA = "relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"

_TABLES = f"""
SELECT relname, obj_description(oid, 'pg_class') FROM pg_class WHERE {_SCHEMA}
AND relkind IN ('r', 'p', 'v', 'm', 'f')
AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
"""
"""Names of the schema's tables and views with their comments, without extensions."""

_COLUMNS = f"""
SELECT relname, attname FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
WHERE {_SCHEMA} AND attnum > 0 AND NOT attisdropped
"""

_SOON = (
    "starting up",
    "shutting down",
    "not yet accepting",
    "recovery mode",
    "closed the connection unexpectedly",
    "connection is closed",
    "terminating connection",
)
"""Words of a server that will be there in a moment."""

_MISSING = re.compile('database ".*" does not exist')
"""Words of a server that has no such database."""

_RUNNING = "check host and port, and whether the server runs"
_CURES = {
    "password": "check user and password; PGPASSWORD or ~/.pgpass keep them out of the URL",
    "pg_hba.conf": "let this host, user and database in (pg_hba.conf on the server)",
    "role": "check the user",
    'database "': "create the database (createdb), or check its name",
    "refused": _RUNNING,
    "timeout expired": _RUNNING,
    "resolve host": _RUNNING,
    "No route": _RUNNING,
    "unreachable": _RUNNING,
    "No such file": _RUNNING,
    "lock timeout": "another program keeps the store locked: end it",
    "too many": "allow more connections on the server (max_connections)",
    "read-only transaction": "name a server that accepts changes",
    "permission denied": "let the user create tables and write in this schema",
    "no schema": "create the schema that the URL names",
    "No space": "free some space on the server",
}
"""First half of the hint, by words of the error that the server or libpq gives."""


_DRIVERS = {"postgres", "postgresql", "postgresql+psycopg"}
"""Beginnings of URLs that name a database for psycopg."""


def located(url: URL) -> PostgreSQL:
    """The database of a URL; nothing is opened.

    Raises:
        StoreError: If the URL names another driver than psycopg.
    """
    if url.drivername not in _DRIVERS:
        raise StoreError(
            f"PostgreSQL is read through psycopg, not through {url.drivername}://...",
            "write postgresql+psycopg://user@host/database",
        )
    return PostgreSQL(url.set(drivername="postgresql+psycopg"))


@dataclass(frozen=True)
class PostgreSQL(Database):
    """A store in a PostgreSQL database.

    Everything is in the first schema of the search path, usually ``public``. One process writes
    at a time: it holds an advisory lock, which the server releases if the process dies.

    Attributes:
        url: URL with the driver psycopg.
    """

    url: URL = field(repr=False)
    noun: ClassVar[str] = "database"

    def __str__(self) -> str:
        # Without the query, because libpq accepts passwords there, too.
        kept = ("username", "host", "port", "database")
        parts = {name: getattr(self.url, name) for name in kept}
        return URL.create("postgresql", **parts).render_as_string()

    @property
    def name(self) -> str:
        """Name of the database; empty where libpq chooses it."""
        return self.url.database or ""

    def check_exists(self) -> None:
        """Checks that there is a database, and that it is not empty."""
        engine = self._engine()
        try:
            with self.translated():
                engine.connect().close()
            with self.transaction(engine, writes=False) as connection:
                revision = self.revision(connection)
        except StoreError as error:
            if _MISSING.search(error.message):
                raise self.absent() from error
            raise
        finally:
            engine.dispose()
        if revision is None:
            raise self.absent()

    def connect(self) -> Engine:
        """Connection to the database, which is filled or upgraded as needed."""
        return self._opened(writes=True)

    def inspected(self) -> tuple[Engine, Damage]:
        """Connection that only reads.

        A store of an older version is copied into memory and upgraded there. Where there is none,
        the copy is empty. Nothing is lost: the server looks after its pages.
        """
        return self._opened(writes=False), Damage()

    def revision(self, connection: Connection) -> str | None:
        """Schema revision, read without writing; ``None`` if the schema is empty."""
        marks = {row[0]: row[1] for row in connection.execute(text(_TABLES))}
        if not marks:
            return None
        if marks.get("alembic_version") != MARK:
            raise StoreError(
                f"{self} is a database of another program, not a result store",
                "create one for DLBricks (createdb), or name an empty schema",
            )
        versions = connection.scalars(text("SELECT version_num FROM alembic_version"))
        revision = checked_revision(versions, self)
        if is_current(revision):
            check_columns(((row[0], row[1]) for row in connection.execute(text(_COLUMNS))), self)
        return revision

    def size(self, connection: Connection) -> int:
        """Bytes of the store's tables on the server, with their indexes."""
        if _is_copy(connection):
            return sqlite.size(connection)
        return sum(
            connection.scalar(select(func.pg_total_relation_size(func.to_regclass(name)))) or 0
            for name in metadata.tables
        )

    def compact(self, engine: Engine) -> int:
        """Makes the space available for new results, and returns space at the end of a table.

        Others read and write meanwhile. All of the space would be given back only by a rewrite
        that locks them out.
        """
        with self.transaction(engine, writes=False) as connection:
            before = self.size(connection)
        alone = engine.execution_options(isolation_level="AUTOCOMMIT", postgresql_readonly=False)
        with self.translated(), self._connected(alone) as connection:
            connection.exec_driver_sql(f"VACUUM {', '.join(metadata.tables)}")
        with self.transaction(engine, writes=False) as connection:
            return max(before - self.size(connection), 0)  # maps of free space take some

    def failure(self, error: Exception) -> StoreError:
        """An error of the server or the driver in one line, with a hint."""
        said = database.cause(error)
        reason = (str(said).strip() or type(said).__name__).splitlines()[0]
        reason = reason.removeprefix("connection failed: ").removeprefix("connection is bad: ")
        cut_off = isinstance(error, DBAPIError) and error.connection_invalidated
        may_return = cut_off or any(words in reason for words in _SOON)
        fitting = (cure for words, cure in _CURES.items() if words in reason)
        hint = self.or_another(next(fitting, "check the URL and the server"))
        return (ServerLostError if may_return else StoreError)(f"{self}: {reason}", hint)

    @contextmanager
    def transaction(self, engine: Engine, *, writes: bool) -> Iterator[Connection]:
        """Connection with one consistent view of the store.

        Raises:
            ServerLostError: If the server was lost. It has kept none of the changes or, where it
                was committing them, perhaps all.
        """
        if _is_copy(engine):
            with super().transaction(engine, writes=writes) as connection:
                yield connection
            return
        options = _WRITES if writes else _READS
        with (
            self.translated(),
            self._connected(engine.execution_options(**options)) as connection,
            connection.begin(),
        ):
            if writes:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPLICATION_ID})")
            yield connection

    def _opened(self, *, writes: bool) -> Engine:
        engine = self._engine()
        try:
            with self.translated():
                engine.connect().close()
            with self.transaction(engine, writes=False) as connection:
                revision = self.revision(connection)
                copy = None if writes or is_current(revision) else _copied(connection, revision)
            if copy is None:
                return self.upgraded(engine, revision)
        except BaseException:
            engine.dispose()
            raise
        engine.dispose()
        return copy if revision is None else self.upgraded(copy, revision)

    def _engine(self) -> Engine:
        missing = {name: value for name, value in _NETWORK.items() if name not in self.url.query}
        try:
            with self.translated():
                engine = create_engine(self.url, connect_args=missing, pool_pre_ping=True)
        except ImportError as error:
            raise StoreError(
                f"{self}: PostgreSQL needs psycopg, which cannot be imported ({error})",
                "install it: pip install 'psycopg[binary]'",
            ) from error

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _record: Any) -> None:
            from psycopg.types.string import TextLoader

            # As SQLite gives it: damage in one row must not end the query.
            connection.adapters.register_loader("json", TextLoader)
            busy_ms = int(database.BUSY_SECONDS * 1000)
            connection.execute(f"SET lock_timeout = {busy_ms}")
            # A writer that was stopped, or whose host vanished, must not lock others out.
            connection.execute(f"SET idle_in_transaction_session_timeout = {busy_ms // 2}")
            connection.commit()

        return engine

    @contextmanager
    def _connected(self, engine: Engine) -> Iterator[Connection]:
        """Connection to a server that has answered before."""
        try:
            connection = engine.connect()
        except (InterfaceError, OperationalError) as error:
            found = self.failure(error)
            raise ServerLostError(found.message, found.hint) from error
        with connection:
            yield connection


def _is_copy(database: Engine | Connection) -> bool:
    """Whether it is a copy in memory rather than the server's."""
    return database.dialect.name == "sqlite"


def _copied(connection: Connection, revision: str | None) -> Engine:
    """The store in a SQLite database in memory.

    Args:
        connection: To the store.
        revision: Its schema revision; ``None`` if there is no store, so that the copy is empty.
    """
    engine = sqlite.in_memory()
    if revision is None:
        return sqlite.empty(engine)
    tables = MetaData()

    @event.listens_for(tables, "column_reflect")
    def generalize(_inspector: Any, _table: Any, column: dict[str, Any]) -> None:
        kind = column["type"].as_generic()
        column["type"] = String() if isinstance(kind, JSON) else kind  # it comes as text
        column["default"] = None  # a sequence, which SQLite does not have

    tables.reflect(connection)
    with engine.execution_options(writes=True).begin() as copy:
        tables.create_all(copy)
        for table in tables.sorted_tables:
            if rows := [row._asdict() for row in connection.execute(select(table))]:
                copy.execute(insert(table), rows)
    return engine


@compiles(JoinedTexts, "postgresql")
def _joined(element: JoinedTexts, compiler: Any, **how: Any) -> str:
    each, order = (compiler.process(part, **how) for part in element.clauses)
    return f"convert_to(string_agg(CAST({each} AS TEXT), ',' ORDER BY {order}), 'UTF8')"


@compiles(Bytewise, "postgresql")
def _collated(element: Bytewise, compiler: Any, **how: Any) -> str:
    (text,) = element.clauses
    return f'{compiler.process(text, **how)} COLLATE "C"'

"""Interface of a store's database, and of kinds of databases that other distributions bring."""

from __future__ import annotations

import reprlib
import sqlite3
import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from dlbricks_core.errors import StoreError
from dlbricks_core.store.schema import HEAD, create, metadata
from dlbricks_core.store.upkeep import upkeep
from dlbricks_core.wording import argument

# Damaged rows of a store: counted by table, and the first of them named.

_NAMED = 3
"""Damaged rows that are named of each table, and in a warning; the others are counted."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


@dataclass
class Damage:
    """Damaged rows of a store.

    Attributes:
        counts: Number of damaged rows by table.
        named: The first damaged rows of each table, each with the reason.
    """

    counts: Counter[str] = field(default_factory=Counter)
    named: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, table: str, key: object, reason: str) -> None:
        """Notes a row.

        Args:
            table: Name of its table.
            key: Key of the row, which may be of any type.
            reason: Reason why it cannot be read.
        """
        self.lose(table, f"row {_spelled(key)} of {table}", reason)

    def lose(self, table: str, rows: str, reason: str) -> None:
        """Notes several rows, or an unknown number of rows as one.

        Args:
            table: Name of their table.
            rows: The rows in words.
            reason: Reason why they cannot be read.
        """
        named = self.named.setdefault(table, {})
        if rows not in named:
            self.counts[table] += 1
            if len(named) < _NAMED:
                named[rows] = reason

    @property
    def words(self) -> str:
        """The damage in a line: the first rows with their reasons, and the number of others."""
        every = [f"{row} ({why})" for rows in self.named.values() for row, why in rows.items()]
        more = self.counts.total() - len(every[:_NAMED])
        return "; ".join(every[:_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _spelled(key: object) -> str:
    """A key in one line of bounded length."""
    return key if isinstance(key, str) and len(key) <= _short.maxstring else _short.repr(key)


BUSY_SECONDS = 60.0
"""Longest time that a process waits for another that is writing."""

LOST_SECONDS = 120.0
"""Longest time that a process tries to reach a server again that it has lost."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


ResultT = TypeVar("ResultT")


class ServerLostError(StoreError):
    """The server does not answer at the moment.

    After a loss during a commit, it is unknown whether the changes were kept. A transaction can
    therefore be repeated only if a second execution does no harm.
    """


class AbsentStoreError(StoreError):
    """A required result store does not exist at its location."""


class Database(ABC):
    """Location of a store. ``str`` returns its name for users, without secrets.

    Attributes:
        noun: Noun for the location in messages.
    """

    noun: ClassVar[str]

    @property
    def file(self) -> Path | None:
        """The database's file; ``None`` where a server has it."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the file or the database alone, without where it is."""

    @abstractmethod
    def check_exists(self) -> None:
        """Checks that there is a store.

        Raises:
            StoreError: If there is none.
        """

    def check_folder(self) -> None:  # noqa: B027  a server has none
        """Checks that there is a folder in which the store is, or may be.

        Raises:
            StoreError: If there is none.
        """

    @abstractmethod
    def connect(self) -> Engine:
        """Connection to the database, which is filled or upgraded as needed.

        A database is written to only after it has proved to be a result store, or empty.

        Raises:
            StoreError: If it cannot be used.
        """

    @abstractmethod
    def inspected(self) -> tuple[Engine, Damage]:
        """Connection for reading, and rows that are lost because the place itself is damaged.

        No right to write is needed, and nothing is changed.

        Raises:
            StoreError: If the database cannot be used.
        """

    def snapshot(self) -> Engine:
        """Connection for reading, as of :meth:`inspected`; a warning names rows that are lost."""
        engine, damage = self.inspected()
        if damage.counts:
            warnings.warn(f"{self}: the {self.noun} is damaged: {damage.words}", stacklevel=2)
        return engine

    def findings(self) -> list[str]:
        """Damage of the place itself, in words; none where a server looks after it."""
        return []

    @abstractmethod
    def revision(self, connection: Connection) -> str | None:
        """Schema revision, read without writing; ``None`` if the database is empty.

        Args:
            connection: From :meth:`transaction`.

        Raises:
            StoreError: If its content is not a store, or a store of a newer DLBricks.
        """

    @abstractmethod
    def size(self, connection: Connection) -> int:
        """Bytes that the store takes.

        Args:
            connection: From :meth:`transaction`.
        """

    @abstractmethod
    def compact(self, engine: Engine) -> int:
        """Frees unused space.

        Args:
            engine: From :meth:`connect`.

        Returns:
            Bytes that were freed.
        """

    @abstractmethod
    def failure(self, error: Exception) -> StoreError:
        """An error of database, driver or file system in one line, with a hint."""

    def or_another(self, cure: str) -> str:
        """Hint that ends with the way out: another store."""
        return (
            f"{cure[0].upper()}{cure[1:]}, or choose another {self.noun} with {argument('store')}"
        )

    @property
    def damaged(self) -> str:
        """Hint for a store that is not as DLBricks leaves it."""
        return self.or_another(f"restore the {self.noun} if it was a result store")

    def absent(self) -> AbsentStoreError:
        """The error that there is no store."""
        return AbsentStoreError(
            f"{self}: there is no result store", f"Name one with {argument('store')}."
        )

    def identity(self) -> object:
        """Identity that distinguishes the database from a replacement; ``None`` if unknown."""
        return None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns errors of database and file system into a :class:`StoreError` with a hint."""
        try:
            yield
        except (sqlite3.Error, SQLAlchemyError, OSError, OverflowError, UnicodeError) as error:
            raise self.failure(error) from error

    @contextmanager
    def transaction(self, engine: Engine, *, writes: bool) -> Iterator[Connection]:
        """Connection with one consistent view of the store.

        Args:
            engine: From :meth:`connect` or :meth:`snapshot`.
            writes: Whether there will be changes. They are committed together, and no other
                process writes meanwhile.
        """
        with self.translated(), engine.execution_options(writes=writes).begin() as connection:
            yield connection

    def upgraded(self, engine: Engine, revision: str | None) -> Engine:
        """A connection, after the schema was made, or brought to the newest version.

        All of it is one transaction under the write lock: a second process waits, and finds the
        work done.

        Args:
            engine: Connection to the database.
            revision: Schema revision that the database had; ``None`` if it was empty.
        """
        if is_current(revision):
            return engine
        with self.transaction(engine, writes=True) as connection:
            if revision is None:
                # Another process may have made the store before this one had the lock.
                revision = self.revision(connection)
            if revision is None:
                create(connection)
            elif not is_current(revision):
                needs = "a store of an earlier version is upgraded"
                upkeep(self, needs).migrate(connection, HEAD)
        return engine


class DatabaseKind(ABC):
    """Databases of one kind, in which stores are kept.

    Found through the entry-point group ``dlbricks.databases``. The class must be importable without
    the database's driver, because the list of plugins imports it.
    """

    #: Name of the kind, equal to the entry point's: the beginning of its URLs, without a driver.
    name: str

    @abstractmethod
    def at(self, url: URL) -> Database:
        """The database of a URL; nothing is opened.

        Raises:
            StoreError: If the URL names no database that can be used.
        """


def cause(error: Exception) -> Exception:
    """Message of the driver, which SQLAlchemy wraps in a text of many lines."""
    return getattr(error, "orig", None) or error


def is_current(revision: str | None) -> bool:
    """Whether a store of this schema revision needs no upgrade."""
    return revision == HEAD


def checked_revision(versions: Iterable[object], database: Database) -> str:
    """Schema revision of a store.

    Args:
        versions: Revisions that the database names.
        database: Where the store is kept.

    Raises:
        StoreError: If it is none, or newer than this DLBricks.
    """
    found = set(versions)
    revision = found.pop() if len(found) == 1 else None
    if isinstance(revision, str) and revision > HEAD:
        raise StoreError(
            f"{database}: the result store was written by a newer DLBricks "
            f"(schema {revision}, this one knows {HEAD})",
            database.or_another("upgrade DLBricks"),
        )
    if revision not in {f"{number:04}" for number in range(1, int(HEAD) + 1)}:
        raise StoreError(f"{database}: the result store has no schema version", database.damaged)
    return str(revision)


def check_columns(columns: Iterable[tuple[str, str]], database: Database) -> None:
    """Refuses a store that lacks a column of the newest schema.

    Args:
        columns: Names of the table and the column, of all that there are.
        database: Where the store is kept.

    Raises:
        StoreError: If a column is missing.
    """
    found = set(columns)
    for table in metadata.sorted_tables:
        for column in table.columns:
            if (table.name, column.name) not in found:
                raise StoreError(
                    f"{database}: the result store lacks {table.name}.{column.name}",
                    database.damaged,
                )


def patiently(database: Database, work: Callable[[], ResultT]) -> ResultT:
    """Result of a function, which is called again if the server is lost meanwhile.

    A warning says so before the second time. It is called as long as the server may come back.

    Args:
        database: Where the store is kept.
        work: Raises :class:`ServerLostError`. It may be done twice.

    Raises:
        StoreError: If the server stays away.
    """
    try:
        return work()
    except ServerLostError:
        what = f"the server was lost; trying again for {LOST_SECONDS:g} s"
        warnings.warn(f"{database}: {what}", stacklevel=3)
    deadline, pause = time.monotonic() + LOST_SECONDS, _FIRST_PAUSE
    while True:
        time.sleep(pause)
        try:
            return work()
        except ServerLostError as error:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{error.message} (for {LOST_SECONDS:g} s)",
                    "all earlier measurements are kept: run it again when the server answers",
                ) from error
        pause = min(2 * pause, _LONGEST_PAUSE)

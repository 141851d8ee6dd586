"""An open store: its connection, its transactions, and waiting for a lost server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import platformdirs
from sqlalchemy import ColumnElement, Connection, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from dlbricks_core.errors import StoreError, UnknownPluginError
from dlbricks_core.plugins import find, names, use
from dlbricks_core.preferences import preferred
from dlbricks_core.sanitize import without_secrets
from dlbricks_core.store.database import Database, DatabaseKind, patiently
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.sqlite import SQLiteFile
from dlbricks_core.wording import clone_install, settings

# Which database a path or URL names.

_EXAMPLES = "sqlite:///results.db or postgresql+psycopg://user@host/database"

_DISTRIBUTED = frozenset({"postgresql"})
"""Kinds of databases that distributions of DLBricks bring, in folders of these names."""

_SPELLINGS = {"postgres": "postgresql"}
"""Name of a kind of databases, by another beginning of its URLs."""


def locate(location: str | Path | None) -> Database:
    """The database that a store is kept in; nothing is opened.

    Args:
        location: Path, or URL such as ``sqlite:///results.db`` or
            ``postgresql+psycopg://user@host/database``; ``None`` for the user's
            preference, or the file in the user's data folder.

    Raises:
        StoreError: If a URL names neither a SQLite file nor a database of an installed kind, or
            there is no data folder. The error repeats no part of a URL that may be a password.
        UnknownPluginError: If the databases come with a distribution that is not installed.
    """
    if location is None:
        location = preferred("store")
    if location is None:
        try:
            return _file(platformdirs.user_data_path("dlbricks") / "results.db")
        except RuntimeError as error:
            raise _homeless("the result store") from error
    if without_secrets(str(location)) != str(location) and "://" not in str(location):
        # A file of that name would be shown everywhere.
        raise StoreError(
            f"not a database URL: {without_secrets(str(location))}",
            f"write {_EXAMPLES}, or a path without user and password",
        )
    if isinstance(location, Path) or "://" not in location:
        return _file(location)
    url = _parsed(location)
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database not in {None, "", ":memory:"}:
        return _file(str(url.database))
    kind = _SPELLINGS.get(kind, kind)
    if kind in names("database"):
        plugin = find("database", kind, DatabaseKind)
        found: Database = use(plugin, lambda: plugin.loaded().at(url))
        return found
    if kind in _DISTRIBUTED:
        raise UnknownPluginError(
            f"stores at {kind}://... come with dlbricks-{kind}, which is not installed",
            hint=clone_install(f"plugins/{kind}"),
        )
    raise StoreError(
        f"the result store must be a SQLite file or a PostgreSQL database: {url.drivername}://...",
        f"give a path, or a URL such as {_EXAMPLES}",
    )


def _parsed(location: str) -> URL:
    scheme = location.partition("://")[0]
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):
        # The text and its cause, which repeats a part of it, are left out: either may contain a
        # password.
        hint = f"write {_EXAMPLES}, with %40 for @, %3A for : and %2F for / in user and password"
        raise StoreError(f"not a database URL: {scheme}://...", hint) from None
    if "@" in f"{url.host}{url.database}":
        raise StoreError(
            f"not a database URL: {scheme}://... has more than one @",
            "write %40 for an @ in the user or the password",
        )
    return url


def _file(location: str | Path) -> SQLiteFile:
    path = os.path.expanduser(location)  # noqa: PTH111 - unlike Path's own it never raises
    if path.startswith("~"):
        raise _homeless(str(location))
    with SQLiteFile(Path(path)).translated():
        return SQLiteFile(Path(path).absolute())


def _homeless(what: str) -> StoreError:
    return StoreError(
        f"{what}: there is no home folder", f"give a path: {settings(store='results.db')}"
    )


ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")
StoreT = TypeVar("StoreT", bound="OpenStore")


def again_when_lost(
    method: Callable[Concatenate[StoreT, ArgumentsT], ResultT],
) -> Callable[Concatenate[StoreT, ArgumentsT], ResultT]:
    """Makes a method of the store wait for a server that was lost.

    It is called again then, so it must be one transaction, and change nothing more when it is done
    twice: the server may have committed it before it was lost.
    """

    @wraps(method)
    def repeated(store: StoreT, /, *given: ArgumentsT.args, **named: ArgumentsT.kwargs) -> ResultT:
        if store.place.file is not None:
            return method(store, *given, **named)  # nobody loses a file
        positions: Any = map(_reusable, given)
        names: Any = zip(named, map(_reusable, named.values()), strict=True)
        positions, names = tuple(positions), dict(names)
        return patiently(store.place, lambda: method(store, *positions, **names))

    return repeated


def _reusable(argument: object) -> object:
    """The argument; if it can be read only once, a tuple of its elements."""
    return tuple(argument) if isinstance(argument, Iterator) else argument


class OpenStore:
    """Connection to a store, which is a SQLite file or a PostgreSQL database.

    Args:
        place: Where the store is kept.
        writes: Whether results will be added.

    Attributes:
        place: Where the store is kept. Its text, for people, holds no password.
    """

    def __init__(self, place: Database, *, writes: bool = True) -> None:
        self.place = place
        self._engine = patiently(place, place.connect if writes else place.snapshot)
        # The pool keeps the connection: while it is open, no other file gets this one's identity.
        with place.translated():
            self._engine.connect().close()
        self._identity = place.identity() if writes else None
        self._taken: ColumnElement[bool] | None = None

    @classmethod
    def open(
        cls, location: str | Path | None = None, *, writes: bool = True, create: bool = True
    ) -> Self:
        """Opens a store, creating it if there is none and upgrading an older one.

        Args:
            location: Path, or URL of a SQLite file or a PostgreSQL database; ``None`` for the
                file in the user's data folder.
            writes: Whether results will be added. If not, no right to write is needed, and no
                store is created: a missing file counts as an empty store, but a missing folder is
                an error. A file is read as it is now.
            create: Whether a missing store counts as an empty store.

        Raises:
            StoreError: If the database cannot be used; it is left as it was.
        """
        place = locate(location)
        if not create:
            patiently(place, place.check_exists)
        elif not writes and location is not None:
            place.check_folder()
        return cls(place, writes=writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_exception: object) -> None:
        self.close()
        if error is None:
            self._check_kept()

    def close(self) -> None:
        """Closes the connection. Everything is committed already."""
        self._engine.dispose()

    def _reader(self, connection: Connection) -> Reader:
        return Reader(connection, self.place, self._taken)

    def _check_kept(self) -> None:
        """Raises an error if the opened file was replaced or deleted."""
        if self._identity is not None and self.place.identity() != self._identity:
            raise StoreError(
                f"{self.place}: the result store was deleted or replaced during the run",
                "all later measurements are lost; run it again",
            )

    @again_when_lost
    def compact(self) -> int:
        """Returns unused space to the file system.

        Returns:
            Bytes that were freed.
        """
        return self.place.compact(self._engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connection with one consistent view of the store."""
        self._check_kept()
        with self.place.transaction(self._engine, writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Connection whose changes are committed together; no other process writes meanwhile."""
        self._check_kept()
        with self.place.transaction(self._engine, writes=True) as connection:
            yield connection

"""An open store: its connection, its transactions, and waiting for a lost server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import ColumnElement, Connection

from dlbricks_core.errors import StoreError
from dlbricks_core.store.database import Database, patiently
from dlbricks_core.store.location import locate
from dlbricks_core.store.rows import Reader

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
                store is created. A file is read as it is now.
            create: Whether a missing store counts as an empty store.

        Raises:
            StoreError: If the database cannot be used; it is left as it was.
        """
        place = locate(location)
        if not create:
            patiently(place, place.check_exists)
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

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Connection with one consistent view of the store."""
        self._check_kept()
        with self.place.transaction(self._engine, writes=False) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Connection whose changes are committed together; no other process writes meanwhile."""
        self._check_kept()
        with self.place.transaction(self._engine, writes=True) as connection:
            yield connection

"""Which database a path or URL names."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from dlbricks_core.errors import StoreError
from dlbricks_core.preferences import preferred
from dlbricks_core.sanitize import without_secrets
from dlbricks_core.store.database import Database
from dlbricks_core.store.sqlite import SQLiteFile
from dlbricks_core.wording import settings

_EXAMPLES = "sqlite:///results.db or postgresql+psycopg://user@host/database"


def locate(location: str | Path | None) -> Database:
    """The database that a store is kept in; nothing is opened.

    Args:
        location: Path, or URL such as ``sqlite:///results.db`` or
            ``postgresql+psycopg://user@host/database``; ``None`` for the user's
            preference, or the file in the user's data folder.

    Raises:
        StoreError: If a URL names neither a SQLite file nor a PostgreSQL database, or there is no
            data folder. The error repeats no part of a URL that may be a password.
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
    if url.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        from dlbricks_core.store.postgresql import PostgreSQL

        return PostgreSQL(url.set(drivername="postgresql+psycopg"))
    if url.get_backend_name() == "sqlite" and url.database not in {None, "", ":memory:"}:
        return _file(str(url.database))
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

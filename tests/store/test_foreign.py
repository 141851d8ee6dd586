"""SQLite files of other programs: refused in one line, and never changed, nor their folder."""

import sqlite3
from contextlib import closing

import pytest
from dlbricks_records.contents import check

from dlbricks_core.errors import StoreError
from dlbricks_core.store import ResultStore
from dlbricks_core.store.schema import APPLICATION_ID, HEAD

#: Statements that make a file such as other programs keep, by what it is.
FOREIGN = {
    "experiments": (
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
        f"INSERT INTO alembic_version VALUES ('{HEAD}')",
        "CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT)",
        "CREATE TABLE metrics (key TEXT, value FLOAT, run_uuid TEXT REFERENCES runs)",
    ),
    "names like a store's": (
        "CREATE TABLE systems (name TEXT)",
        "CREATE TABLE sessions (token TEXT)",
        "CREATE TABLE measurements (taken REAL, celsius REAL)",
        "INSERT INTO measurements VALUES (1.0, 21.5)",
    ),
    "a map": (
        "PRAGMA application_id = 0x47504B47",
        "CREATE TABLE gpkg_contents (table_name TEXT PRIMARY KEY, data_type TEXT)",
        "CREATE VIRTUAL TABLE areas USING fts4(name)",
        "CREATE VIEW layers AS SELECT table_name FROM gpkg_contents",
        "CREATE TRIGGER kept BEFORE DELETE ON gpkg_contents BEGIN SELECT RAISE(ABORT, 'no'); END",
    ),
    "a map without tables": ("PRAGMA application_id = 0x47504B47", "PRAGMA user_version = 10300"),
    "other text": ("PRAGMA encoding = 'UTF-16le'", "CREATE TABLE pages (title TEXT)"),
    "small pages": ("PRAGMA page_size = 512", "CREATE TABLE pages (title TEXT)"),
    "large pages": ("PRAGMA page_size = 65536", "CREATE TABLE pages (title TEXT)"),
    "gaps": (
        "PRAGMA auto_vacuum = INCREMENTAL",
        "CREATE TABLE pages (content BLOB)",
        "INSERT INTO pages VALUES (zeroblob(100000))",
        "DELETE FROM pages",
    ),
    "the mark of a store": (
        f"PRAGMA application_id = {APPLICATION_ID}",
        "CREATE TABLE pages (title TEXT)",
    ),
    "a log": ("PRAGMA journal_mode = WAL", "CREATE TABLE pages (title TEXT)"),
}


def contents(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def refused(path):
    """What is said of a file that is no store, which stays as it is, however it is opened."""
    before, said = contents(path.parent), set()
    for use in (
        lambda: ResultStore.open(path, writes=False),
        lambda: ResultStore.open(path),
        lambda: check(path),
    ):
        with pytest.raises(StoreError) as caught:
            use()
        assert caught.value.message.startswith(str(path))
        assert "\n" not in caught.value.message
        assert caught.value.hint
        assert contents(path.parent) == before
        said.add(caught.value.message)
    return said


def made(path, statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_database_of_another_program_stays_as_it_is(tmp_path, kind):
    said = refused(made(tmp_path / "other.db", FOREIGN[kind]))
    words = "no schema version" if kind == "the mark of a store" else "of another program"
    assert any(words in each or "no such table" in each for each in said)


def test_a_database_that_another_program_uses_stays_as_it_is(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE pages (title TEXT)")
        folder = tmp_path / "left"
        folder.mkdir()
        for each in ("other.db", "other.db-wal"):  # as after its program was killed
            (folder / each).write_bytes((tmp_path / each).read_bytes())
        assert all("another program" in each for each in refused(folder / "other.db"))


@pytest.mark.parametrize("begin", [b"", b"SQLite format 3\0", b"** This file contains an SQLite"])
def test_an_encrypted_or_cut_database_stays_as_it_is(tmp_path, begin):
    path = tmp_path / "other.db"
    path.write_bytes(begin + bytes(range(256)) * 64)
    refused(path)

"""Opening existing files: older, newer, foreign and damaged ones."""

import os
import shutil
import sqlite3
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from dlbricks_records.contents import info
from dlbricks_records.upkeep import migrations

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.store import ResultStore, database, schema
from dlbricks_core.store.opened import locate

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")

LATER = f"{int(schema.HEAD) + 1:04}"

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"

def upgrade():
    op.add_column("measurements", sa.Column("note", sa.String(), server_default="hello"))
    {last}
"""


def fill(place):
    with ResultStore.open(place) as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)))
    return place


@pytest.fixture
def filled(tmp_path):
    return fill(tmp_path / "results.db")


def next_schema(tmp_path, monkeypatch, last="pass"):
    """Makes the process run a later version of DLBricks."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.MIGRATIONS, folder)
    (folder / "versions" / f"v{LATER}_next.py").write_text(
        NEXT.format(last=last, revision=LATER, before=schema.HEAD)
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", folder)
    monkeypatch.setattr(database, "HEAD", LATER)


def test_migrations_are_numbered_in_order_up_to_the_newest():
    config = Config()
    config.set_main_option("script_location", str(migrations.MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    assert script.get_current_head() == schema.HEAD
    revisions = [found.revision for found in script.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)
    assert all(len(revision) == 4 and revision.isdigit() for revision in revisions)


def test_an_older_store_is_upgraded_and_keeps_its_data(unused, ask, tmp_path, monkeypatch):
    fill(unused)
    next_schema(tmp_path, monkeypatch)
    with ResultStore.open(unused) as store:
        assert store.get([KEY])[KEY].values == (1.5,)
    assert ask(unused, "SELECT note FROM measurements") == [("hello",)]
    assert ask(unused, "SELECT version_num FROM alembic_version") == [(LATER,)]


def test_an_older_store_that_is_only_read_stays_as_it_is(unused, ask, tmp_path, monkeypatch):
    fill(unused)
    before = ask(unused, "SELECT version_num FROM alembic_version")
    next_schema(tmp_path, monkeypatch)
    with ResultStore.open(unused, writes=False) as store:
        assert store.get([KEY])[KEY].values == (1.5,)
        assert store.sampled(LATENCY)[0].values == ((1.5,),)
        assert info(store).observations == 1
    assert ask(unused, "SELECT version_num FROM alembic_version") == before


def test_no_store_is_made_where_one_is_only_read(unused, request):
    with ResultStore.open(unused, writes=False) as store:
        assert store.get([KEY]) == {}
        assert info(store).measurements == 0
    if isinstance(unused, str):
        tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        assert request.getfixturevalue("postgres").execute(tables, of=unused) == [(0,)]
    else:
        assert not unused.exists()


@pytest.mark.parametrize("writes", [True, False])
def test_where_no_store_is_to_be_made_there_must_be_one(unused, writes):
    with pytest.raises(StoreError, match="there is no result store"):
        ResultStore.open(unused, writes=writes, create=False)
    fill(unused)
    with ResultStore.open(unused, writes=writes, create=False) as store:
        assert info(store).observations == 1


def test_a_store_of_the_first_schema_is_upgraded_and_keeps_its_data(tmp_path, migrated):
    path = migrated(tmp_path / "results.db", "0001")
    for table, row in (
        ("measurements", "1, 'abc', 'brick', 'mxnet', '1.9.1', '{}', 'sys', 2, 'p', '[]', NULL"),
        ("sample_sets", "1, 1, 's', 0, '[1.5]', NULL, '[]', '2026-01-01T00:00:00+00:00'"),
    ):
        connection = sqlite3.connect(path)
        connection.execute(f"INSERT INTO {table} VALUES ({row})")
        connection.commit()
        connection.close()
    with ResultStore.open(path) as store:
        [found] = store.measurements()
    assert found.values == (1.5,)
    assert found.observations[0].spent_s is None


def test_an_upgrade_that_fails_changes_nothing(unused, ask, tmp_path, monkeypatch):
    fill(unused)
    with monkeypatch.context() as later:
        next_schema(tmp_path, later, last='op.execute("nonsense")')
        with pytest.raises(StoreError):
            ResultStore.open(unused)
    assert ask(unused, "SELECT version_num FROM alembic_version") == [(schema.HEAD,)]
    with ResultStore.open(unused) as store:
        assert store.get([KEY])[KEY].values == (1.5,)
    with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedColumn)):
        ask(unused, "SELECT note FROM measurements")


def refused(place):
    before = place.read_bytes() if isinstance(place, Path) else b""
    for writes in (True, False):
        with pytest.raises(StoreError) as caught:
            ResultStore.open(place, writes=writes)
        assert "\n" not in str(caught.value)
        assert str(locate(place)) in str(caught.value)
        assert caught.value.hint
    assert before == (place.read_bytes() if isinstance(place, Path) else b"")
    return str(caught.value)


def test_a_newer_store_is_refused_untouched(unused, ask, tmp_path, monkeypatch):
    fill(unused)
    with monkeypatch.context() as later:
        next_schema(tmp_path, later)
        ResultStore.open(unused).close()
    assert "newer" in refused(unused)
    assert ask(unused, "SELECT version_num FROM alembic_version") == [(LATER,)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE observations", "lacks observations"),
        ("ALTER TABLE measurements DROP COLUMN failure", "lacks measurements.failure"),
        ("DELETE FROM alembic_version", "no schema version"),
        ("DROP TABLE alembic_version", "another program"),
        ("COMMENT ON TABLE alembic_version IS NULL", "another program"),
    ],
)
def test_a_database_of_another_structure_is_refused(postgres, cleared, change, words):
    url = fill(cleared())
    postgres.execute(change, of=url)
    assert words in refused(url)


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 500)
    refused(path)


def test_a_database_of_another_program_is_refused_untouched(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.execute("INSERT INTO alembic_version VALUES ('0001')")
    connection.commit()
    connection.close()
    assert "another program" in refused(path)


def test_nothing_is_written_to_a_truncated_store_and_its_losses_are_named(filled):
    content = filled.read_bytes()
    half = content[: len(content) // 2]
    filled.write_bytes(half)
    with pytest.raises(StoreError, match="malformed"):
        ResultStore.open(filled)
    with pytest.warns(UserWarning, match="the file is damaged: .* of "):
        ResultStore.open(filled, writes=False).close()
    assert filled.read_bytes() == half


def test_a_store_damaged_inside_gives_an_error_and_is_left_alone(filled):
    content = bytearray(filled.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    filled.write_bytes(content)
    with pytest.raises(StoreError) as caught, ResultStore.open(filled) as store:
        store.get([KEY])
    assert "\n" not in str(caught.value)
    assert filled.read_bytes() == content


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="folder") as caught:
        ResultStore.open(tmp_path)
    assert "results.db" in caught.value.hint


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in ("/proc/nowhere/results.db", tmp_path / "file" / "a.db", "/dev/null"):
        with pytest.raises(StoreError) as caught:
            ResultStore.open(place)
        assert "\n" not in str(caught.value)
        assert caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_without_permission_is_refused(filled):
    filled.chmod(0)
    with pytest.raises(StoreError):
        ResultStore.open(filled)


def test_an_empty_file_becomes_a_store(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    with ResultStore.open(path) as store:
        assert info(store).measurements == 0

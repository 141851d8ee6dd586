"""A new store is made in one step, as a whole, by one process."""

import re
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from itertools import count

import pytest
from dlbricks_records.contents import info
from sqlalchemy import inspect, text

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.store import ResultStore, schema
from dlbricks_core.store.opened import locate

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")

#: What a server appends to names of its choice while a table of the first name is still there.
NUMBERED = re.compile(r"(_pkey|_id_seq)\d+")


def described(place):
    """Everything about a database that a program can come to rely on, and all of its rows."""
    engine = locate(place).connect()
    found = inspect(engine)
    told = {"views": found.get_view_names(), "tables": sorted(found.get_table_names())}
    for table in told["tables"]:
        told[table] = {
            "columns": [each | {"type": repr(each["type"])} for each in found.get_columns(table)],
            "primary key": found.get_pk_constraint(table),
            "foreign keys": found.get_foreign_keys(table),
            "unique": found.get_unique_constraints(table),
            "checks": found.get_check_constraints(table),
            "indexes": found.get_indexes(table),
        }
        with engine.connect() as connection:
            told[table]["rows"] = [*map(tuple, connection.execute(text(f"SELECT * FROM {table}")))]
            if isinstance(place, str):
                told[table]["comment"] = found.get_table_comment(table)
            else:
                marked = connection.exec_driver_sql("PRAGMA application_id")
                told["mark"] = marked.scalar_one()
    engine.dispose()
    return {name: NUMBERED.sub(r"\1", repr(part)) for name, part in told.items()}


@pytest.fixture
def places(kind, request, tmp_path):
    """Places for two new stores."""
    if kind == "sqlite":
        return tmp_path / "one.db", tmp_path / "other.db"
    postgres = request.getfixturevalue("postgres")
    return postgres.create(), postgres.create()


def test_a_new_store_equals_one_that_migrations_made(places, migrated):
    new, other = places
    made = described(new)
    assert made == described(migrated(other))
    assert repr(schema.HEAD) in made["alembic_version"]
    assert len(made["measurements"]) > 1000


@pytest.mark.process
def test_a_creation_that_is_killed_leaves_nothing_of_a_store(places, ask, open_killed):
    place, whole = places
    system = "pg_tables WHERE schemaname = 'public'" if isinstance(place, str) else "sqlite_schema"
    for last in count(1):
        if (status := open_killed(place, last)) == 0:
            break
        assert status == -signal.SIGKILL
        assert ask(place, f"SELECT count(*) FROM {system}") == [(0,)]
        with ResultStore.open(place, writes=False) as store:
            assert info(store).systems == 0
    assert last > len(schema.metadata.tables)
    assert described(place) == described(whole)


def test_a_store_that_another_process_made_meanwhile_is_used(place):
    with ResultStore.open(place) as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)))
        store.place.upgraded(store._engine, None)
        assert store.get([KEY])[KEY].values == (1.5,)


@pytest.fixture
def made_meanwhile(tmp_path):
    """Path of a file that is empty until another process has run these statements."""
    with ExitStack() as after:

        def begin(statements):
            path = tmp_path / "meanwhile.db"
            other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")
            for statement in statements:
                other.execute(statement)
            ending = threading.Timer(0.3, lambda: other.execute("COMMIT"))
            ending.start()
            after.callback(lambda: (ending.join(), other.close()))
            return path

        yield begin


def test_an_older_store_that_another_process_made_meanwhile_is_upgraded(
    made_meanwhile, migrated, tmp_path, ask
):
    with closing(sqlite3.connect(migrated(tmp_path / "old.db", "0006"))) as old:
        made = [each for each in old.iterdump() if not each.startswith(("BEGIN", "COMMIT"))]
    path = made_meanwhile([*made, f"PRAGMA application_id = {schema.APPLICATION_ID}"])
    ResultStore.open(path).close()
    assert ask(path, "SELECT version_num FROM alembic_version") == [(schema.HEAD,)]
    assert described(path) == described(tmp_path / "new.db")


def test_a_database_that_another_program_made_meanwhile_is_refused(made_meanwhile, ask):
    path = made_meanwhile(["CREATE TABLE systems (x)"])
    with pytest.raises(StoreError, match="another program"):
        ResultStore.open(path)
    assert ask(path, "SELECT name FROM sqlite_schema") == [("systems",)]


@pytest.mark.process
def test_opening_a_new_or_current_store_needs_no_alembic(tmp_path):
    script = (
        "import sys; from dlbricks_core.store import ResultStore;"
        "ResultStore.open(sys.argv[1]).systems(); print('alembic' in sys.modules)"
    )
    command = [sys.executable, "-c", script, tmp_path / "results.db"]
    for _ in ("new", "current"):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"

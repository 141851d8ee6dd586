"""Places for a store of each kind, and processes killed there."""

import contextlib
import sqlite3
import subprocess
import sys

import pytest
from dlbricks_records.upkeep import migrations

from dlbricks_core.store import database, schema
from dlbricks_core.store.opened import locate


@pytest.fixture
def unused(kind, request, tmp_path):
    """Path of a file that is not there, or URL of an empty database."""
    if kind == "sqlite":
        return tmp_path / "results.db"
    return request.getfixturevalue("cleared")()


@pytest.fixture(scope="session")
def cleared(postgres):
    """Removes all tables of one database and gives its URL."""
    url = postgres.create()

    def clear():
        postgres.execute("DROP SCHEMA public CASCADE", of=url)
        postgres.execute("CREATE SCHEMA public", of=url)
        return url

    return clear


@pytest.fixture
def migrated():
    """Makes a store by migrations alone, up to a revision, and gives its place."""

    def make(place, revision=schema.HEAD):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "create", lambda it: migrations.migrate(it, revision))
            locate(place).connect().dispose()
        return place

    return make


@pytest.fixture
def ask(request):
    """Asks a database as another program does."""

    def rows(place, statement):
        if isinstance(place, str):
            return request.getfixturevalue("postgres").execute(statement, of=place)
        with contextlib.closing(sqlite3.connect(place)) as connection:
            return connection.execute(statement).fetchall()

    return rows


KILLED = """
import os, signal, sys
import alembic.command, psycopg
from sqlalchemy import event
from sqlalchemy.engine import Engine
from dlbricks_core.store import ResultStore

count = 0

@event.listens_for(Engine, "after_cursor_execute")
def step(*_):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)

for line in sys.stdin:
    place, last = line.split()
    last = int(last)
    child = os.fork()
    if not child:
        ResultStore.open(place).close()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def open_killed():
    """Opens a store in a process that is killed after so many statements, and gives its status.

    The processes are forks of one that has imported everything: there are many.
    """
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:  # fmt: skip

        def run(place, last):
            process.stdin.write(f"{place} {last}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield run

"""Places for a store of each kind, and exported files line by line."""

import json

import pytest
import zstandard

from dlbricks_core.store import ResultStore
from dlbricks_core.store.schema import metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture
def unused(kind, request, tmp_path):
    """Path of a file that is not there, or URL of an empty database."""
    if kind == "sqlite":
        return tmp_path / "results.db"
    return request.getfixturevalue("cleared")()


@pytest.fixture
def place(kind, request, tmp_path):
    """Path or URL of a store that holds nothing, or is not there yet."""
    if kind == "sqlite":
        return tmp_path / "results.db"
    return request.getfixturevalue("emptied")()


@pytest.fixture(scope="session")
def emptied(postgres):
    """Empties one store on the server and gives its URL: that is faster than making one."""
    url = postgres.create()
    ResultStore.open(url).close()
    names = ", ".join(name for name in metadata.tables if name != "quantities")

    def empty():
        postgres.execute(f"TRUNCATE {names} RESTART IDENTITY", of=url)
        postgres.execute("DELETE FROM quantities WHERE name <> 'latency'", of=url)
        return url

    return empty


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
def store(place):
    with ResultStore.open(place) as opened:
        yield opened


@pytest.fixture
def lines_of():
    """Reads the lines of an exported file."""

    def read(path):
        with zstandard.open(path, "rt") as file:
            return [json.loads(line) for line in file]

    return read


@pytest.fixture
def write_lines():
    """Writes an exported file line by line."""

    def write(path, lines):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(text.encode()))

    return write

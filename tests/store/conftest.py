"""Places for a store of each kind, and exported files line by line."""

import json

import pytest
import zstandard

from dlbricks_core.store import ResultStore


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

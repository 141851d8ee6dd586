"""Places for a store of each kind."""

import pytest

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
    names = ", ".join(metadata.tables)

    def empty():
        postgres.execute(f"TRUNCATE {names} RESTART IDENTITY", of=url)
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

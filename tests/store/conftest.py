"""A place for a store of each kind."""

import pytest

from dlbricks_core.store import ResultStore
from dlbricks_core.store.schema import metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Path of a file that is not there yet, or URL of a database; a store there is empty."""
    if request.param == "sqlite":
        return tmp_path / "results.db"
    return request.getfixturevalue("emptied")()


@pytest.fixture(scope="session")
def emptied(postgres):
    """Empties one store on the server and gives its URL: that is faster than making one."""
    url = postgres.create()
    ResultStore.open(url).close()
    names = ", ".join(metadata.tables)

    def empty():
        postgres.execute(f"TRUNCATE {names} RESTART IDENTITY", database=url.rpartition("/")[2])
        return url

    return empty


@pytest.fixture
def store(place):
    with ResultStore.open(place) as opened:
        yield opened

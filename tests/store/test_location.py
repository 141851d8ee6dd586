"""URLs of databases: what is taken, what is refused, and that no secret is repeated."""

import sys
import traceback

import pytest
from dlbricks_records.contents import info

from dlbricks_core.errors import StoreError
from dlbricks_core.store import ResultStore
from dlbricks_core.store.opened import locate

URL = "postgresql+psycopg://user:secret@127.0.0.1:1/results"


def refused(url, writes=True):
    """The error of a store that cannot be opened: one line, a hint, and no password anywhere."""
    with pytest.raises(StoreError) as caught:
        ResultStore.open(url, writes=writes)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return f"{caught.value.message}|{caught.value.hint}"


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "postgres"])
def test_a_database_goes_by_its_url_without_the_password(scheme):
    found = locate(f"{scheme}://user:secret@host:5433/results?password=secret&sslmode=require")
    assert str(found) == "postgresql://user@host:5433/results"
    assert "secret" not in repr(found)
    assert found.file is None
    assert found.url.password == "secret"
    assert found.url.drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user:sec@secret@host/results",
        "postgresql+psycopg://user:secret",
        "postgresql+psycopg://user:secret@host:port/results",
        "postgresql+psycopg://user:secret@[::1/results",
        "://secret",
    ],
)
def test_a_wrong_url_is_refused_and_not_repeated(url):
    refused(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:user:secret@host/results",
        "postgresql:/user:secret@host/results",
        "postgresql//user:sec/secret@host/results",
        "posgresql+psycopg:user:secret@host",
        "mysql:/user:secret@host/results",
    ],
)
def test_a_mistyped_url_is_no_file_and_not_repeated(url):
    assert ":***@host" in refused(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u:secret@h/db", "SQLite file or a PostgreSQL database"),
        ("postgresql+asyncpg://u:secret@h/db", "through psycopg, not through postgresql+asyncpg"),
    ],
)
def test_another_database_or_driver_is_refused(url, words):
    assert words in refused(url)


@pytest.mark.parametrize("writes", [True, False])
def test_a_host_that_is_down_is_named_at_once(writes):
    said = refused(URL, writes)
    assert "postgresql://user@127.0.0.1:1/results" in said
    assert "refused" in said
    assert "whether the server runs" in said


def test_a_host_that_nobody_knows_is_named():
    assert "resolve host 'nowhere.invalid'" in refused("postgresql://u:secret@nowhere.invalid/db")


def test_a_port_that_is_no_number_is_refused():
    assert "'many'" in refused("postgresql://user@host/results?port=many")


def test_options_that_libpq_does_not_know_are_named():
    assert 'option "colour"' in refused(f"{URL}?colour=red")


def test_without_a_driver_the_hint_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'psycopg[binary]'" in refused(URL)


def test_a_server_that_refuses_says_why(postgres):
    assert "password authentication failed" in refused(postgres.url(password="secret"))
    assert "PGPASSWORD" in refused(postgres.url(password=None))
    assert "createdb" in refused(postgres.url("nothing"))
    other = postgres.url().replace("tester:", "secretary:")
    with pytest.raises(StoreError, match='failed for user "secretary"'):
        ResultStore.open(other)


@pytest.mark.parametrize("means", ["PGPASSWORD", "PGPASSFILE"])
def test_the_password_may_come_from_the_environment(postgres, means, tmp_path, monkeypatch):
    from postgres_server import PASSWORD

    (tmp_path / "pgpass").write_text(f"127.0.0.1:{postgres.port}:*:tester:{PASSWORD}\n")
    (tmp_path / "pgpass").chmod(0o600)
    values = {"PGPASSWORD": PASSWORD, "PGPASSFILE": str(tmp_path / "pgpass")}
    monkeypatch.setenv(means, values[means])
    with ResultStore.open(postgres.url(password=None), writes=False) as store:
        assert info(store).measurements == 0

"""What a check of a store finds, and stores that lack their first page."""

import contextlib
import os
import sqlite3

import pytest
from dlbricks_records.contents import check, info

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    LATENCY,
    CalibrationKey,
    Observation,
    Question,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")
GOOD = Question(Subject("good", "brick"), LATENCY, SETUP, "sys")
FITTED = CalibrationKey("similar", "chain", 1, LATENCY, SETUP, "sys")


@pytest.fixture
def path(tmp_path):
    """A store with two measurements."""
    location = tmp_path / "here" / "results.db"
    with ResultStore.open(location) as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)), layers=["Relu"])
        store.add_samples(GOOD, Observation("s", 0, (2.5,)))
    return location


def execute(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def refusal(path, writes):
    """The error that a store raises when all of it is used; empty if there is none."""
    try:
        with ResultStore.open(path, writes=writes) as store:
            store.get([KEY]), list(store.measurements()), store.systems()
            store.calibration(FITTED), info(store)
            if writes:
                store.record_failure(KEY, "again")
    except StoreError as error:
        return error.message
    return ""


def test_a_check_names_observations_without_a_measurement(path):
    execute(path, "DELETE FROM measurements WHERE id = 1")
    found = check(path)
    assert found.damage.named["observations"] == {
        "row 1 of observations": "its measurement is missing"
    }
    assert not found.is_sound


def test_a_check_of_an_intact_store_finds_nothing_and_of_none_is_refused(path, tmp_path):
    found = check(path)
    assert found.is_sound
    assert found.rows["observations"] == 2
    with pytest.raises(StoreError, match="there is no result store"):
        check(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()


def test_a_check_finds_an_index_that_lacks_a_row(path):
    connection = sqlite3.connect(path)
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_observations_1'"
    ).fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(path.read_bytes())
    cells = (root - 1) * 4096 + 3
    content[cells : cells + 2] = (1).to_bytes(2, "big")  # of two
    path.write_bytes(content)
    assert check(path).findings


def first_page_destroyed(path, change):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    content = path.read_bytes()
    damaged = change(content[:4096]) + content[4096:]
    path.write_bytes(damaged)
    return damaged


@pytest.mark.parametrize(
    "change",
    [
        lambda page: bytes(len(page)),
        lambda page: b"x" * 100 + page[100:],
        lambda page: page[:100] + b"\xff" * (len(page) - 100),
    ],
    ids=["zeros", "header", "tables"],
)
def test_a_store_without_its_first_page_is_read_and_never_written(path, change):
    content = first_page_destroyed(path, change)
    with pytest.warns(UserWarning, match="the first page"):
        store = ResultStore.open(path, writes=False)
    with store:
        found = store.get([KEY, GOOD])
        assert [found[key].values for key in (KEY, GOOD)] == [(1.5,), (2.5,)]
    with pytest.raises(StoreError, match="the file is damaged") as caught:
        ResultStore.open(path)
    assert "results merge" in caught.value.hint
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:4096] + os.urandom(len(content) - 4096),
        lambda content: content[:8192] + content[12288:] + content[8192:12288],
        lambda content: content[:4096],
    ],
    ids=["noise", "other order", "nothing else"],
)
def test_a_file_whose_other_pages_do_not_fit_is_no_store(path, change):
    content = change(first_page_destroyed(path, lambda page: bytes(len(page))))
    path.write_bytes(content)
    for writes in (True, False):
        assert "not a database" in refusal(path, writes)
    assert path.read_bytes() == content


def test_a_store_of_another_version_needs_its_first_page(path):
    execute(path, "UPDATE alembic_version SET version_num = 'other'")
    first_page_destroyed(path, lambda page: bytes(len(page)))
    assert "not a database" in refusal(path, False)

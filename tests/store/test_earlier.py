"""Stores and exported files of earlier versions: nothing in them is lost."""

import dataclasses
import json
import shutil
import signal
import sqlite3
from collections import defaultdict
from contextlib import closing, nullcontext
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from dlbricks_records.contents import import_measurements, info

from dlbricks_core.facts import (
    LATENCY,
    CalibrationKey,
    Measurement,
    Observation,
    Question,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.store.schema import HEAD

DATA = Path(__file__).parent / "data"
PLUGIN = "0.1.0"
"""Version of all plugins when the files were written."""

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "interleaved/8", PLUGIN)
GOOD = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")
BAD = Question(Subject("bad", "model"), LATENCY, SETUP, "sys")


@pytest.fixture(params=["store", "export"])
def store(request, tmp_path):
    """A store of version 0003, or a new one that an export of version 1 was imported into."""
    path = tmp_path / "results.db"
    if request.param == "store":
        shutil.copy(DATA / "version-0003.db", path)
    with ResultStore.open(path) as opened:
        if request.param == "export":
            assert import_measurements(opened, DATA / "export-1.json") == 2
        yield opened


def test_an_upgrade_keeps_every_sample(store):
    first, second = store.get([GOOD])[GOOD].observations
    assert (first.values, first.overhead, first.flags) == ((1.5, 2.5), 0.25, ("far",))
    assert (first.session, first.round, first.spent_s, first.loading_s) == ("s", 0, 1.0, 0.5)
    assert (second.values, second.overhead, second.flags) == ((1.75,), 0.5, ())
    assert store.get([GOOD])[GOOD].layers == ("Conv",)


def test_an_upgrade_keeps_failures_and_systems(store):
    assert store.get([BAD])[BAD].failure == "ill"
    assert store.systems() == {"sys": {"cpu": "x"}}


def test_an_upgraded_store_knows_no_sessions(store):
    assert store.sessions() == []


def test_a_plugin_under_development_does_not_find_the_samples(store):
    edited = dataclasses.replace(SETUP, plugin=f"{PLUGIN}+3f9a12c4")
    assert store.get([dataclasses.replace(GOOD, setup=edited)]) == {}


def test_an_upgrade_keeps_calibrations(tmp_path):
    shutil.copy(DATA / "version-0003.db", tmp_path / "results.db")
    with ResultStore.open(tmp_path / "results.db") as store:
        found = store.calibration(
            CalibrationKey("segmented", "segments", 128, LATENCY, SETUP, "sys")
        )
    assert found is not None
    assert found.values == {"composing_error": 0.02}
    assert [model.name for model in found.models] == ["m"]


def rows(path, query):
    """Rows of a store as another program reads them."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()


@pytest.fixture
def today(tmp_path):
    """A copy of the store that commands wrote with the last code of version 0003.

    ``run`` and ``calibrate`` timed two small networks with ONNX Runtime, with both protocols, and
    one that was too slow for its time limit.
    """
    path = tmp_path / "today.db"
    shutil.copy(DATA / "version-0003-today.db", path)
    return path


def expected(path):
    """All measurements of a store of version 0003, by question."""
    taken = defaultdict(list)
    for row in rows(path, "SELECT * FROM sample_sets ORDER BY id"):
        taken[row["measurement_id"]].append(
            Observation(
                session=row["session"],
                round=row["round"],
                values=tuple(json.loads(row["samples_ms"])),
                overhead=row["call_ms"],
                flags=tuple(json.loads(row["warnings"])),
                taken_at=datetime.fromisoformat(row["taken_at"]),
                spent_s=row["spent_s"],
                loading_s=row["loading_s"],
            )
        )
    found = {}
    for row in rows(path, "SELECT * FROM measurements ORDER BY id"):
        how = (row["backend"], row["backend_version"], row["settings"], row["threads"])
        setup = Setup(*how, row["protocol"], PLUGIN)
        key = Question(Subject(row["signature"], row["kind"]), LATENCY, setup, row["system"])
        layers = tuple(json.loads(row["layers"]))
        found[key] = Measurement(key, layers, tuple(taken[row["id"]]), row["failure"])
    return found


def calibrations(path):
    """All calibrations of a store of version 0003: key and numbers."""
    found = []
    for row in rows(path, "SELECT * FROM calibrations"):
        key = json.loads(row["key"])
        how = (key["backend"], key["backend_version"], key["settings"], key["threads"])
        setup = Setup(*how, key["protocol"], PLUGIN)
        cut = (key["composer"], key["strategy"], key["granularity"])
        found.append(
            (CalibrationKey(*cut, LATENCY, setup, key["system"]), json.loads(row["found"]))
        )
    return found


def assert_holds(store, before, fitted):
    """The upgraded store holds all of it, and nothing else."""
    assert store.get(before) == before
    assert list(store.measurements()) == list(before.values())
    for key, numbers in fitted:
        assert store.calibration(key).to_dict() == numbers
    assert len(rows(store.place.file, "SELECT * FROM calibrations")) == len(fitted)


@pytest.mark.parametrize("writes", [True, False])
def test_an_upgrade_keeps_all_of_a_real_store(today, writes):
    before, fitted = expected(today), calibrations(today)
    assert len(before) == 14
    assert sum(bool(each.failure) for each in before.values()) == 2
    assert sum(len(each.observations) for each in before.values()) == 32
    assert len(fitted) == 1
    with ResultStore.open(today, writes=writes) as store:
        assert_holds(store, before, fitted)
        [facts] = store.systems().values()
    assert facts["physical_cores"] == 2


def test_reading_an_earlier_store_leaves_it_as_it_is(today):
    content = today.read_bytes()
    with ResultStore.open(today, writes=False) as store:
        assert info(store).measurements == 14
    assert today.read_bytes() == content


def test_an_upgrade_from_version_0005_keeps_every_row(tmp_path):
    """Commands wrote the store with the last code of that version, on two backends."""
    path = tmp_path / "today.db"
    shutil.copy(DATA / "version-0005-today.db", path)
    tables = ("measurements", "observations", "sessions", "systems", "quantities", "networks",
              "calibrations", "rewrites")  # fmt: skip

    def content():
        return {each: [*map(tuple, rows(path, f"SELECT * FROM {each}"))] for each in tables}

    before = content()
    assert all(before.values())
    # Nothing tells what failed for want of support.
    before["measurements"] = [(*row, False) for row in before["measurements"]]
    # Nor how busy the machine was in each round.
    before["observations"] = [(*row, None) for row in before["observations"]]
    # Nor how fast it was in each session, nor how much that changed.
    before["sessions"] = [(*row, None, None) for row in before["sessions"]]
    with ResultStore.open(path) as store:
        assert info(store).observations == len(before["observations"])
        assert [(each.name, each.alone) for each in store.machines()] == [("", True)]
    assert before == {
        table: [*map(tuple, rows(path, f"SELECT * FROM {table}"))] for table in tables
    }
    assert rows(path, "SELECT version_num FROM alembic_version")[0][0] == HEAD


@pytest.mark.process
def test_an_upgrade_that_is_killed_leaves_the_old_store(today, tmp_path, open_killed):
    before, fitted = expected(today), calibrations(today)
    for last in count(1):
        path = tmp_path / f"killed-{last}.db"
        shutil.copy(today, path)
        if (status := open_killed(path, last)) == 0:
            break
        assert status == -signal.SIGKILL
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            [(version,)] = connection.execute("SELECT version_num FROM alembic_version")
        assert version in {"0003", HEAD}
        with ResultStore.open(path) as store:
            assert_holds(store, before, fitted)
    assert last > 20


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE sample_sets SET samples_ms = 'nonsense' WHERE id = 20",
        "UPDATE sample_sets SET samples_ms = x'ff00', warnings = x'ff' WHERE id = 20",
        "UPDATE sample_sets SET round = 'first' WHERE id = 20",
        "UPDATE measurements SET layers = x'ff', failure = x'ff' WHERE id = 10",
        "INSERT INTO sample_sets SELECT 99, 99, session, round, samples_ms, call_ms, warnings, "
        "taken_at, spent_s, loading_s FROM sample_sets WHERE id = 20",
        "INSERT INTO calibrations VALUES ('nonsense', '{}'), (x'ff', '{}'), ('[1]', '{}'), "
        "('{\"backend\":1}', '{}'), (CAST(x'ff' AS TEXT), '{}')",
    ],
)
def test_damaged_rows_do_not_keep_the_others_from_being_upgraded(today, damage):
    before, fitted = expected(today), calibrations(today)
    with closing(sqlite3.connect(today)) as connection:
        assert connection.execute(damage).rowcount
        connection.commit()
    with pytest.warns() if "SET" in damage else nullcontext(), ResultStore.open(today) as store:
        found = store.get(before)
        assert all(store.calibration(key).to_dict() == numbers for key, numbers in fitted)
    intact = [key for key in before if key in found and found[key] == before[key]]
    assert len(intact) >= len(before) - 1

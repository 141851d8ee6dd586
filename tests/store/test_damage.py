"""Damaged stores: rows are named and left out, or one error says what is wrong."""

import json
import os
import resource
import sqlite3
import warnings
import zlib
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_records.contents import (
    check,
    export_measurements,
    import_measurements,
    info,
    inventory,
)

from dlbricks_core.errors import DLBricksError, StoreError
from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    CalibrationModel,
    Composition,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.store.schema import HEAD

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")
GOOD = Question(Subject("good", "brick"), LATENCY, SETUP, "sys")
FITTED = CalibrationKey("similar", "chain", 1, LATENCY, KEY.setup, "sys")
DEEP = "[" * 100_000


@pytest.fixture
def path(tmp_path):
    """A store with a measurement that will be damaged, one that stays, and a calibration."""
    location = tmp_path / "here" / "results.db"
    with ResultStore.open(location) as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)), layers=["Relu"])
        store.add_samples(GOOD, Observation("s", 0, (2.5,)))
        store.remember_system("sys", {"cpu": "fast"})
        models = (CalibrationModel("net", "net.onnx", "abc", -0.02, 0.01),)
        store.keep_calibration(Calibration(FITTED, {"composing_error": 0.04}, models, 7, "0.1"))
    return location


def change(path, *statements):
    connection = sqlite3.connect(path)
    for statement, *values in statements:
        connection.execute(statement, values)
    connection.commit()
    connection.close()


def both_ways(path):
    for writes in (True, False):
        with ResultStore.open(path, writes=writes) as store:
            yield store


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("values", "nonsense"), ("values", ""), ("values", "[]"), ("values", "{}"),
        ("values", '"123"'), ("values", "[-1.0]"), ("values", "[0.0]"), ("round", -1),
        ("values", "[NaN]"),
        ("values", "[Infinity]"), ("values", "[1e300]"), ("values", '["1"]'),
        ("values", "[true]"), ("values", "[[1]]"), ("values", "null"),
        ("values", 17), ("values", b"\xff\x00"), ("values", DEEP),
        ("values", f"[{'9' * 400}]"), ("values", f"[{'9' * 5000}]"),
        ("overhead", -1.0), ("overhead", float("inf")), ("overhead", "fast"), ("overhead", b"x"),
        ("flags", "nonsense"), ("flags", "[1]"), ("flags", '"busy"'),
        ("taken_at", "2026-01-01T00:00:00"), ("taken_at", "yesterday"), ("taken_at", 5),
        ("taken_at", ""), ("spent_s", -3), ("loading_s", "long"), ("session", b"x"),
        ("round", "first"), ("round", 0.5),
    ],
)  # fmt: skip
def test_a_damaged_row_is_named_and_left_out(path, column, value):
    change(path, (f'UPDATE observations SET "{column}" = ? WHERE id = 1', value))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row 1 of observations") as told:
            found = store.get([KEY, GOOD])
        assert str(path) in str(told[0].message)
        assert KEY not in found
        assert found[GOOD].values == (2.5,)


@pytest.mark.parametrize(
    ("column", "value"),
    [("layers", "nonsense"), ("layers", "{}"), ("layers", "[1]"), ("layers", DEEP), ("layers", 3),
     ("failure", b"crashed"), ("unsupported", "yes"), ("unsupported", 2)],
)  # fmt: skip
def test_a_damaged_measurement_is_named_and_left_out(path, column, value):
    change(path, (f'UPDATE measurements SET "{column}" = ? WHERE id = 1', value))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row 1 of measurements"):
            assert list(store.get([KEY, GOOD])) == [GOOD]
        with pytest.warns(UserWarning, match="row 1 of measurements"):
            assert [found.question for found in store.measurements()] == [GOOD]


@pytest.mark.parametrize(
    ("column", "value"),
    [("threads", "x"), ("threads", 1.5), ("backend", b"\xff"), ("version", b"x"),
     ("signature", b"x"), ("system", b"x"), ("kind", "0"), ("kind", b"brick")],
)  # fmt: skip
def test_a_question_of_another_type_is_left_out_of_all_that_a_store_tells(path, column, value):
    change(path, (f'UPDATE measurements SET "{column}" = ? WHERE id = 1', value))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match=f"row 1 of measurements .{column} is"):
            (holding,) = inventory(store).holdings
        assert holding.networks == {"good"}
        with pytest.warns(UserWarning, match="row 1 of measurements"):
            assert [found.question for found in store.measurements()] == [GOOD]


@pytest.mark.parametrize("value", ["yesterday", 5, ""])
def test_an_inventory_passes_over_a_damaged_time(path, value):
    change(path, ("UPDATE observations SET taken_at = ? WHERE id = 1", value))
    with ResultStore.open(path) as store:
        with pytest.warns(UserWarning, match="row 1 of observations"):
            (holding,) = inventory(store).holdings
        assert (holding.networks, holding.samples) == ({"good"}, 1)


def test_of_many_damaged_rows_the_first_are_named(path):
    change(path, *[("INSERT INTO observations (measurement_id, session, round, \"values\", flags, "
                    "taken_at) VALUES (1, 'x', ?, '', '', '')", n)
                   for n in range(30)])  # fmt: skip
    with ResultStore.open(path) as store, pytest.warns(UserWarning, match="and 27 more") as told:
        assert store.get([KEY])[KEY].values == (1.5,)
    assert len(told) == 1
    assert len(str(told[0].message)) < 600


@pytest.mark.parametrize(
    ("name", "value"),
    [("values", {"composing_error": float("nan")}), ("values", {"composing_error": -1}),
     ("values", {"composing_error": "0.1"}), ("values", [1]), ("models", 3), ("models", [3]),
     ("models", [{"name": "net"}]), ("bricks", "7"), ("version", None), ("taken_at", "now"),
     ("taken_at", "2026-01-01T00:00:00"), ("values", None)],
)  # fmt: skip
def test_a_damaged_calibration_is_ignored(path, name, value):
    with ResultStore.open(path) as store:
        found = store.calibration(FITTED).to_dict()
    for text in (json.dumps({**found, name: value}), "nonsense", json.dumps([1]), "7"):
        change(path, ("UPDATE calibrations SET found = ?", text))
        with (
            ResultStore.open(path) as store,
            pytest.warns(UserWarning, match="row similar of calibrations"),
        ):
            assert store.calibration(FITTED) is None


@pytest.mark.parametrize("facts", ["nonsense", "[]", '{"caches": 3}', '{"caches": [{"level": 1}]}'])
def test_damaged_facts_of_a_system_are_left_out(path, facts):
    change(path, ("INSERT INTO systems VALUES ('other', ?)", facts))
    with ResultStore.open(path) as store, pytest.warns(UserWarning, match="row other of systems"):
        assert store.systems() == {"sys": {"cpu": "fast"}}


@pytest.mark.parametrize(
    ("column", "value"),
    [("load", 1.5), ("load", "high"), ("started_at", "now"), ("host", b"x"), ("version", b"7")],
)
def test_a_damaged_session_is_named_and_left_out(path, column, value):
    others = [Session("first", "host", "sys", "1"), Session("second", "host", "sys", "1")]
    with ResultStore.open(path) as store:
        for each in others:
            store.keep_session(each)
    change(path, (f"UPDATE sessions SET {column} = ? WHERE id = 'first'", value))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row first of sessions"):
            assert store.sessions() == others[1:]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE quantities SET composition = 'mean'", "UPDATE quantities SET meaning = x'ff'"],
)
def test_measurements_of_a_damaged_quantity_are_left_out(path, statement):
    other = replace(KEY, quantity=Quantity("load-time", "ms", Composition.SUM, "time"))
    with ResultStore.open(path) as store:
        store.add_samples(other, Observation("s", 0, (3.5,)))
    change(path, (statement,))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row latency of quantities.*row load-time of"):
            found = store.get([KEY, other])
        # Latency is the same quantity in every store.
        assert {question: each.values for question, each in found.items()} == {KEY: (1.5,)}


@pytest.mark.parametrize("graph", [b"", b"nonsense", "text", 3])
def test_a_damaged_rewrite_is_ignored(path, graph):
    with ResultStore.open(path) as store:
        store.keep_rewrite("abc", KEY.setup, "sys", b"graph")
    change(path, ("UPDATE rewrites SET graph = ?", graph))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row abc of rewrites"):
            assert store.rewrite("abc", KEY.setup, "sys") is None


def test_an_intact_store_warns_of_nothing(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for store in both_ways(path):
            assert store.get([KEY])[KEY].values == (1.5,)
            assert store.calibration(FITTED).values == {"composing_error": 0.04}


TABLES = ("systems", "sessions", "quantities", "measurements", "observations", "calibrations",
          "rewrites", "networks", "alembic_version")  # fmt: skip


@pytest.mark.parametrize(
    "statements",
    [
        *([f"DROP TABLE {table}"] for table in TABLES),
        ["ALTER TABLE observations RENAME COLUMN flags TO others"],
        ["ALTER TABLE measurements DROP COLUMN failure"],
        ["CREATE TRIGGER t AFTER INSERT ON measurements BEGIN DELETE FROM measurements; END"],
        ["ALTER TABLE measurements RENAME TO m", "CREATE VIEW measurements AS SELECT * FROM m"],
        ["DELETE FROM alembic_version"],
        ["INSERT INTO alembic_version VALUES ('0001')"],
        *([f"UPDATE alembic_version SET version_num = {text}"]
          for text in ("'0000'", "'000'", "'0002x'", "''", "x'ff'", "NULL", "3")),
        [f"UPDATE alembic_version SET version_num = '{int(HEAD) + 1:04}'"],
        ["UPDATE alembic_version SET version_num = '0001'"],
    ],
)  # fmt: skip
def test_another_structure_is_refused_in_one_line(path, statements):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    # Without its primary key and its NOT NULL the version can be anything.
    for statement in ("CREATE TABLE v AS SELECT * FROM alembic_version",
                      "DROP TABLE alembic_version", "ALTER TABLE v RENAME TO alembic_version",
                      *statements):  # fmt: skip
        connection.execute(statement)
    connection.commit()
    connection.close()
    for writes in (True, False):
        with pytest.raises(StoreError) as caught, ResultStore.open(path, writes=writes):
            pass
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
        assert caught.value.hint


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


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_truncated_or_overwritten_store_is_an_error_or_a_store(path):
    whole = path.read_bytes()
    damaged = [whole[:size] for size in (1, 50, 100, 511, 4096, 5000, len(whole) // 2)]
    damaged += [whole[:at] + b"\xff" * 64 + whole[at + 64 :] for at in range(0, len(whole), 4999)]
    for content in damaged:
        for writes in (True, False):
            path.write_bytes(content)
            assert "\n" not in refusal(path, writes)
            for log in ("-wal", "-shm"):
                path.with_name(path.name + log).unlink(missing_ok=True)


def test_a_log_that_has_no_room_brings_a_hint_at_the_disk(path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as a full disk does
        with pytest.raises(StoreError, match="disk I/O error") as caught:
            ResultStore.open(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "whether the disk is full" in caught.value.hint


def test_a_store_that_stays_locked_is_refused(path, monkeypatch):
    monkeypatch.setattr("dlbricks_core.store.database.BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("DELETE FROM systems")
    for writes in (True, False):
        with pytest.raises(StoreError, match="locked"), ResultStore.open(path, writes=writes) as s:
            s.record_failure(KEY, "x")
    holder.close()


@pytest.mark.parametrize("how", ["deleted", "replaced", "folder"])
def test_a_store_that_disappears_ends_the_run(path, how):
    def lose():
        if how == "folder":
            path.parent.rename(path.parent.with_name("gone"))
        else:
            path.unlink()
            if how == "replaced":
                ResultStore.open(path).close()

    with pytest.raises(StoreError, match="deleted or replaced"), ResultStore.open(path):
        lose()
    if how == "folder":
        path.parent.with_name("gone").rename(path.parent)
    with ResultStore.open(path) as store:
        lose()
        with pytest.raises(StoreError, match="deleted or replaced"):
            store.add_samples(KEY, Observation("s", 1, (1.0,)))
        with pytest.raises(StoreError, match="deleted or replaced"):
            store.get([KEY])
        store._identity = None  # closing it would tell once more


def test_anything_but_a_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        for writes in (True, False):
            with pytest.raises(StoreError, match="not a regular file"):
                ResultStore.open(place, writes=writes)


def test_an_unknown_home_folder_is_an_error(monkeypatch):
    with pytest.raises(StoreError, match="no home folder"):
        ResultStore.open("~nobody-of-this-name/results.db")


def test_names_that_are_not_utf8_can_be_kept(tmp_path):
    path = tmp_path / "caf\udce9[/x].db"
    with ResultStore.open(path) as store:
        store.record_failure(KEY, "caf\udce9.onnx cannot be read", layers=["\udce9"])
    for store in both_ways(path):
        found = store.get([KEY])[KEY]
        assert found.failure == "caf\\udce9.onnx cannot be read"
        assert found.layers == ("\udce9",)


@pytest.mark.parametrize(
    "change",
    [
        {"threads": "2"}, {"threads": 10**30}, {"signature": 3}, {"layers": "Relu"},
        {"failure": 5}, {"values": "12"}, {"values": [10**400]}, {"round": 10**30},
        {"session": "\udce9"}, {"taken_at": "2026-01-01T00:00:00"},
    ],
)  # fmt: skip
def test_damaged_exports_are_refused_whole(path, tmp_path, change, lines_of, write_lines):
    exported = tmp_path / "out.jsonl.zst"
    with ResultStore.open(path) as store:
        export_measurements(store, exported)
    lines = lines_of(exported)
    *_, last = (each["measurement"] for each in lines if "measurement" in each)
    for part in (last, last["key"], last["observations"][0]):
        part |= {name: value for name, value in change.items() if name in part}
    write_lines(exported, lines)
    with ResultStore.open(tmp_path / "other.db") as other:
        with pytest.raises(StoreError):
            import_measurements(other, exported)
        assert info(other).measurements == 0


KEY_COLUMNS = ("signature", "kind", "backend", "version", "options", "protocol", "plugin", "system")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((column, value) for column in KEY_COLUMNS for value in (b"[]", b"\xff", 3)
          if not isinstance(value, int) or column == "options"),
        ("options", "[]"), ("options", "nonsense"), ("options", '{"a": []}'), ("options", DEEP),
        ("threads", 0), ("threads", -1), ("threads", "[]"), ("threads", b"2"), ("threads", 0.5),
        ("threads", 2**40),
    ],
)  # fmt: skip
def test_a_damaged_key_stops_nothing(path, column, value):
    with ResultStore.open(path) as store:
        store.keep_rewrite("abc", KEY.setup, "sys", b"graph")
    change(path, (f"UPDATE measurements SET {column} = ? WHERE id = 1", value))
    if column in ("options", "threads", "version"):
        change(path, (f"UPDATE rewrites SET {column} = ?", value))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row 1 of measurements"):
            assert [found.question for found in store.measurements()] == [GOOD]
        with pytest.warns(UserWarning, match="row 1 of measurements"):
            assert [each.question for each in store.sampled(LATENCY)] == [GOOD]
        with pytest.warns(UserWarning, match="row 1 of measurements"):
            (held,) = inventory(store).holdings
        assert held.networks == {"good"}
        assert store.backends() == ["mxnet"]
        assert store.quantities() == ["latency"]
        assert all(setup == SETUP for setup, _ in store.setups("mxnet"))
        store.refused(SETUP, "sys"), store.rewritten(), store.machines()
    found = check(path)
    assert found.damage.counts["measurements"] == 1
    assert found.rows["measurements"] == 1


def test_the_intact_observations_of_a_question_count(path):
    with ResultStore.open(path) as store:
        store.add_samples(KEY, Observation("s", 1, (3.5, 4.5), overhead=0.5, flags=("busy",)))
    for value in ("[NaN]", "[5e-324]", "[1e-13]", "nonsense"):
        change(path, ('UPDATE observations SET "values" = ? WHERE id = 1', value))
        for store in both_ways(path):
            with pytest.warns(UserWarning, match=r"row 1 of observations \(") as told:
                found = {each.question: each for each in store.sampled(LATENCY)}
            assert len(told) == 1
            assert found[KEY].values == ((3.5, 4.5),)
            assert (found[KEY].overheads, found[KEY].disturbed) == ((0.5,), (True,))
            assert found[GOOD].values == ((2.5,),)
            with pytest.warns(UserWarning, match="row 1 of observations"):
                assert found.keys() == store.get([KEY, GOOD]).keys()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_features_with_which_nobody_can_compute_are_left_out(path, number):
    with pytest.raises(ValueError, match="feature"):
        NetworkFeatures("abc", "1", ("relu",), np.array([1.0, number], "<f4").tobytes())
    with ResultStore.open(path) as store:
        store.keep_networks(NetworkFeatures(name, "1", ("relu",), bytes(8)) for name in "ab")
    numbers = zlib.compress(np.array([1.0, number], "<f4").tobytes())
    change(path, ("UPDATE networks SET numbers = ? WHERE signature = 'a'", numbers))
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row a of networks"):
            assert set(store.networks("1")) == {"b"}


def test_a_field_that_expands_is_left_out_by_its_limit(path, monkeypatch):
    monkeypatch.setenv("DLBRICKS_MOST_UNPACKED_MIB", "1")
    with ResultStore.open(path) as store:
        store.keep_networks(NetworkFeatures(name, "1", ("relu",), bytes(8)) for name in "ab")
        store.keep_rewrite("abc", KEY.setup, "sys", b"graph")
    bomb = zlib.compress(bytes(2**24))
    change(path, ("UPDATE networks SET numbers = ? WHERE signature = 'a'", bomb),
           ("UPDATE rewrites SET graph = ?", bomb))  # fmt: skip
    for store in both_ways(path):
        with pytest.warns(UserWarning, match="row a of networks.*DLBRICKS_MOST_UNPACKED_MIB"):
            assert set(store.networks("1")) == {"b"}
        with pytest.warns(UserWarning, match="row abc of rewrites.*DLBRICKS_MOST_UNPACKED_MIB"):
            assert store.rewrite("abc", KEY.setup, "sys") is None
    change(path, ("UPDATE networks SET numbers = ?", 10**10))  # not a number of bytes to make
    with ResultStore.open(path) as store:
        with pytest.warns(UserWarning, match="row a of networks"):
            assert store.networks("1") == {}
        with pytest.raises(DLBricksError, match="DLBRICKS_MOST_UNPACKED_MIB"):
            store.keep_rewrite("abc", KEY.setup, "sys", bytes(2**21))


def test_a_file_that_is_mostly_nothing_is_not_copied_to_memory(path, monkeypatch):
    monkeypatch.setenv("DLBRICKS_MOST_STORE_MIB", "1")
    with path.open("r+b") as file:
        file.truncate(2**40)  # takes no room on the disk
    with pytest.raises(StoreError, match="DLBRICKS_MOST_STORE_MIB"):
        ResultStore.open(path, writes=False)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (f"ALTER TABLE networks ADD COLUMN x TEXT DEFAULT '{'x' * 100_000}'", "long default"),
        ("CREATE VIRTUAL TABLE x USING fts5(y)", "holds a virtual table"),
        ("CREATE VIEW x AS SELECT 1", "holds a view"),
        ("CREATE TRIGGER x AFTER INSERT ON sessions BEGIN DELETE FROM systems; END",
         "holds a trigger"),
    ],
)  # fmt: skip
def test_tables_that_make_rows_of_nothing_are_refused(path, statement, what):
    change(path, (statement,))
    for writes in (True, False):
        with pytest.raises(StoreError, match=what):
            ResultStore.open(path, writes=writes)


def test_bytes_that_are_not_utf_8_damage_one_row(path):
    change(path, ("UPDATE measurements SET version = CAST(x'ff31' AS TEXT) WHERE id = 1",))
    for store in both_ways(path):
        assert list(store.get([KEY, GOOD])) == [GOOD]
        with pytest.warns(UserWarning, match=r"row 1 of measurements \(version is not UTF-8\)"):
            assert [each.question for each in store.measurements()] == [GOOD]

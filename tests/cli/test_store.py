"""Measurements travel between stores, and systems have names."""

import base64
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zlib
from dataclasses import replace

import onnx
import pytest
import zstandard
from dlbricks_records.contents import info, merging, records
from dlbricks_records.contents.merging import Merger

from dlbricks_core.facts import LATENCY, Observation, Question, Session, Setup, Subject
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

SETUP = Setup("torch", "2.13.0", "{}", 2, "interleaved/8", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "71bff16a9179441c")
QUICK = ("--backend", "onnxruntime", "--threads", "1", "--runs", "3")


@pytest.fixture
def measured(tmp_path):
    """Fills a store with what one of several equal machines has measured."""

    def fill(name, host="h1"):
        with ResultStore.open(tmp_path / name) as store:
            store.remember_system(KEY.system, {"cpu": "a processor", "memory": 2**34})
            store.keep_session(Session(f"of {host}", host, KEY.system, "0.1.0"))
            store.add_samples(KEY, Observation(f"of {host}", 0, (1.5, 2.5)))
            store.record_failure(
                Question(Subject("bad", "model"), LATENCY, SETUP, KEY.system), "it is too slow"
            )

    return fill


@pytest.fixture(scope="module")
def folder(tmp_path_factory, chain, in_folder):
    """A folder with two models, the store of a run on them, and what that store exports."""
    folder = tmp_path_factory.mktemp("ran")
    for name, operator in ("a", "Relu"), ("b", "Tanh"):
        onnx.save(chain(operator, name=name), folder / f"{name}.onnx")
    run = (
        "estimate",
        "--measure",
        folder / "a.onnx",
        folder / "b.onnx",
        *QUICK[:-1],
        "5",
        "--end-to-end",
    )
    for line in run, ("results", "export", "all.zst"):
        assert in_folder(folder, *line, "--store", "here.db").status == 0
    return folder


@pytest.fixture
def ran(folder, dlbricks, tmp_path):
    """The two models, beside copies of the store and of what it exports."""
    for name in ("here.db", "all.zst"):
        shutil.copy(folder / name, tmp_path)
    return folder / "a.onnx", folder / "b.onnx"


def answers(monkeypatch, content):
    """Makes standard input hold something."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_an_estimate_is_the_same_after_the_journey(dlbricks, ran, read):
    a, _ = ran
    done = dlbricks("results", "export", "all.jsonl.zst", "--store", "here.db")
    assert done.status == 0
    assert "observations" in done.out
    assert dlbricks("results", "import", "all.jsonl.zst", "--store", "there.db").status == 0
    system = json.loads(dlbricks("machine", "list", "--store", "there.db", "--json", "-").out)
    reference = system["systems"][0]["reference"]
    assert dlbricks("machine", "name", reference, "lab", "--store", "there.db").status == 0
    found = []
    for store, more in ("here.db", ()), ("there.db", ()), ("there.db", ("--system", "lab")):
        done = dlbricks("estimate", a, *QUICK, "--store", store, *more, "--json", "e.json")
        assert done.status == 0, done.err
        (model,) = read("e.json")["models"]
        assert model["origin"] == {"stored": 1.0}
        found.append((model["estimate"], model["interval"]))
    assert len(found) == 3
    assert found[0] == found[1] == found[2]


def test_importing_twice_changes_nothing(dlbricks, measured):
    measured("a.db")
    dlbricks("results", "export", "a.jsonl.zst", "--store", "a.db")
    arguments = ("results", "import", "a.jsonl.zst", "--store", "b.db")
    assert dlbricks(*arguments).out.startswith("New: 1 observation, 2 measurements, 1 system")
    again = dlbricks(*arguments)
    assert (again.status, again.out) == (0, "Nothing is new: the store has all records.\n")
    dlbricks("results", "export", "b.jsonl.zst", "--store", "b.db")


def test_a_store_travels_through_a_pipe(dlbricks, measured, monkeypatch, tmp_path):
    measured("a.db")
    command = [sys.executable, "-m", "dlbricks_core.cli", "results"]
    sent = subprocess.run([*command, "export", "-", "--store", "a.db"], cwd=tmp_path,
                          capture_output=True, check=True)  # fmt: skip
    assert sent.stdout.startswith(b"(\xb5/\xfd")
    taken = [*command, "import", "-", "--store", "b.db", "--json", "-"]
    done = subprocess.run(taken, cwd=tmp_path, input=sent.stdout, capture_output=True, check=True)
    assert json.loads(done.stdout)["added"]["measurements"] == 2
    answers(monkeypatch, sent.stdout[:-1])
    cut = dlbricks(*taken[3:])
    assert cut.status == 2
    assert cut.err.startswith("Error: standard input: the file is cut off\nHint: ")


def test_one_bad_file_of_several_changes_nothing(dlbricks, measured, tmp_path):
    measured("a.db")
    dlbricks("results", "export", "a.jsonl.zst", "--store", "a.db")
    (tmp_path / "bad.jsonl.zst").write_bytes((tmp_path / "a.jsonl.zst").read_bytes()[:-9])
    ResultStore.open(tmp_path / "b.db").close()
    done = dlbricks("results", "import", "a.jsonl.zst", "bad.jsonl.zst", "--store", "b.db")
    assert done.status == 2
    assert done.err.startswith("Error: bad.jsonl.zst: the file is cut off\nHint: ")
    info = json.loads(dlbricks("results", "info", "--store", "b.db", "--json", "-").out)
    assert not any(info["content"].values())


@pytest.mark.parametrize("command", ["import", "merge"])
def test_what_is_already_added_is_taken_back_when_something_later_is_damaged(
    dlbricks, measured, monkeypatch, tmp_path, command
):
    """Each record reaches the database before the next one is read; small files are one batch."""
    measured("a.db")
    dlbricks("results", "export", "a.jsonl.zst", "--store", "a.db")
    if command == "import":
        damaged = (tmp_path / "a.jsonl.zst").read_bytes()[:-9]
        (tmp_path / "bad.jsonl.zst").write_bytes(damaged)
        given = ("a.jsonl.zst", "bad.jsonl.zst")
    else:
        with ResultStore.open(tmp_path / "bad.db") as store:
            store.keep_rewrite("0" * 64, KEY.setup, "here", b"no graph")
        given = ("a.db", "bad.db")
    ResultStore.open(tmp_path / "b.db").close()
    added = []

    def insert(merger, table, rows, *, whole=Merger._insert):
        added.append(table.name)
        return whole(merger, table, rows)

    monkeypatch.setattr(merging, "BATCH", 1)
    monkeypatch.setattr(Merger, "_insert", insert)
    done = dlbricks("results", command, *given, "--store", "b.db")
    assert done.status == 2, done.err
    assert {"measurements", "observations"} <= set(added)
    with ResultStore.open(tmp_path / "b.db", writes=False, create=False) as store:
        assert list(records(store)) == [LATENCY]  # which every store knows


@pytest.mark.parametrize("piped", [False, True])
def test_a_failed_import_makes_no_store(dlbricks, measured, monkeypatch, tmp_path, piped):
    measured("a.db")
    dlbricks("results", "export", "a.jsonl.zst", "--store", "a.db")
    content = (tmp_path / "a.jsonl.zst").read_bytes()
    (tmp_path / "bad.jsonl.zst").write_bytes(content[:-9])
    answers(monkeypatch, content[:-9])
    bad = "-" if piped else "bad.jsonl.zst"
    done = dlbricks("results", "import", "a.jsonl.zst", bad, "--store", "new/b.db")
    assert (done.status, done.out) == (2, "")
    assert not (tmp_path / "new").exists()
    answers(monkeypatch, content)
    good = "-" if piped else "a.jsonl.zst"
    assert dlbricks("results", "import", good, "--store", "new/b.db").status == 0
    assert (tmp_path / "new" / "b.db").exists()


@pytest.mark.parametrize("command", ["import", "merge"])
def test_what_is_in_another_unit_makes_no_store(dlbricks, tmp_path, command):
    there = replace(KEY, quantity=replace(LATENCY, name="memory", unit="MB"))
    here = replace(KEY, quantity=replace(LATENCY, name="memory", unit="MiB"))
    for name, key in ("a.db", here), ("b.db", there):
        with ResultStore.open(tmp_path / name) as store:
            store.add_samples(key, Observation("s", 0, (1.0,)))
        dlbricks("results", "export", f"{name}.zst", "--store", name)
    end = "" if command == "merge" else ".zst"
    given = ("a.db" + end, "b.db" + end)
    done = dlbricks("results", command, *given, "--store", "new.db")
    assert done.status == 2
    assert "memory in MiB, and not in MB" in done.err
    assert not list(tmp_path.glob("new.db*"))


def _graphs(path, change):
    """Rewrites an exported file, with the records of graphs that a function has changed."""
    lines = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().splitlines()
    records = [json.loads(line) for line in lines]
    change([each["rewrite"] for each in records if "rewrite" in each])
    content = b"".join(json.dumps(each).encode() + b"\n" for each in records)
    path.write_bytes(zstandard.ZstdCompressor().compress(content))


def _cut_off(rewrite):
    rewrite["graph"] = base64.b64encode(base64.b64decode(rewrite["graph"])[:200]).decode()


def _cut_off_in_an_earlier_version(rewrite):
    _cut_off(rewrite)
    del rewrite["digest"]


def test_the_few_samples_that_are_known_are_the_estimate_rather_than_a_guess(dlbricks, ran, read):
    open_runs = (*QUICK[:4], "--store", "here.db", "--json", "e.json")
    done = dlbricks("estimate", ran[0], *open_runs)
    assert done.status == 0, done.err
    (brick,) = read("e.json")["bricks"]
    assert (brick["origin"], len(brick["samples"])) == ("stored", 5)
    assert len(read("e.json")["models"][0]["measured_samples"]) == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda graphs: _cut_off(graphs[0]),
        lambda graphs: _cut_off_in_an_earlier_version(graphs[0]),
        lambda graphs: graphs[0].update(signature="0" * 24),
        lambda graphs: graphs[0].update(graph=graphs[1]["graph"]),
        lambda graphs: graphs[0].update(backend="pytorch"),
    ],
    ids=["cut off", "cut off, no digest", "signature", "another model", "another backend"],
)
def test_an_export_with_a_graph_that_is_not_as_it_was_changes_nothing(
    dlbricks, ran, tmp_path, monkeypatch, change
):
    good = (tmp_path / "all.zst").read_bytes()
    _graphs(tmp_path / "all.zst", change)
    done = dlbricks("results", "import", "all.zst", "--store", "there.db")
    assert done.status == 2
    assert done.err.startswith("Error: all.zst: ")
    assert done.err.count("\n") == 2
    assert not (tmp_path / "there.db").exists()
    answers(monkeypatch, (tmp_path / "all.zst").read_bytes())
    assert dlbricks("results", "import", "-", "--store", "there.db").status == 2
    (tmp_path / "all.zst").write_bytes(good)
    assert dlbricks("results", "import", "all.zst", "--store", "there.db").status == 0


def test_a_merged_store_with_a_graph_that_is_cut_off_changes_nothing(dlbricks, ran, tmp_path):
    a, b = ran
    with sqlite3.connect(tmp_path / "here.db") as connection:
        for number, graph in connection.execute("SELECT rowid, graph FROM rewrites").fetchall():
            cut_off = zlib.compress(zlib.decompress(graph)[:200])
            connection.execute("UPDATE rewrites SET graph = ? WHERE rowid = ?", (cut_off, number))
    done = dlbricks("results", "merge", "here.db", "--store", "there.db")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"Error: {tmp_path / 'here.db'}: the stored graph of ")
    assert done.err.splitlines()[1].startswith("Hint: run that model again with that store")
    assert not (tmp_path / "there.db").exists()
    dlbricks("estimate", "--measure", a, b, *QUICK, "--store", "here.db")
    assert dlbricks("results", "merge", "here.db", "--store", "there.db").status == 0


def test_a_missing_store_that_is_to_be_merged_is_told_and_makes_none(dlbricks, tmp_path):
    done = dlbricks("results", "merge", "missing.sqlite", "--store", "all.db")
    assert (done.status, done.out) == (2, "")
    missing = tmp_path / "missing.sqlite"
    assert done.err == (
        f"Error: {missing}: there is no result store\nHint: Check the path or the URL.\n"
    )
    assert not (tmp_path / "all.db").exists()


def test_merged_stores_keep_equal_machines_apart(dlbricks, measured):
    for name, host in ("a.db", "h1"), ("b.db", "h2"):
        measured(name, host)
    assert dlbricks("machine", "name", "71bf", "alice", "--store", "a.db").status == 0
    assert dlbricks("results", "merge", "a.db", "b.db", "--store", "all.db").status == 0
    shown = dlbricks("machine", "list", "--store", "all.db")
    assert "alice" in shown.out
    assert "71bff16a@h2" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert dlbricks("machine", "name", "71bff16a@h2", "bob", "--store", "all.db").status == 0
    data = json.loads(dlbricks("machine", "show", "bob", "--store", "all.db", "--json", "-").out)
    assert (data["name"], data["hosts"], data["samples"]) == ("bob", ["h2"], 2)
    assert [each["host"] for each in data["sessions"]] == ["h2"]


def test_information_fits_the_terminal(dlbricks, measured, tmp_path):
    measured("a.db")
    for command in ("results", "info"), ("machine", "list"), ("machine", "show", "71bf"):
        done = dlbricks(*command, "--store", "a.db")
        assert done.status == 0, done.err
        # A path is as long as it is.
        assert max(len(line.replace(str(tmp_path), "")) for line in done.out.splitlines()) <= 80
        assert "torch 2.13.0" in done.out or command[1] == "list"


def test_memory_of_a_machine_has_a_unit(dlbricks, measured):
    measured("a.db")
    done = dlbricks("machine", "show", "71bf", "--store", "a.db")
    (line,) = [each for each in done.out.splitlines() if each.startswith(" memory")]
    assert line.split() == ["memory", "16.0", "GiB"]


def test_nothing_is_deleted_unless_the_user_agrees(dlbricks, measured, monkeypatch, tmp_path):
    measured("a.db")
    prune = ("results", "prune", "--backend", "torch", "--store", "a.db")
    for answer, status, words in (
        (b"n\n", 0, "Nothing is deleted."),
        (b"\n", 0, "Nothing is deleted."),
        (b"", 2, "To delete"),
        (b"y\n", 0, "Deleted."),
    ):
        with ResultStore.open(tmp_path / "a.db") as store:
            assert info(store).measurements == 2
        answers(monkeypatch, answer)
        done = dlbricks(*prune)
        assert done.status == status, done.err
        assert "To delete: 1 observation, 2 measurements, 1 failure, 1 session." in done.out
        assert words in done.out
    with ResultStore.open(tmp_path / "a.db") as store:
        assert info(store).measurements == 0


def test_measurements_before_a_date_are_deleted(dlbricks, measured):
    measured("a.db")
    prune = ("results", "prune", "--yes", "--store", "a.db", "--before")
    assert "Nothing is deleted" in dlbricks(*prune, "2000-01-01").out
    done = dlbricks(*prune, "2100-01-01T12:00:00")
    assert (done.status, "To delete: " in done.out) == (0, True)
    with ResultStore.open("a.db", writes=False) as store:
        assert info(store).observations == 0


def test_one_line_says_that_nothing_matches(dlbricks, measured):
    measured("a.db")
    done = dlbricks("results", "prune", "--outdated", "--yes", "--store", "a.db")
    assert (done.status, done.out) == (0, "Nothing is deleted.\n")


def test_a_quantity_is_named_and_counted_before_it_is_deleted(
    dlbricks, measured, read, monkeypatch
):
    measured("a.db")
    prune = ("results", "prune", "--quantity", "latency", "--store", "a.db")
    answers(monkeypatch, b"")
    done = dlbricks(*prune)
    assert (done.status, "was no answer" in " ".join(done.err.split())) == (2, True)
    assert "To delete: " in done.out
    shown = dlbricks(*prune, "--yes", "--json", "p.json")
    assert shown.status == 0, shown.err
    assert read("p.json")["deleted"]["measurements"] > 0
    gone = dlbricks(*prune, "--yes")
    assert gone.status == 2
    assert "Quantities with measurements: none." in " ".join(gone.err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("results", "export", "x.zst", "--store", "none.db"), "there is no result store"),
        (("results", "info", "--store", "none.db"), "there is no result store"),
        (("results", "merge", "none.db", "--store", "a.db"), "there is no result store"),
        (("results", "merge", "a.zst", "--store", "a.db"), "is an exported file"),
        (("results", "import", "a.db", "--store", "b.db"), "is a result store"),
        (("results", "import", "none.zst", "--store", "b.db"), "No such file"),
        (("results", "import", ".", "--store", "b.db"), "is not a regular file"),
        (("results", "export", "a.db", "--store", "a.db"), "same file as --store"),
        (("results", "export", "no/x.zst", "--store", "a.db"), "there is no folder"),
        (
            ("results", "export", "x.zst", "--store", "a.db", "--backend", "tf"),
            "no measurement with the",
        ),
        (("results", "export", "x.zst", "--store", "a.db", "--system", "lab"), "no system 'lab'"),
        (("results", "prune", "--store", "a.db"), "not specified"),
        (("results", "prune", "--store", "a.db", "--before", "May"), "May"),
        (("results", "prune", "--store", "a.db", "--quantity", "lode"), "of the quantity 'lode'"),
        (("machine", "show", "lab", "--store", "a.db"), "no system 'lab'"),
        (("machine", "name", "71bf", "a b", "--store", "a.db"), "not a valid name for a machine"),
        (("machine", "unknown"), "unknown action 'unknown'; there are check"),
    ],
)
def test_wrong_input_is_told_in_one_line(dlbricks, measured, arguments, words, tmp_path):
    measured("a.db")
    dlbricks("results", "export", "a.zst", "--store", "a.db")
    done = dlbricks(*arguments)
    assert done.status == 2
    (line,) = (line for line in done.err.splitlines() if line.startswith("Error: "))
    assert words in line
    assert not (tmp_path / "x.zst").exists()


def test_flags_may_stand_anywhere(dlbricks, measured):
    measured("a.db")
    for line in ("-q results info", "results -q info", "results info -q"):
        done = dlbricks(*line.split(), "--store", "a.db")
        assert (done.status, done.out) == (0, "")


def test_a_check_names_what_is_damaged_and_ends_with_3(dlbricks, tmp_path, measured, read):
    measured("a.db")
    check = ("results", "check", "--store", "a.db", "--json", "a.json")
    done = dlbricks(*check)
    assert done.status == 0
    assert "Nothing is damaged." in done.out
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("""UPDATE observations SET "values" = '[NaN]'""")
    connection.close()
    before = (tmp_path / "a.db").read_bytes()
    done = dlbricks(*check)
    assert done.status == 3
    assert "row 1 of observations: value is nan" in done.out
    found = json.loads((tmp_path / "a.json").read_text())
    tables = {each["table"]: each for each in found["tables"]}
    assert tables["observations"]["damaged"] == 1
    assert tables["measurements"] == {
        "table": "measurements", "intact": 2, "damaged": 0, "named": []
    }  # fmt: skip
    assert [each["where"] for each in found["failures"]] == ["observations"]
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_bomb_on_standard_input_ends_with_2_and_leaves_no_store(tmp_path):
    script = "import sys; from dlbricks_core.cli import main; sys.exit(main())"
    bomb = zstandard.ZstdCompressor().compress(b"[" * 2**24)
    done = subprocess.run(
        [sys.executable, "-c", script, "results", "import", "-", "--store", "new.db"],
        input=bomb, capture_output=True, cwd=tmp_path, check=False,
        env={**os.environ, "DLBRICKS_MOST_JSON_MIB": "1"},
    )  # fmt: skip
    assert done.returncode == 2
    assert b"DLBRICKS_MOST_JSON_MIB" in done.stderr
    assert not (tmp_path / "new.db").exists()

"""Suites travel to another machine, and results travel back: two users who share nothing else."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from dlbricks_records.contents import export_measurements
from dlbricks_suite.results import written_results

from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

NET = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 32, 64, 64] x) => (float[1, 32, 64, 64] y)
{ a = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)  b = Relu(a)
  c = Relu(b)  d = Mul(b, c)  y = Sigmoid(d) }"""

TIMES = ("--backend", "onnxruntime", "--runs", "3", "--threads")
KNOWS = ("--backend", "onnxruntime", "--results")


@dataclass
class Machine:
    """A folder to work in, with a store and caches of its own."""

    folder: Path
    dlbricks: Any = None
    patch: Any = None

    @property
    def own(self):
        names = {"XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"}
        return {variable: str(self.folder / name) for variable, name in names.items()}

    def start(self, *arguments):
        """A process of its own."""
        self.folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "dlbricks_core.cli", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=self.folder, env={**os.environ, **self.own, "COLUMNS": "80"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # Tests that run in the background of a shell ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

    def run(self, *arguments):
        """A command in this process, where the machine's folders are the user's."""
        for name, value in self.own.items():
            self.patch.setenv(name, value)
        self.patch.chdir(self.folder)
        return self.dlbricks(*arguments)

    def read(self, name):
        return json.loads((self.folder / name).read_text())


def carry(name, one, other):
    """Moves a file or a folder from one machine to another."""
    (one.folder / name).rename(other.folder / name)


@pytest.fixture(scope="module")
def begun(tmp_path_factory, in_folder):
    """Two machines. There, a suite was timed into a store, and another one as if for 2 threads."""
    folder = tmp_path_factory.mktemp("journey")
    here, there = Machine(folder / "here"), Machine(folder / "there")
    here.folder.mkdir()
    there.folder.mkdir()
    onnx.save(onnx.parser.parse_model(NET), here.folder / "net.onnx")
    done = in_folder(here.folder, "suite", "write", "net.onnx", "-o", "suite")
    assert done.out.splitlines()[0] == "1 model of 1 brick in suite"
    carry("suite", here, there)
    store = ("--store", "s1.sqlite", "--json", "bench1.json")
    assert in_folder(there.folder, "suite", "time", "suite", *TIMES, "1", *store).status == 0
    shutil.copy(there.folder / "s1.sqlite", there.folder / "s2.sqlite")
    change(there.folder / "s2.sqlite", "threads = 2")
    return folder


def change(store, values):
    """Makes measurements in a store, and what backends made of models, be of something else."""
    with closing(sqlite3.connect(store)) as connection, connection:
        for table in ("measurements", "rewrites"):
            connection.execute(f"UPDATE {table} SET {values}")


@pytest.fixture
def machines(begun, tmp_path, dlbricks, monkeypatch):
    """Copies of both, that a test may change."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    return [Machine(tmp_path / name, dlbricks, monkeypatch) for name in ("here", "there")]


def with_results(there, threads=1):
    """Name of a file with what is in the store there; nothing is measured for it."""
    name = f"r{threads}"
    shutil.copy(there.folder / f"s{threads}.sqlite", there.folder / f"{name}.partial")
    with written_results(there.folder / name):
        pass
    return name


def test_an_estimate_after_the_journey_is_the_one_from_the_samples_there(machines):
    here, there = machines
    results = with_results(there)
    carry(results, there, here)
    shutil.copy(here.folder / "net.onnx", there.folder)
    estimate = ("estimate", "net.onnx", "--json", "out.json")
    local = there.run(*estimate, *TIMES, "1", "--store", "s1.sqlite")
    assert (local.status, local.err) == (0, "")
    travelled = here.run(*estimate, *KNOWS, results)
    assert (travelled.status, max(map(len, travelled.out.splitlines())) <= 80) == (0, True)
    (one,), (other,) = (each.read("out.json")["models"] for each in (there, here))
    for each in (one, other):  # the free memory changes all the time
        del each["memory"]["available_bytes"]
    assert other == one
    assert (other["composer"], other["origin"]) == ("segmented", {"stored": 1.0})
    assert other["estimate"] > 0
    assert not (here.folder / "data").exists()


def test_bench_times_bricks_of_what_the_backend_makes_of_a_model_and_no_whole_model(machines):
    _, there = machines
    bench = there.read("bench1.json")
    listed = there.read("suite/manifest.json")["bricks"]
    timed = {each["signature"] for each in bench["bricks"]}
    assert timed.isdisjoint(each["signature"] for each in listed)
    (model,) = bench["models"]
    assert (model["name"], model["measured"]) == ("net", None)


def test_an_interrupted_bench_goes_on_where_it_ended(machines):
    _, there = machines
    endless = ("--backend", "onnxruntime", "--threads", "1", "--runs", "100000")
    process = there.start("suite", "time", "suite", *endless, "--results", "results")
    partial = there.folder / "results.partial"
    end = time.monotonic() + 60
    while taken(partial) < 20 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run it again to go on" in err
    assert not (there.folder / "results").exists()
    assert taken(partial) >= 20
    again = there.run("suite", "time", "suite", *TIMES, "1", "--results", "results", "-v")
    assert (again.status, "Timing" in again.err) == (0, False)
    assert "Stored in results" in again.out
    assert [path.name for path in there.folder.glob("results*")] == ["results"]
    # And once more: the file itself tells what was measured.
    more = there.run("suite", "time", "suite", *TIMES, "1", "--results", "results", "-v")
    assert (more.status, "Timing" in more.err) == (0, False)


def taken(path):
    if not path.exists():
        return 0
    with sqlite3.connect(path) as connection:
        try:
            return connection.execute("SELECT count(*) FROM observations").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


def test_estimates_rest_on_the_place_that_is_meant(machines):
    here, there = machines
    for threads in (1, 2):
        carry(with_results(there, threads), there, here)
    assert here.run("estimate", "net.onnx", *KNOWS, "r1", "--json", "one.json").status == 0
    both = ("estimate", "net.onnx", *KNOWS, "r1", "--results", "r2")
    refused = here.run(*both)
    assert refused.status == 2
    assert "measured in 2 places" in refused.err
    assert "Choose with --threads" in refused.err
    for threads in (1, 2):
        system = here.read("one.json")["system"]["fingerprint"][:8]
        meant = ("--threads", threads, "--system", system, "--json", "out.json")
        assert here.run(*both, *meant).status == 0
        assert here.read("out.json")["settings"]["threads"] == threads
    for wrong, told in (
        (("--threads", "3"), "--threads"),
        (("--protocol", "paper"), "--quantity or --protocol"),
    ):
        refused = here.run(*both, *wrong)
        assert refused.status == 2
        said = (
            f"Error: the results have no measurement with that {told}\nHint: There are: onnxruntime"
        )
        assert refused.err.startswith(said)
    refused = here.run(*both, "--system", "abc")
    assert (refused.status, "no system 'abc'" in refused.err) == (2, True)
    refused = here.run("estimate", "net.onnx", "--backend", "mxnet", "--results", "r1")
    assert (refused.status, "The results are of: onnxruntime" in refused.err) == (2, True)


def test_results_and_a_store_exclude_each_other(dlbricks, save):
    save("net", "Relu")
    for command in (("suite", "time", "suite"), ("estimate", "net.onnx")):
        refused = dlbricks(*command, *KNOWS, "r", "--store", "s.sqlite")
        assert (refused.status, "exclude each other" in refused.err) == (2, True)


def test_results_need_neither_the_version_nor_the_system_that_they_are_of(machines):
    here, there = machines
    store = there.folder / "s1.sqlite"
    change(store, "version = '0.0.1', system = 'feed'")
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE systems SET fingerprint = 'feed'")
    with ResultStore.open(store) as opened:
        export_measurements(opened, here.folder / "results")
    estimate = here.run("estimate", "net.onnx", *KNOWS, "results", "--json", "out.json")
    assert estimate.status == 0
    assert "onnxruntime 0.0.1, 1 thread" in estimate.out
    assert "another machine than this one" in " ".join(estimate.out.split())
    (model,) = here.read("out.json")["models"]
    assert model["origin"] == {"stored": 1.0}
    data = here.read("out.json")
    assert data["system"]["fingerprint"] == "feed"


def test_a_backend_that_runs_models_as_they_are_is_believed_here(machines, install):
    source = """
        from dataclasses import replace
        from dlbricks_onnxruntime.backend import OnnxruntimeBackend

        class AsTheyAre(OnnxruntimeBackend):
            name = "faithful"
            traits = replace(OnnxruntimeBackend.traits, rewrites=False)
            rewrite = None  # nobody asks for it
        """
    install("faithful", source, "[dlbricks.backends]\nfaithful = faithful:AsTheyAre\n")
    here, there = machines
    how = ("--backend", "faithful", "--runs", "3", "--threads", "1", "--results", "results")
    assert there.run("suite", "time", "suite", *how).status == 0
    carry("results", there, here)
    estimate = ("estimate", "net.onnx", "--backend", "faithful", "--results", "results")
    assert here.run(*estimate, "--json", "out.json").status == 0
    (model,) = here.read("out.json")["models"]
    assert (model["composer"], model["origin"]) == ("segmented", {"stored": 1.0})


def test_after_an_upgrade_there_the_latest_version_counts(machines):
    here, there = machines
    carry(with_results(there), there, here)
    change(there.folder / "s1.sqlite", "version = '0.0.1'")
    with sqlite3.connect(there.folder / "s1.sqlite") as connection:
        connection.execute("UPDATE observations SET taken_at = '2020' || substr(taken_at, 5)")
    with ResultStore.open(there.folder / "s1.sqlite") as opened:
        export_measurements(opened, here.folder / "old")
    both = ("estimate", "net.onnx", *KNOWS, "old", "--results", "r1", "--json", "out.json")
    assert here.run(*both).status == 0
    assert here.read("out.json")["backend"]["version"] != "0.0.1"


def test_results_are_never_overwritten_by_other_output(machines):
    here, there = machines
    carry(with_results(there), there, here)
    refused = here.run("estimate", "net.onnx", *KNOWS, "r1", "--json", "r1")
    assert (refused.status, "--json names the same file as the file r1" in refused.err) == (2, True)


def test_what_cannot_run_there_is_named_here_and_not_predicted(machines, strange):
    here, there = machines
    strange.rename(here.folder / "strange.onnx")
    assert here.run("suite", "write", "strange.onnx", "net.onnx", "-o", "strange").status == 0
    carry("strange", here, there)
    bench = there.run("suite", "time", "strange", *TIMES, "1", "--results", "results")
    assert (bench.status, "nowhere.Strange" in bench.out) == (3, True)
    carry("results", there, here)
    models = ("strange.onnx", "net.onnx")
    estimate = here.run("estimate", *models, *KNOWS, "results", "--json", "out.json")
    assert estimate.status == 3
    assert "not a registered function" in estimate.out
    broken, whole = here.read("out.json")["models"]
    assert (broken["estimate"], broken["partial"], whole["partial"]) == (None, True, False)


def test_a_damaged_suite_is_named(machines):
    _, there = machines
    (path,) = there.folder.glob("suite/models/*.onnx")
    path.write_bytes(path.read_bytes()[:-1])
    refused = there.run("suite", "time", "suite", *TIMES, "1", "--results", "results")
    assert refused.status == 2
    said = "suite/models/001-net.onnx was changed after it was written"
    assert said in refused.err


def test_a_suite_tells_people_what_it_holds(machines):
    _, there = machines
    text = (there.folder / "suite" / "README.txt").read_text()
    assert len(text.splitlines()) == 7
    assert "dlbricks suite time" in text
    manifest = there.read("suite/manifest.json")
    (model,), (brick,) = manifest["models"], manifest["bricks"]
    assert (model["name"], model["layers"], model["inputs"]) == ("net", 5, ["float32[1x32x64x64]"])
    assert brick["layers"] == ["MaxPool", "Relu", "Relu", "Mul", "Sigmoid"]
    assert brick["used"] == {"net": 1}
    proto = onnx.load(there.folder / "suite" / model["file"], load_external_data=False)
    assert [node.op_type for node in proto.graph.node] == brick["layers"]

"""Estimates with the core alone: neither a plugin of the backend nor its framework is there."""

import json
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from dlbricks_prediction import Contribution, Provenance
from dlbricks_prediction.atlas import LayerTable, counts_matrix
from dlbricks_prediction.features import Features, joined
from dlbricks_survey.packing import write

from dlbricks_core.bricks import BrickSet
from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.importers.models import ModelLoader
from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

#: The command line without plugins but the predictor: none is announced, and none can be imported.
#: It reads lines of JSON, each with a folder of contributions, a folder to run in, and command
#: lines. A fork of its runs them, and it writes their highest status.
ALONE = """
import json
import os
import sys
from importlib import metadata
from pathlib import Path

import dlbricks_core.plugins.registry as registry
import dlbricks_prediction.atlas as atlas

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("dlbricks_onnxruntime", "onnxruntime")):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
every = (e for group in metadata.entry_points().groups for e in metadata.entry_points(group=group))
own = [e for e in every if e.value.startswith(("dlbricks_core.", "dlbricks_prediction."))]
registry.entry_points = lambda: metadata.EntryPoints(own)
import dlbricks_core.commands.estimate.actions
import dlbricks_core.estimation.without_runs
import dlbricks_prediction.from_atlas
import dlbricks_core.commands.estimate.terminal
import dlbricks_core.store.store
from dlbricks_core.cli import main

def run(contributions, folder, lines):
    atlas.FOLDER = Path(contributions)
    os.chdir(folder)
    for name in ("out", "err"):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1 if name == "out" else 2)
    statuses = []
    for line in lines:
        try:
            main(line)
        except SystemExit as ended:
            statuses.append(ended.code)
        Path("modules").write_text(" ".join(sys.modules))
    sys.exit(max(statuses))

for asked in sys.stdin:
    number = os.fork()
    if not number:
        run(*json.loads(asked))
    print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)
"""

ONE = ["--backend", "onnxruntime", "--threads", "1"]
SETUP = Setup("onnxruntime", "9.9", '{"optimizations":"all"}', 1,
              PROTOCOLS["interleaved"].identity, "0.1.0+ab")  # fmt: skip


@pytest.fixture
def model(shared):
    return shared("net", "Relu", "Tanh", size=128, batch=32)


@pytest.fixture
def bricks(model):
    with ModelLoader() as loader:
        (loaded,) = loader.load([str(model)])
    return BrickSet.of([loaded], 128, "short-segments", rereading=True).bricks


@pytest.fixture
def atlas(tmp_path, bricks):
    """A folder with one contribution: the bricks, a millisecond each."""
    folder = tmp_path / "atlas"
    folder.mkdir()
    table = LayerTable()
    counts = [
        table.add(joined([Features.of(brick.model), Features.of_ends(brick.model)]))
        for brick in bricks.values()
    ]
    found = np.zeros(len(counts))
    contribution = Contribution(
        system=current_system(),
        setup=SETUP,
        provenance=Provenance("0.1.0", "2026-01-01", "2026-01-02", ("s",), "a test"),
        features=table.features,
        counts=counts_matrix(counts, len(table.kinds)),
        log_ms=found,
        noise=found + 1e-4,
        call_ms=found,
        signatures=tuple(bricks),
        groups=("net",) * len(counts),
    )
    write(contribution, folder / "here.npz")
    return folder


class Done(NamedTuple):
    """How commands ended, and what they wrote."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def alone():
    """Runs command lines without plugins in a folder, all of them in one process."""
    server = subprocess.Popen([sys.executable, "-c", ALONE], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip

    def run(contributions, folder, lines):
        print(json.dumps([str(contributions), str(folder), lines]), file=server.stdin, flush=True)
        status = int(server.stdout.readline())
        return Done(status, *((folder / name).read_text() for name in ("out", "err")))

    yield run
    server.communicate()


@pytest.fixture
def estimated(tmp_path, model, alone):
    """Runs ``dlbricks estimate`` without plugins, and gives its exit status, errors and result.

    Each list of further arguments is an estimate; all run in one process.
    """

    def run(folder, *lines):
        paths = [tmp_path / f"estimate{i}.json" for i in range(len(lines))]
        whole = [["estimate", str(model), "--store", str(tmp_path / "s.db"), "--json", str(path),
                  *line] for path, line in zip(paths, lines, strict=True)]  # fmt: skip
        done = alone(folder, tmp_path, whole)
        return done, *(json.loads(p.read_text()) if p.exists() else None for p in paths)

    return run


def test_the_atlas_stands_in_for_a_plugin(estimated, atlas, tmp_path):
    done, data = estimated(atlas, ONE)
    assert done.returncode == 0, done.stderr
    assert data["backend"] == {
        "name": "onnxruntime", "version": "9.9", "plugin": SETUP.plugin,
        "settings": {"optimizations": "all"}, "environment": {},
    }  # fmt: skip
    (model,) = data["models"]
    assert model["origin"] == {"predicted": 1.0}
    low, high = model["interval"]
    assert low < model["estimate"] < high
    assert "onnxruntime is not installed" in data["notes"][-1]["text"]
    # Each of them takes longer to import than all that an estimate computes.
    slow = {"alembic", "matplotlib", "networkx", "pandas"}
    assert slow.isdisjoint((tmp_path / "modules").read_text().split())


def test_the_store_stands_in_for_a_plugin(estimated, tmp_path, bricks):
    system = current_system()
    with ResultStore.open(tmp_path / "s.db") as store:
        store.remember_system(system.fingerprint, system.to_dict())
        for signature in bricks:
            subject = Subject(signature, "brick")
            question = Question(subject, LATENCY, SETUP, system.fingerprint)
            store.add_samples(question, Observation("s", 0, (3.0,) * 6))
    done, one, two = estimated(tmp_path, ONE, [*ONE[:3], "2"])
    assert done.returncode == 0, done.stderr
    assert one["models"][0]["origin"] == {"stored": 1.0}
    assert two["models"][0]["origin"] == {"predicted": 1.0}


@pytest.fixture
def elsewhere(tmp_path, model):
    """JSON of a measured estimate with all plugins on a system with one CPU."""
    pytest.importorskip("onnxruntime")
    cpu = min(os.sched_getaffinity(0))
    command = [
        sys.executable,
        "-m",
        "dlbricks_core.cli",
        "estimate",
        "--measure",
        str(model),
        "-q",
        "--runs",
        "3",
        "--backend",
        "onnxruntime",
        "--store",
        "s.db",
        "--json",
        "there.json",
    ]
    subprocess.run(
        command, check=True, cwd=tmp_path, preexec_fn=lambda: os.sched_setaffinity(0, {cpu})
    )
    return json.loads((tmp_path / "there.json").read_text())


def test_a_store_that_was_filled_elsewhere_is_enough_and_a_new_model_says_what_it_needs(
    elsewhere, estimated, shared, tmp_path
):
    fingerprint, new = elsewhere["system"]["fingerprint"], str(shared("new", "Sigmoid"))
    there = [*ONE[:2], "--runs", "3", "--system", fingerprint[:10]]
    done, data, more = estimated(tmp_path, there, [new, *there])
    assert done.returncode == 0, done.stderr
    (there,), (here,) = elsewhere["models"], data["models"]
    assert here["estimate"] == pytest.approx(there["estimate"], rel=1e-9)
    assert here["origin"] == {"stored": 1.0}
    assert here["bricks"] == there["bricks"]
    assert data["backend"] == {**elsewhere["backend"], "environment": {}}
    assert data["system"] == elsewhere["system"]
    assert (data["system"]["available_cpus"], data["settings"]["threads"]) == (1, 1)
    own = current_system().fingerprint
    if own != data["system"]["fingerprint"]:
        assert "another machine than this one" in " ".join(done.stdout.split())
        assert own not in done.stdout
    assert "onnxruntime" not in (tmp_path / "modules").read_text().split()
    assert [model["origin"] for model in more["models"]] == [{"stored": 1.0}, {"predicted": 1.0}]
    (needs,) = (note for note in more["notes"] if note["code"] == "never-measured")
    assert needs["values"]["models"] == ["new"]
    assert "'dlbricks suite time'" in needs["text"]
    assert fingerprint[:8] in needs["text"]


def test_a_page_is_refused_before_anything_is_read(estimated, tmp_path, atlas):
    done, data = estimated(atlas, [*ONE, "--html", str(tmp_path / "page.html")])
    assert (done.returncode, data) == (2, None)
    error, hint = done.stderr.splitlines()
    assert error == "Error: HTML pages come with dlbricks-pages, which is not installed"
    assert "pip install -c constraints.txt -e plugins/prediction -e plugins/pages" in hint
    assert not (tmp_path / "page.html").exists()


def test_a_backend_that_nobody_knows_is_an_error_in_one_line(estimated, tmp_path, atlas):
    done, *_ = estimated(
        atlas, ["--backend", "nowhere"], [*ONE, "--backend-option", "optimizations=basic"]
    )
    assert done.returncode == 2
    unknown, hint, option, choice = done.stderr.splitlines()
    assert unknown == "Error: unknown backend 'nowhere'"
    assert hint.startswith("Hint: ")
    assert option.startswith("Error: ")
    assert "Choose from all" in choice
    done, _ = estimated(tmp_path, ONE[:2])
    assert done.returncode == 2
    assert "pip install -c constraints.txt -e plugins/NAME" in done.stderr

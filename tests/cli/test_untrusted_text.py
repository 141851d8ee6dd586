"""Every command on names that others chose, in each file that it reads.

Commands come from the program itself: a new one fails until a line of it is here.
"""

import csv
import io
import json
import re
import shlex
import shutil
import signal
import sqlite3
import unicodedata
from contextlib import closing, contextmanager

import click
import onnx
import pytest
from onnx import TensorProto, helper

from dlbricks_core.cli.main import cli

pytestmark = [pytest.mark.process, pytest.mark.long]

SECRET = "s3cret"

NAME = "=1+1|<b>&\x1b[31m\u202e\u2066\x07\nInjected"
"""A formula, a cell of a table, an element, a color, two directions, a bell and a line."""

MODEL = f"{NAME}.onnx"

ADDRESS = f"postgresql://me:{SECRET}@127.0.0.1:1/{NAME}"

RUN = "--backend onnxruntime --threads 1 --runs 2 --store store.sqlite"
FEW = f"MODEL {RUN} --measure"
BOTH = "--backends onnxruntime,openvino"
LOAD = "--backend onnxruntime --scenario offline --duration 0.2s --store store.sqlite"

LINES = {
    "estimate": f"{FEW} --html o.html",
    "compare latencies": f"MODEL {BOTH} --runs 2 --store store.sqlite --html o.html",
    "compare outputs": f"MODEL {BOTH}",
    "check accuracy": f"MODEL {RUN} --html o.html",
    "check layers": f"MODEL {RUN} --html o.html",
    "check trace": f"MODEL {RUN} -o trace.json",
    "show layers": "MODEL --layers",
    "show repeats": "MODEL --html o.html",
    "show graph": "MODEL -o g.svg",
    "suite time": "suite --backend onnxruntime --runs 2 --store store.sqlite",
    "suite write": "MODEL -o written",
    "machine check": "",
    "machine calibrate": f"MODEL {RUN}",
    "machine survey": "MODEL --backend onnxruntime --budget 1s --store store.sqlite",
    "machine list": "--store store.sqlite",
    "machine show": "NAME --store store.sqlite",
    "machine name": "NAME NAME --store store.sqlite",
    "results info": "--store store.sqlite",
    "results export": "out.zst --store store.sqlite",
    "results import": "export.zst --store new.sqlite",
    "results merge": "store.sqlite --store new.sqlite",
    "results check": "--store store.sqlite",
    "results prune": "--backend NAME --store store.sqlite --yes",
    "results record": "run.json",
    "results repeat": "record.json --store store.sqlite",
    "results compare": "run.json run.json",
    "results pages": "-o pages --store store.sqlite",
    "list models": "NAME:",
    "list plugins": "",
    "advise": "MODEL --prices prices.toml --store store.sqlite --html o.html",
    "fleet certificates": "keys NAME",
    "fleet run": "suite --scheduler tcp://127.0.0.1:1 --wait 1s --store store.sqlite",
    "fleet scheduler": "--host NAME",
    "fleet status": "--scheduler NAME",
    "fleet worker": "--scheduler NAME --spool NAME",
    "private attack": "suite --key prices.toml",
    "private estimate": "--key prices.toml --results run.json",
    "private generate": "MODEL -o published --key key.json --decoys 1",
    "serve load": f"MODEL {LOAD}",
    "serve compare": f"MODEL {LOAD.replace('--backend onnxruntime', BOTH)}",
    "study": f"MODEL {RUN} -o study",
}
"""Arguments of each command: they take the hostile files that :func:`files` writes."""


def leaves(command, words=()):
    """Commands without actions, by the words that name them."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*words, name))


COMMANDS = dict(leaves(cli))


def network():
    """A network all of whose names are hostile."""
    names = {each: f"{NAME}{each}" for each in "xyz"}
    nodes = [
        helper.make_node("Relu", [names["x"]], [names["z"]], name=names["z"]),
        helper.make_node("Tanh", [names["z"]], [names["y"]], name=names["y"]),
    ]
    ends = [helper.make_tensor_value_info(names[e], TensorProto.FLOAT, [4, 64]) for e in "xy"]
    graph = helper.make_graph(nodes, NAME, ends[:1], ends[1:], doc_string=NAME)
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name=NAME)


def poison(path):
    """Puts the name in place of all texts of a store that are free."""
    with closing(sqlite3.connect(path)) as base, base:
        (system,) = base.execute("SELECT fingerprint FROM systems").fetchone()
        base.execute("INSERT OR REPLACE INTO machines VALUES (?, ?, ?, ?)",
                     (system, NAME, NAME, "2026-11-30T00:00:00+00:00"))  # fmt: skip
        base.execute("UPDATE measurements SET layers = ?", (json.dumps([NAME]),))
        row = list(base.execute("SELECT * FROM measurements").fetchone())
        columns = [each[1] for each in base.execute("PRAGMA table_info(measurements)")]
        row = dict(zip(columns, row, strict=True))
        row |= {"id": 10_000, "signature": NAME, "kind": "model", "backend": NAME, "version": NAME}
        row |= {"failure": NAME, "system": NAME, "protocol": NAME, "plugin": NAME}
        marks = ", ".join("?" * len(row))
        base.execute(f"INSERT INTO measurements VALUES ({marks})", list(row.values()))
        for name, facts in base.execute("SELECT fingerprint, facts FROM systems").fetchall():
            facts = json.dumps({**json.loads(facts), "cpu": NAME, "os": NAME, "kernel": NAME})
            base.execute("UPDATE systems SET facts = ? WHERE fingerprint = ?", (facts, name))
            base.execute("INSERT INTO systems VALUES (?, ?)", (NAME, facts))
        base.execute("UPDATE networks SET groups = ?", (json.dumps([NAME]),))


@pytest.fixture(autouse=True)
def few_networks(monkeypatch):
    """Lets a survey begin with few networks, and end after them."""
    monkeypatch.setattr("dlbricks_survey.surveying._FIRST_BATCH", 8)


@pytest.fixture(scope="module")
def files(in_folder, tmp_path_factory):
    """Folder of hostile files of every kind."""
    folder = tmp_path_factory.mktemp("hostile")
    onnx.save(network(), folder / MODEL)
    (folder / "prices.toml").write_text(f"[{json.dumps(NAME)}]\nprice = 1\n")
    lines = (
        f"estimate {FEW} --json run.json",
        "suite write MODEL -o suite",
        "results record run.json --json record.json",
    )
    for line in lines:
        done = in_folder(folder, *filled(line))
        assert done.status in (0, 3), done.err
    poison(folder / "store.sqlite")
    for path in (folder / "run.json", folder / "record.json"):
        data = json.loads(path.read_text())
        path.write_text(json.dumps(poisoned(data)))
    done = in_folder(folder, *filled("results export export.zst --store store.sqlite"))
    assert done.status == 0, done.err
    return folder


FREE = {"name", "model_name", "cpu", "os", "kernel", "python", "reason", "layers", "operators"}
"""Keys of results whose texts are free."""


def poisoned(data, free=False):
    """Results with the name in place of all texts of such keys."""
    if isinstance(data, dict):
        return {key: poisoned(value, key in FREE) for key, value in data.items()}
    if isinstance(data, list):
        return [poisoned(each, free) for each in data]
    return NAME if free and isinstance(data, str) else data


def filled(line):
    """Arguments of a line."""
    given = {"MODEL": MODEL, "NAME": NAME, "NAME:": f"{NAME}:"}
    return [given.get(each, each) for each in shlex.split(line)]


@contextmanager
def interrupted_after(seconds):
    """Ctrl-C after some seconds: some commands serve until then."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def harmless(text):
    """Whether a text drives no terminal, and adds no line."""
    controls = {c for c in text if unicodedata.category(c)[0] == "C"} - {"\n"}
    return not controls and not re.search("^Injected", text, re.MULTILINE)


def check_files(folder):
    """Checks what a command wrote."""
    for path in folder.rglob("*"):
        if path.suffix in {".html", ".svg", ".csv", ".md", ".txt", ".js"} and path.is_file():
            text = path.read_text()
            assert not {"\x1b", "\u202e", "\u2066", "\x07"} & set(text), path
            if path.suffix in {".html", ".svg"}:
                assert "<b>&" not in text, path
            if path.suffix == ".csv":
                cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
                assert not any(cell.startswith("=") for cell in cells), path
        elif path.suffix == ".json" and path.is_file():
            json.loads(path.read_text())


def test_every_command_has_a_line():
    assert set(COMMANDS) <= set(LINES)  # those of some distributions may be missing


@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", COMMANDS)
def test_names_that_others_chose_are_text(dlbricks, files, tmp_path, monkeypatch, words):
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("COLUMNS", "2000")
    added = [f"--{each}" for each in ("csv", "verbose") if has(COMMANDS[words], f"--{each}")]
    if has(COMMANDS[words], "--json"):
        added += ["--json", "o.json"]
    with interrupted_after(60):
        done = dlbricks(*words.split(), *filled(LINES[words]), *added)
    assert done.status in (0, 2, 3, 130), done.err
    assert harmless(done.out), ascii(done.out)
    assert harmless(done.err), ascii(done.err)
    check_files(tmp_path)


def has(command, option):
    """Whether a command has an option."""
    return any(option in each.opts for each in command.params)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_shows_the_password_of_a_store(dlbricks, files, tmp_path, monkeypatch, words):
    """In no output, log, record or page, wherever the address of the store is given."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("COLUMNS", "2000")
    command = COMMANDS[words]
    arguments = filled(LINES[words].replace("store.sqlite", "STORE").replace("new.sqlite", "STORE"))
    lines = [[ADDRESS if each == "STORE" else each for each in arguments]]
    lines += [[ADDRESS if here == at else each for here, each in enumerate(arguments)]
              for at, each in enumerate(arguments) if not each.startswith("-")]  # fmt: skip
    verbose = ["--verbose"] * has(command, "--verbose")
    for line in lines:
        line = ["store.sqlite" if each == "STORE" else each for each in line]
        with interrupted_after(20):
            done = dlbricks(*words.split(), *line, *verbose)
        assert done.status in (0, 2, 3, 130), done.err
        assert SECRET not in done.out + done.err
        assert harmless(done.out + done.err), ascii(done.err)
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert SECRET.encode() not in path.read_bytes(), path

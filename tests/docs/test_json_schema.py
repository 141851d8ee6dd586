"""Objects that commands write with ``--json`` are those of the schema that the code gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from dlbricks_accuracy.announced import CheckCommand
from dlbricks_compare.announced import CompareCommand
from dlbricks_machine.announced import MachineCommand
from dlbricks_records.announced import ResultsCommand
from dlbricks_serving.announced import Advise, Serve
from dlbricks_serving.contention import passes
from dlbricks_study.announced import StudyCommand
from dlbricks_suite.announced import SuiteCommand
from dlbricks_testing.json_schema import schema_of_commands

from dlbricks_core.cli import main
from dlbricks_core.commands.own import OWN
from dlbricks_core.machine.system import current_system
from dlbricks_core.plugins import names

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "dlbricks.schema.json").read_text("utf-8"))

THERE = ("--threads", "1", "--store", "results.sqlite")
QUICK = (*THERE, "--runs", "2")
ONE = ("--backend", "onnxruntime", *QUICK)
UNCOUNTED = ("--backend", "onnxruntime", *THERE)
TWO = ("--backends", "onnxruntime,twin")
DIALLED = ("--backend", "onnxruntime", "--threads", "1", "--store", "dial.sqlite",
           "--precision", "20%")  # fmt: skip
A, B = "a.onnx", "b.onnx"
DECODER, OPEN = "decoder.onnx", "open.onnx"
FINGERPRINT = current_system().fingerprint

#: Commands with actions, of this distribution and of others.
COMMANDS = (
    *(
        *OWN,
        CheckCommand,
        CompareCommand,
        MachineCommand,
        ResultsCommand,
        Serve,
        Advise,
        StudyCommand,
    ),
    SuiteCommand,
)

#: Names of the actions that users type, by command.
ACTIONS = {
    each.name: {action.name for action in each.actions} if len(each.objects) > 1 else set()
    for each in COMMANDS
}
for name in names("command"):
    command, _, action = name.partition(".")
    if action:
        ACTIONS[command].add(action)

#: Every command, in an order in which later ones find what earlier ones left.
LINES = [
    ("estimate", A, *ONE, "--measure"),
    ("estimate", A, B, "absent.onnx", *DIALLED, "--composer", "similar"),
    ("estimate", DECODER, *DIALLED, "--prompt", "8", "--generate", "4", "--end-to-end"),
    ("estimate", OPEN, *ONE, "--measure", "--sweep", "sequence=2,4", "--sweep", "batch=1,2"),
    ("serve", A, "absent.onnx", *UNCOUNTED, "--measure", "--scenario", "server",
     "--max-latency", "1s",
     "--instances", "1", "--end-to-end", "--duration", "0.2s"),
    ("estimate", DECODER, "absent.onnx", *ONE, "--sweep", "prompt=8,16", "--generate", "1"),
    ("serve", A, *UNCOUNTED, "--scenario", "offline", "--instances", "1"),
    ("estimate", A, *ONE),
    ("advise", A, "absent.onnx", "--store", "results.sqlite"),
    ("advise", DECODER, "--prompt", "8", "--generate", "4", "--store", "results.sqlite"),
    ("advise", A, B, "--prices", "prices.toml", "--accuracies", "accuracies.toml", "--max-latency",
     "1s", "--store", "results.sqlite"),
    ("check", A, B, *ONE),
    ("machine", "calibrate", A, B, *ONE),
    ("machine", "calibrate", A, "--probes", "1", *ONE),
    ("machine", "survey", A, "--budget", "1s", *UNCOUNTED),
    ("machine", "survey", "--pack", "packed", "--store", "results.sqlite"),
    ("results", "pages", "-o", "site", "--store", "results.sqlite"),
    ("study", A, B, "-G", "1,3", *ONE),
    ("study", "--from", "study/study.json", "-o", "again"),
    ("check", "layers", A, *ONE),
    ("check", "trace", A, "-o", "trace.events.json", *ONE),
    ("serve", "compare", A, "absent.onnx", *TWO, *THERE, "--scenario", "offline",
     "--instances", "1"),
    ("compare", A, *TWO, *QUICK),
    ("compare", "outputs", A, *TWO),
    ("show", A),
    ("show", "repeats", A, B),
    ("show", "graph", A, "-o", "graph.svg"),
    ("suite", "write", A, "-o", "bricks"),
    ("suite", "time", "bricks", *ONE),
    ("results", "record", "compare.json"),
    ("results", "repeat", "estimate.json", "--store", "results.sqlite"),
    ("results", "repeat", "check.json"),
    ("results", "compare", "estimate.json", "estimate.json"),
    ("results", "export", "all.jsonl.zst", "--store", "results.sqlite"),
    ("results", "import", "all.jsonl.zst", "--store", "other.sqlite"),
    ("results", "merge", "results.sqlite", "--store", "third.sqlite"),
    ("results", "info", "--store", "other.sqlite"),
    ("results", "check", "--store", "other.sqlite"),
    ("results", "prune", "--backend", "twin", "--yes", "--store", "other.sqlite"),
    ("machine", "list", "--store", "results.sqlite"),
    ("machine", "show", FINGERPRINT, "--store", "results.sqlite"),
    ("machine", "name", FINGERPRINT, "lab", "--store", "results.sqlite"),
    ("list", "models", "onnx:"),
    ("list", "plugins",),
    ("machine", "check",),
]  # fmt: skip


def name_of(line):
    """Name of the object in the schema that a command line writes."""
    command, action = line[:2]
    return f"{command}_{action}" if action in ACTIONS[command] else command


@pytest.fixture(scope="module")
def written(perceptron, save_decoder, distribution, keep_workers, tmp_path_factory):
    """What each command line wrote."""
    folder = tmp_path_factory.mktemp("json")
    found = []
    with pytest.MonkeyPatch.context() as patch:
        keep_workers(patch)
        patch.chdir(folder)
        distribution.install_twin(patch, tmp_path_factory.mktemp("site"))
        # Under load for less time than good figures need.
        patch.setattr(passes, "_SHORTEST_S", 0.1)
        perceptron(A, 1, 4)
        perceptron(B, 2, 4)
        perceptron(OPEN, "batch", "sequence")
        save_decoder(DECODER)
        cpu = json.dumps(current_system().cpu)
        Path("prices.toml").write_text(f"[per_hour]\n{cpu} = 0.1", "utf-8")
        Path("accuracies.toml").write_text("[accuracy]\na = 70\nb = 80", "utf-8")
        for line in LINES:
            target = folder / "written.json"
            target.unlink(missing_ok=True)
            with pytest.raises(SystemExit) as ended:
                main([*line, "-q", "--json", str(target)])
            assert ended.value.code in (0, 3), line
            found.append((name_of(line), json.loads(target.read_text("utf-8"))))
            shutil.copy(target, f"{name_of(line)}.json")
    return found


@pytest.mark.long
def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_committed_schema_is_that_of_the_code():
    # Compared before the assertion: pytest would show both in full.
    is_current = schema_of_commands() == SCHEMA
    assert is_current, "python -m dlbricks_testing.json_schema docs/reference/dlbricks.schema.json"


def test_every_action_is_in_the_schema_and_here():
    every = {f"{command}_{action}" for command in ACTIONS for action in ACTIONS[command]}
    assert every <= set(SCHEMA["$defs"]), "its object is in the schema"
    # The first action of a command need not be named.
    first = {f"{each.name}_{each.actions[0].name}" for each in COMMANDS}
    tried = {name_of(line) for line in LINES} | first
    assert tried >= every, "LINES above has a command line for each action"


def test_what_commands_write(written, closed):
    # One test: where tests run side by side, each process would run all commands again.
    schema = closed(SCHEMA)
    assert [
        f"{' '.join(line)}: {error.json_path}: {error.message[:200]}"
        for line, (command, data) in zip(LINES, written, strict=True)
        for error in jsonschema.Draft202012Validator(
            {**schema, "$ref": f"#/$defs/{command}"}
        ).iter_errors(data)
    ] == []

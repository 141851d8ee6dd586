"""What commands write with ``--json`` is what the schema says, and no field is missing there."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from dlbricks_core.cli import main
from dlbricks_core.cli.main import cli
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure.contention import passes

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("onnxruntime")
if find_spec("sklearn") is None:  # importing it takes a second of each process that collects
    pytest.skip("scikit-learn is not installed", allow_module_level=True)

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "dlbricks.schema.json").read_text("utf-8"))

QUICK = ("--threads", "1", "--runs", "2", "--store", "results.sqlite")
ONE = ("--backend", "onnxruntime", *QUICK)
SURVEY = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite")
TWO = ("--backends", "onnxruntime,twin")
DIALLED = ("--backend", "onnxruntime", "--threads", "1", "--store", "dial.sqlite",
           "--precision", "20%")  # fmt: skip
A, B = "a.onnx", "b.onnx"
DECODER, OPEN = "decoder.onnx", "open.onnx"
FINGERPRINT = current_system().fingerprint

#: Every command, in an order in which later ones find what earlier ones left.
LINES = [
    ("run", A, *ONE),
    ("run", A, B, "absent.onnx", *DIALLED, "--composer", "similar"),
    ("run", DECODER, *DIALLED, "--prompt", "8", "--generate", "4", "--end-to-end"),
    ("run", OPEN, *ONE, "--sweep", "sequence=2,4", "--sweep", "batch=1,2"),
    (
        "run",
        A,
        "absent.onnx",
        *ONE,
        "--scenario",
        "server",
        "--latency-bound",
        "1s",
        "--instances",
        "1",
        "--end-to-end",
        "--duration",
        "0.2s",
    ),
    ("estimate", DECODER, "absent.onnx", *ONE, "--sweep", "prompt=8,16", "--generate", "1"),
    ("estimate", A, *ONE, "--scenario", "offline", "--threads", "1", "--instances", "1"),
    ("estimate", A, *ONE),
    ("advise", A, "absent.onnx", "--store", "results.sqlite"),
    ("advise", DECODER, "--prompt", "8", "--generate", "4", "--store", "results.sqlite"),
    (
        "advise",
        A,
        B,
        "--prices",
        "prices.toml",
        "--accuracies",
        "accuracies.toml",
        "--max-latency",
        "1s",
        "--store",
        "results.sqlite",
    ),
    ("evaluate", A, B, *ONE),
    ("calibrate", A, B, *ONE),
    ("calibrate", A, "--probes", "1", *ONE),
    ("survey", A, "--budget", "1s", *SURVEY),
    ("survey", "--pack", "packed", "--store", "results.sqlite"),
    ("atlas", "-o", "site", "--store", "results.sqlite"),
    ("study", A, B, "-G", "1,3", *ONE),
    ("study", "--from", "study/study.json", "-o", "again"),
    ("explain", A, *ONE),
    ("trace", A, "-o", "trace.events.json", *ONE),
    ("compare", A, "absent.onnx", *TWO, *QUICK, "--scenario", "offline", "--instances", "1"),
    ("compare", A, *TWO, *QUICK),
    ("verify", A, *TWO),
    ("inspect", A),
    ("analyze", A, B),
    ("graph", A, "-o", "graph.svg"),
    ("generate", A, "-o", "bricks"),
    ("bench", "bricks", *ONE),
    ("spec", "compare.json"),
    ("rerun", "estimate.json", "--store", "results.sqlite"),
    ("rerun", "evaluate.json"),
    ("store", "export", "all.jsonl.zst", "--store", "results.sqlite"),
    ("store", "import", "all.jsonl.zst", "--store", "other.sqlite"),
    ("store", "merge", "results.sqlite", "--store", "third.sqlite"),
    ("store", "info", "--store", "other.sqlite"),
    ("store", "prune", "--backend", "twin", "--yes", "--store", "other.sqlite"),
    ("systems", "list", "--store", "results.sqlite"),
    ("systems", "show", FINGERPRINT, "--store", "results.sqlite"),
    ("systems", "name", FINGERPRINT, "lab", "--store", "results.sqlite"),
    ("generate", A, "--private", "--decoys", "2", "--decoys-from", B, "-o", "private"),
    ("privacy", "private", "--key", "private.key.json", "--published", B),
    ("models", "onnx:"),
    ("plugins",),
    ("doctor",),
]


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
            found.append((line[0], json.loads(target.read_text("utf-8"))))
            shutil.copy(target, f"{line[0]}.json")
    return found


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_command_is_in_the_schema_and_here():
    names = set(cli.list_commands(None))
    assert names <= set(SCHEMA["$defs"])
    # What fleets write needs a fleet: tests/fleet/test_run.py.
    assert {line[0] for line in LINES} == names - {"fleet"}


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

"""The commands beside the main job."""

import gc
import json
import os
import subprocess
import sys

import onnx
import pytest
from onnx import numpy_helper

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--backend", "onnxruntime", "--threads", "1", "--runs", "3")


def test_inspect_counts_layers_and_operators(dlbricks, read):
    done = dlbricks("show", "onnx:resnet50", "onnx:vgg19", "--json", "out.json")
    assert done.status == 0
    resnet, vgg = read("out.json")["models"]
    assert (resnet["layers"], resnet["operators"]["BatchNormalization"]) == (176, 53)
    assert resnet["unique_layers"] < 60
    assert len(resnet["sequence"]) == 176
    assert vgg["inputs"] == {"data_0": "float32[1x3x224x224]"}
    assert read("out.json")["totals"]["layers"] == resnet["layers"] + vgg["layers"]
    assert max(map(len, done.out.splitlines())) <= 80
    assert "GlobalAveragePool" not in dlbricks("show", "onnx:vgg19", "-v").out


def test_generated_bricks_travel_without_weights_topology_or_names(dlbricks, save, read, tmp_path):
    save("secret_model", "Relu", "Relu", "Sigmoid", seed=7)
    done = dlbricks(
        "suite", "write", "secret_model.onnx", "-G", "1", "-o", "bricks", "--json", "out.json"
    )
    assert done.status == 0
    folder = tmp_path / "bricks"
    text = (folder / "manifest.json").read_text()
    assert "secret" not in text
    assert "occurrences" not in text
    original = onnx.load(tmp_path / "secret_model.onnx")
    secret = {numpy_helper.to_array(t).tobytes() for t in original.graph.initializer}
    files = sorted(folder.glob("bricks/*.onnx"))
    assert len(files) == 3
    for file in files:
        proto = onnx.load(file)
        onnx.checker.check_model(proto, full_check=True)
        assert b"secret" not in file.read_bytes()
        assert not {numpy_helper.to_array(t).tobytes() for t in proto.graph.initializer} & secret

    elsewhere = (*QUICK, "--store", "elsewhere.sqlite")
    assert dlbricks("suite", "time", "bricks", *elsewhere, "--json", "bench.json").status == 0
    bench = read("bench.json")
    assert {b["signature"] for b in bench["bricks"]} == {f.stem for f in files}
    assert all(b["value"] > 0 for b in bench["bricks"])
    composed = dlbricks(
        "estimate", "secret_model.onnx", *elsewhere, "--json", "est.json",
        "--system", bench["system"]["fingerprint"][:6],
    )  # fmt: skip
    assert composed.status == 0
    (model,) = read("est.json")["models"]
    assert model["estimate"] > 0
    assert model["measured"] is None


def test_generation_is_reproducible_and_never_overwrites(dlbricks, shared, tmp_path):
    model = shared("a", "Relu", "Tanh")
    for folder in ("one", "two"):
        assert dlbricks("suite", "write", model, "-o", folder, "-G", "2").status == 0
    for file in (each for each in (tmp_path / "one").rglob("*") if each.is_file()):
        other = tmp_path / "two" / file.relative_to(tmp_path / "one")
        assert file.read_bytes() == other.read_bytes()
    again = dlbricks("suite", "write", model, "-o", "one")
    assert again.status == 2
    assert "already holds" in again.err


def test_bench_refuses_folders_that_are_not_bricks(dlbricks, shared, tmp_path):
    arguments = (*QUICK, "--store", "s.sqlite")
    (tmp_path / "empty").mkdir()
    assert "is not a suite" in dlbricks("suite", "time", "empty", *arguments).err
    dlbricks("suite", "write", shared("a", "Relu"), "-G", "1", "-o", "bricks")
    files = sorted((tmp_path / "bricks").glob("bricks/*.onnx"))
    files[0].write_bytes(files[1].read_bytes())
    done = dlbricks("suite", "time", "bricks", *arguments)
    assert done.status == 3
    assert "was changed after it was written" in " ".join(done.out.split())
    files[1].unlink()
    done = dlbricks("suite", "time", "bricks", *arguments)
    assert done.status == 2
    assert "was changed after it was written" in done.err


def test_a_system_that_the_store_lacks_is_refused(dlbricks, shared):
    done = dlbricks(
        "estimate", shared("a", "Relu"), *QUICK, "--store", "s.sqlite", "--system", "abc"
    )
    assert done.status == 2
    assert "no system 'abc'" in done.err


def test_doctor_gives_advice_with_every_warning(dlbricks, read):
    done = dlbricks("machine", "--json", "out.json")
    assert done.status == 0
    data = read("out.json")
    assert data["threads"] >= 1
    names = {check["name"] for check in data["checks"]}
    assert {"frequency governor", "turbo", "load", "CPU quota"} <= names
    assert all(check["advice"] for check in data["checks"] if check["status"] == "warn")


def test_plugins_and_models_are_listed(dlbricks):
    plugins = json.loads(dlbricks("list", "plugins", "--json", "-").out)["plugins"]
    (ort,) = [p for p in plugins if p["name"] == "onnxruntime" and p["kind"] == "backend"]
    assert ort["status"] == "ok"
    assert ort["distribution"] == "dlbricks-onnxruntime"
    assert ort["framework"].startswith("onnxruntime ")
    models = json.loads(dlbricks("list", "models", "--json", "-").out)
    assert len(models["collections"]["onnx"]) == 9


def test_one_collection_can_be_listed(dlbricks):
    models = json.loads(dlbricks("list", "models", "onnx:", "--json", "-").out)
    assert list(models["collections"]) == ["onnx"]
    assert models["importers"] == {}
    shown = dlbricks("list", "models", "onnx").out
    assert "onnx:light_resnet50" in shown
    assert "Files:" not in shown
    unknown = dlbricks("list", "models", "nowhere:")
    assert unknown.status == 2
    assert "nowhere: is neither" in unknown.err
    assert "onnx:" in unknown.err


def test_unknown_commands_are_refused(dlbricks):
    done = dlbricks("frobnicate")
    assert done.status == 2
    assert "neither a command nor a model" in done.err
    assert dlbricks("--version").status == 0
    assert "Commands:" in dlbricks("--help").out


def test_a_command_ends_without_looking_for_garbage_and_collects_it_until_then(dlbricks):
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count()))\n"
        "import dlbricks_core.cli.main"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10_000
    assert dlbricks("list", "models", "onnx:").status == 0
    assert gc.isenabled()


def test_no_garbage_is_looked_for_in_what_a_commands_import_leaves():
    code = (
        "import click, gc; from dlbricks_core.cli.main import cli\n"
        "context = click.Context(cli)\n"
        "for _ in range(2):\n    cli.get_command(context, 'study'); print(gc.get_freeze_count())\n"
        "    kept = [[] for _ in range(500)]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, again = map(int, done.stdout.split())
    assert first > 10_000
    assert again <= first


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="with one CPU, no BLAS has threads")
@pytest.mark.parametrize("command", ["estimate", "serve", "advise"])
def test_commands_that_predict_compute_with_one_thread(command):
    code = (
        f"import click, os; from dlbricks_core.cli.main import cli\n"
        f"group = cli.get_command(click.Context(cli), '{command}')\n"
        "if isinstance(group, click.Group):\n"
        "    group.get_command(click.Context(cli), 'load')\n"
        "import scipy.linalg; print(len(os.listdir('/proc/self/task')))"
    )
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"

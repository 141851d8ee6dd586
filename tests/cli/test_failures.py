"""Wrong input and partial failure: one line, a hint, the right status, nothing lost."""

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from dlbricks_prediction import shipped
from onnx import TensorProto, helper

from dlbricks_core.commands.options.given import _constant
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--backend", "onnxruntime", "--threads", "1", "--runs", "3", "--composer", "sequential",
         "--store", "results.sqlite")  # fmt: skip


def two_branches(op, domain="", dims=(1, 8)):
    """Relu, then an unknown operator, then Sigmoid."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(op, ["a"], ["b"], domain=domain, name="strange"),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in "xby"]
    graph = helper.make_graph(nodes, "g", values[:1], values[2:], value_info=values[1:2])
    imports = [helper.make_opsetid("", 17)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def check_refused(done, *words):
    assert done.status == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    lines = [line for line in done.err.strip().splitlines() if not line.endswith("reused.")]
    assert len(lines) == 2
    assert lines[0].startswith("Error: ")
    assert lines[1].startswith("Hint: ")
    for word in words:
        assert word in done.err


def test_missing_and_foreign_files_are_refused_in_one_line(dlbricks, tmp_path):
    """Other spoilt files are cases of the importer's tests."""
    check_refused(dlbricks(*QUICK, "absent.onnx"), "absent.onnx does not exist")
    (tmp_path / "text.onnx").write_text("this is not a model\n" * 100)
    check_refused(dlbricks(*QUICK, "text.onnx"), "text.onnx is not an ONNX model")
    (tmp_path / "model.h5").write_bytes(b"hdf")
    check_refused(dlbricks(*QUICK, "model.h5"), "no importer reads model.h5", ".onnx")
    check_refused(dlbricks(*QUICK, tmp_path), "is a folder", "Name a file in it")


def test_one_bad_model_among_good_ones_is_named_and_the_others_are_done(dlbricks, shared, read):
    (bad := Path("bad.onnx")).write_text("no model")
    done = dlbricks(
        *QUICK, shared("good", "Relu"), bad, "zoo:x", "--json", "o.json", "--html", "o.html"
    )
    assert done.status == 3
    failures = read("o.json")["failures"]
    assert [failure["where"] for failure in failures] == ["bad.onnx", "zoo:x"]
    assert "not an ONNX model" in failures[0]["reason"]
    assert [model["name"] for model in read("o.json")["models"]] == ["good"]
    for shown in (done.out, Path("o.html").read_text()):
        assert "bad.onnx" in shown
    # The error also comes before anything is timed.
    assert "bad.onnx is left out" in done.err


EMPTY = {
    "input": "g (float[4] x) => (float[4] x) {}",
    "weight": "g () => (float[4] w) <float[4] w = {1, 2, 3, 4}> {}",
    "folded": "g () => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Relu(w) }",
}


def test_models_without_layers_are_refused_and_do_not_end_the_others(dlbricks, shared, read):
    for name, text in EMPTY.items():
        whole = f'<ir_version: 8, opset_import: ["" : 17]> {text}'
        onnx.save(onnx.parser.parse_model(whole), f"{name}.onnx")
    for more in ((), ("--measure",)):
        done = dlbricks("estimate", *more, *QUICK, "input.onnx")
        check_refused(done, "input.onnx: it has no layers")
    files = [f"{name}.onnx" for name in EMPTY]
    assert dlbricks("show", shared("good", "Relu"), *files, "--json", "o.json").status == 3
    failures = read("o.json")["failures"]
    assert [failure["where"] for failure in failures] == files
    assert all("no layers" in failure["reason"] for failure in failures)


ORT = ("--backend", "onnxruntime", "--threads", "1")
ATLAS = shipped()[0].system.fingerprint
COMMANDS = {
    "estimate": (*ORT, "--store", "s"),
    "advise": ("--system", ATLAS, "--predictor", "none", "--store", "s"),
    "check": (*ORT, "--runs", "3", "-G", "1", "--store", "s"),
    "compare": ("--backends", "onnxruntime,twin", *ORT[2:], "--runs", "3", "-G", "1",
                "--store", "s"),
    "compare outputs": ("--backends", "onnxruntime"),
    "show": (),
    "show repeats": (),
    "study": (*ORT, "-G", "1", "--quick", "-o", "study", "--store", "s"),
    "machine calibrate": (*ORT, "--runs", "3", "--store", "s"),
    "suite write": ("-o", "bricks"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_one_bad_model_does_not_end_the_others(dlbricks, shared, read, twin, command, monkeypatch):
    # Plots of a study take longer than all else; tests/study looks at its page.
    monkeypatch.setattr("dlbricks_study.command.study_page", lambda *_: "")
    models = shared("first", "Relu", "Relu"), "absent.onnx", shared("second", "Tanh", "Tanh")
    done = dlbricks(*command.split(), *models, *COMMANDS[command], "--json", "o.json")
    assert done.status == 3
    assert "Traceback" not in done.err
    named = [f["where"] for f in read("o.json")["failures"]]
    assert "absent.onnx" in named
    assert any("absent.onnx" in line for line in done.out.splitlines())


@pytest.mark.parametrize("command", [*COMMANDS, "estimate --measure"])
def test_a_run_without_any_good_model_is_refused_in_one_line(dlbricks, twin, command):
    options = COMMANDS.get(command, QUICK)
    done = dlbricks(*command.split(), "a.onnx", "b.onnx", *options)
    assert done.status == 2
    assert done.err.splitlines()[-1].startswith("Error: none of 2 models can be loaded: a.onnx (")


HANGING = """
import time

from dlbricks_core.importers import ModelCollection


class Hanging(ModelCollection):
    name = "hanging"
    isolated = True

    def names(self):
        return ["forever"]

    def load(self, name, options=None):
        time.sleep(3600)
"""


def test_a_hanging_import_is_ended(dlbricks, shared, read, install):
    install("hanging_models", HANGING, "[dlbricks.models]\nhanging = hanging_models:Hanging\n")
    options = ("--timeout", "5", "--json", "o.json")
    done = dlbricks("show", shared("good", "Relu"), "hanging:forever", *options)
    assert done.status == 3
    assert read("o.json")["failures"][0]["where"] == "hanging:forever"
    assert "no answer within 5 s" in done.out


def test_unknown_names_are_refused_with_suggestions(dlbricks, shared):
    model = shared("good", "Relu")
    check_refused(
        dlbricks("--backend", "caffe", model), "unknown backend 'caffe'", "onnxruntime",
        "pip install -c constraints.txt -e plugins/NAME",
    )  # fmt: skip
    check_refused(dlbricks("--backend", "ort", model), "Did you mean onnxruntime?")
    check_refused(dlbricks("--backend", "onnxruntim", model), "Did you mean onnxruntime?")
    check_refused(dlbricks(*QUICK, model, "--composer", "best"), "unknown composer", "sequential")
    check_refused(dlbricks(*QUICK, "zoo:x"), "neither a file nor a model collection", "onnx:")
    check_refused(dlbricks(*QUICK, "https://a.org/b.onnx"), "an address of the web", "Fetch")
    check_refused(dlbricks(*QUICK, "onnx:resnet51"), "no model 'resnet51'", "light_resnet50")
    check_refused(dlbricks(*QUICK, model, "--backend-option", "a=b"), "no option 'a'")
    check_refused(
        dlbricks(*QUICK, model, "--backend-option", "optimizations=most"), "Choose from all"
    )


def test_unbound_dimensions_are_listed_and_can_be_bound(dlbricks, tmp_path, read):
    onnx.save(two_branches("Abs", dims=("N", "width")), tmp_path / "dynamic.onnx")
    check_refused(dlbricks(*QUICK, "dynamic.onnx"), "N", "width", "--batch", "--dim width=")
    written = ("--json", "o.json", "--html", "o.html")
    assert (
        dlbricks(*QUICK, "dynamic.onnx", "--batch", "2", "--dim", "width=8", *written).status == 0
    )
    data = read("o.json")
    assert (data["settings"]["batch"], data["settings"]["dims"]) == (2, {"width": 8})
    assert data["models"][0]["inputs"] == {"x": "float32[2x8]"}
    assert "batch 2, width=8" in Path("o.html").read_text(encoding="utf-8")
    sized = (*QUICK, "dynamic.onnx", "--dim", "x=2x8")
    assert dlbricks("estimate", *sized, "--predictor", "none", *written).status == 0
    assert read("o.json")["settings"]["shapes"] == {"x": [2, 8]}
    assert "x=2x8" in Path("o.html").read_text(encoding="utf-8")
    check_refused(dlbricks(*sized, "--dim", "q=3"), "'q'")
    check_refused(dlbricks(*sized, "--value", "rate=16000"), "'rate'")
    refused = dlbricks(*sized, "--value", "x=fast")
    assert refused.status == 2
    assert "write a number" in refused.err
    assert _constant("x", "true") == 1
    assert _constant("x", "False,true") == (0, 1)


def test_a_value_for_an_input_is_part_of_the_model(dlbricks, tmp_path, read):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, float[1] by) => (float[4] y) { y = Mul(x, by) }"""
    for name in ("first", "second"):
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{name}.onnx")
    both = ("show", "first.onnx", "second.onnx", "--json", "o.json")
    for option, inputs in (("by=2.5", [["x"], ["x"]]), ("second:by=2", [["x", "by"], ["x"]])):
        assert dlbricks(*both, "--value", option).status == 0
        assert [list(model["inputs"]) for model in read("o.json")["models"]] == inputs


def test_a_size_may_be_given_for_one_model(dlbricks, tmp_path, read):
    for name in ("first", "second"):
        onnx.save(two_branches("Abs", dims=("N", "width")), tmp_path / f"{name}.onnx")
    both = ("show", "first.onnx", "second.onnx", "--batch", "1", "--json", "o.json")
    for own in (["second:width=4", "width=8"], ["first:x.1=8", "second:x=1x4"]):
        assert dlbricks(*both, *[t for text in own for t in ("--dim", text)]).status == 0
        shapes = [model["inputs"]["x"] for model in read("o.json")["models"]]
        assert shapes == ["float32[1x8]", "float32[1x4]"]
    check_refused(dlbricks(*both, "--dim", "width=8", "--dim", "third:width=4"), "'third:width'")


def test_unusable_stores_are_left_unchanged(dlbricks, shared, tmp_path):
    model = shared("good", "Relu")
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"not a database at all" * 100)
    before = hashlib.sha256(bad.read_bytes()).hexdigest()
    check_refused(dlbricks(*QUICK[:-1], bad, model), "bad.sqlite")
    assert hashlib.sha256(bad.read_bytes()).hexdigest() == before
    ResultStore.open(tmp_path / "results.sqlite").close()
    with sqlite3.connect(tmp_path / "results.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
    check_refused(dlbricks(*QUICK, model), "newer")


def test_an_unsupported_operator_is_named_and_the_rest_is_measured(
    dlbricks, shared, tmp_path, read
):
    onnx.save(two_branches("Frobnicate", domain="com.example"), tmp_path / "odd.onnx")
    models = "odd.onnx", shared("good", "Relu")
    done = dlbricks(*QUICK, *models, "--end-to-end", "--json", "out.json")
    assert done.status == 3
    assert "Frobnicate" in done.out
    odd, good = read("out.json")["models"]
    assert odd["partial"] is True
    assert [m["layers"] for m in odd["missing"]] == [["com.example.Frobnicate"]]
    assert odd["measured"] is None
    assert odd["normalized"] is None
    assert good["normalized"] is not None
    failures = read("out.json")["failures"]
    assert any("Frobnicate" in f["where"] and f["reason"] for f in failures)


@pytest.fixture
def estimated(dlbricks, tmp_path, read):
    """Estimates a model with an operator that nobody has measured, from nothing."""

    def estimate(op, domain):
        onnx.save(two_branches(op, domain=domain), tmp_path / "odd.onnx")
        done = dlbricks("estimate", *ORT, "--store", "none.db", "odd.onnx", "--json", "out.json")
        return done, read("out.json")["models"][0]

    return estimate


def test_an_operator_of_a_custom_domain_is_named_and_not_predicted(estimated):
    done, odd = estimated("Frobnicate", "com.example")
    assert (done.status, odd["partial"]) == (3, True)
    (missing,) = odd["missing"]
    assert "com.example.Frobnicate" in missing["layers"]
    assert missing["reason"].startswith("com.example.Frobnicate was not measured, and cannot be")


def test_an_unknown_operator_of_a_framework_is_predicted_from_its_size(estimated):
    done, odd = estimated("SparseAttention", "com.microsoft")
    assert (done.status, odd["partial"]) == (0, False)
    assert "SparseAttention" in done.out


def test_estimate_runs_nothing_and_names_what_is_missing(dlbricks, shared, read, known):
    a, b = shared("a", "Relu", "Relu"), shared("b", "Relu", "Tanh")
    stored = ("estimate", *QUICK, "--predictor", "none")
    nothing = dlbricks(*stored, a, "--json", "none.json")
    assert nothing.status == 3
    assert read("none.json")["models"][0]["estimate"] is None
    dlbricks(*QUICK, a, "--json", "run.json")
    full = dlbricks(*stored, a, "--json", "full.json")
    assert full.status == 0
    assert known("full.json", "models") == known("run.json", "models")
    partial = dlbricks(*stored, b, "--json", "part.json")
    assert partial.status == 3
    (model,) = read("part.json")["models"]
    assert model["partial"] is True
    assert [m["layers"] for m in model["missing"]] == [["Tanh"]]
    assert model["estimate"] > 0
    assert model["normalized"] is None


def start(*arguments, cwd):
    command = [sys.executable, "-m", "dlbricks_core.cli", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Tests that run in the background of a shell ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


def samples(path):
    if not path.exists():
        return 0
    with sqlite3.connect(path) as connection:
        try:
            return connection.execute("SELECT count(*) FROM observations").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


def wait_for(number, store):
    """Waits until a store holds a number of samples, or is there at all for none."""
    deadline = time.monotonic() + 60
    while not (store.exists() and samples(store) >= number) and time.monotonic() < deadline:
        time.sleep(0.02)


def test_an_interrupted_run_can_be_continued(dlbricks, shared, tmp_path, read):
    model = shared("long", "Relu", "Sigmoid", "Tanh", size=512, batch=32)
    many = [*QUICK[:4], "--runs", "200", "--store", "results.sqlite", "-G", "1", model,
            "--end-to-end"]  # fmt: skip
    store, kept = tmp_path / "results.sqlite", 0
    for stop, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process, before = start(*many, cwd=tmp_path), kept
        wait_for(before + 50, store)
        os.kill(process.pid, stop)
        _, err = process.communicate(timeout=30)
        assert process.returncode == status
        assert "Traceback" not in err
        kept = samples(store)
        assert kept >= before + 50
    done = dlbricks(*many, "--json", "out.json")
    assert done.status == 0
    data = read("out.json")
    assert all(len(b["samples"]) == 200 for b in data["bricks"])
    # Samples that were kept are not measured again.
    runs = data["benchmarking"]["wall_clock"]
    assert runs["models_runs"] + runs["bricks_runs"] + kept == 200 * (len(data["bricks"]) + 1)


def test_two_runs_can_share_a_store(tmp_path, dlbricks, shared):
    a, b = shared("a", "Relu", "Tanh"), shared("b", "Relu", "Sigmoid")
    other = start(*QUICK, a, cwd=tmp_path)
    wait_for(0, tmp_path / "results.sqlite")
    assert dlbricks(*QUICK, b).status == 0
    _, err = other.communicate(timeout=120)
    assert other.returncode == 0, err
    assert dlbricks("estimate", *QUICK, "--predictor", "none", a, b).status == 0


def test_the_core_imports_no_framework():
    code = (
        "import sys, pkgutil, importlib, dlbricks_core\n"
        "for m in pkgutil.walk_packages(dlbricks_core.__path__, 'dlbricks_core.'):\n"
        "    if 'migrations' not in m.name and not m.name.endswith('__main__'):\n"
        "        importlib.import_module(m.name)\n"
        "assert not {'mxnet', 'torch', 'onnxruntime'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path.home())


def test_a_batch_that_no_model_takes_is_refused_and_one_that_some_take_is_told(
    dlbricks, save, tmp_path
):
    fixed = save("fixed", "Relu", size=64)
    refused = dlbricks("show", fixed, "--batch", "8")
    check_refused(refused, "--batch has no effect: no batch axis is open in fixed")
    assert dlbricks("show", fixed, "--batch", "1").status == 0
    onnx.save(two_branches("Abs", dims=("N", 4)), tmp_path / "open.onnx")
    some = dlbricks("show", fixed, "open.onnx", "--batch", "8")
    assert some.status == 0
    assert "--batch has no effect on fixed: no batch axis is open there." in some.err.splitlines()

"""Files that cannot be written are an error before anything runs; nothing is made or lost."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from onnx import TensorProto, helper

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--backend", "onnxruntime", "--threads", "1", "--runs", "3", "--composer", "sequential",
         "--store", "s.db")  # fmt: skip


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def untouched(dlbricks, tmp_path, monkeypatch):
    """Runs a command that must be refused in one line, and must leave everything as it was."""

    def nothing(*_arguments, **_more):
        raise AssertionError("something was read before the files were checked")

    def run(*arguments):
        before = content(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr("dlbricks_core.importers.models.ModelLoader.load", nothing)
            done = dlbricks(*arguments)
        assert done.status == 2
        assert done.out == ""
        errors = [line for line in done.err.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1
        assert content(tmp_path) == before
        return errors[0]

    return run


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [("folder/", "is a directory"), ("absent/o", "there is no folder"), ("x" * 300, "too long"),
     ("a.onnx", "the model a.onnx"), ("twin", "the model a.onnx"), ("link", "the model a.onnx"),
     ("s.db", "--store"), ("a.onnx/o", "there is no folder")],
)  # fmt: skip
def test_unwritable_files_are_noticed_before_measuring(
    untouched, save, tmp_path, option, name, reason
):
    save("a", "Relu")
    (tmp_path / "folder").mkdir()
    (tmp_path / "twin").hardlink_to(tmp_path / "a.onnx")
    (tmp_path / "link").symlink_to("a.onnx")
    assert reason in untouched("estimate", "--measure", *QUICK, "a.onnx", option, name)


def test_one_file_cannot_be_two_outputs(untouched, save, tmp_path, dlbricks):
    save("a", "Relu")
    assert "--json" in untouched(
        "estimate", "--measure", *QUICK, "a.onnx", "--json", "o", "--html", "./o"
    )
    assert "--json" in untouched(
        "estimate", "--measure", *QUICK, "a.onnx", "--json", "-", "--html", "-"
    )
    assert "--json" in untouched("show", "graph", "a.onnx", "-o", "o", "--json", tmp_path / "o")
    assert "the model" in untouched("show", "graph", "a.onnx", "-o", "a.onnx")
    both = ("--json", "/dev/null", "--html", "/dev/null")
    assert dlbricks("show", "repeats", "a.onnx", *both).status == 0


def test_folders_are_checked_before_anything_runs(untouched, save, dlbricks):
    save("a", "Relu")
    for command in (
        ("study", *QUICK[:4], "--store", "s.db"),
        (
            "suite",
            "write",
        ),
    ):
        assert "Not a directory" in untouched(*command, "a.onnx", "-o", "a.onnx/bricks")
    assert (
        dlbricks("suite", "write", "a.onnx", "-o", "bricks", "--json", "bricks/o.json").status == 0
    )
    assert "already holds" in untouched("suite", "write", "a.onnx", "-o", "bricks")
    manifest = ("bricks", "--json", "bricks/manifest.json")
    assert "one of the files in bricks" in untouched(
        "suite", "time", *manifest, *QUICK[:4], "--store", "s.db"
    )


def test_names_that_are_not_utf8_and_brackets_work_everywhere(dlbricks, tmp_path, read):
    values = [
        helper.make_tensor_value_info(f"{n}[/x]\x1b", TensorProto.FLOAT, (1, 8)) for n in "xy"
    ]
    node = helper.make_node(
        "Strange[/x]\n", [values[0].name], [values[1].name], name="[old]:smile:"
    )
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder = tmp_path / "a[" / "x]caf\udce9\x1b"
    folder.mkdir(parents=True)
    model = folder / "m\udce9.onnx"
    model.write_bytes(proto.SerializeToString())
    quick = (*QUICK[:-1], folder / "s.db")
    for command in (
        ("show", model, "-v", "--json", folder / "o.json"),
        ("show", "repeats", model, "--html", folder / "o.html"),
        ("show", "graph", model, "-o", folder / "o.svg", *quick[:6], "--store", folder / "s.db"),
        ("estimate", "--measure", model, *quick, "--json", "o.json", "--html", "o.html"),
        ("estimate", model, *quick, "--html", "o.html"),
    ):
        done = dlbricks(*command)
        assert done.status in {0, 3}, done.err
        assert "unexpected" not in done.err
        assert not any(c for c in done.out + done.err if not c.isprintable() and c != "\n")
        assert (r"m\xe9" in done.out) == (command[:2] != ("show", "graph"))
        assert max(map(len, done.out.splitlines())) <= 80
    assert r"Strange[/x]\n" in "".join(dlbricks("show", model).out.split())
    for page in (folder / "o.html", folder / "o.svg", tmp_path / "o.html"):
        assert "\x1b" not in page.read_text(encoding="utf-8")
    assert read("o.json")["models"][0]["name"] == "m\udce9"
    missing = dlbricks("estimate", "--measure", *QUICK, "caf\udce9[/x]\x1b.onnx")
    assert r"caf\xe9[/x]\x1b.onnx does not exist" in missing.err


def test_terminals_that_know_only_ascii_get_escapes(save, tmp_path):
    save("ünï 士", "Relu")
    command = [sys.executable, "-m", "dlbricks_core.cli", "show", "repeats", "ünï 士.onnx", "-v"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONIOENCODING": "ascii"})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"Importing models\n")
    assert rb"\xfcn\xef \u58eb" in done.stdout


def test_estimates_need_no_right_to_write(dlbricks, save, tmp_path):
    model = save("a", "Relu")
    store = tmp_path / "mine" / "s.db"
    assert dlbricks("estimate", "--measure", *QUICK[:-1], store, model).status == 0
    store.chmod(0o444)
    store.parent.chmod(0o555)
    estimate = ["estimate", *QUICK[:-1], str(store), str(model)]
    done = forbidden(store.parent, *estimate)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert forbidden(store.parent, "show", str(model)).returncode == 0
    refused = forbidden(store.parent, "estimate", "--measure", "--force", *estimate[1:])
    assert refused.returncode == 2
    assert "readonly" in refused.stderr
    assert sorted(path.name for path in store.parent.iterdir()) == ["s.db"]


def test_a_user_without_a_home_folder_must_name_a_store(dlbricks, save, monkeypatch):
    def homeless(*_arguments):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr("platformdirs.user_cache_path", homeless)
    monkeypatch.setattr("platformdirs.user_data_path", homeless)
    assert dlbricks("show", save("a", "Relu")).status == 0
    done = dlbricks("estimate", *QUICK[:-2], "a.onnx")
    assert done.status == 2
    assert done.err.splitlines()[-2:] == [
        "Error: the result store: there is no home folder", "Hint: give a path: --store results.db"
    ]  # fmt: skip


def forbidden(folder, *arguments):
    """Runs a command that permissions hold for, with a home that cannot be written."""
    prefix = []
    if os.geteuid() == 0:  # nothing is forbidden to root as long as it has these capabilities
        prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        if not shutil.which("setpriv") or subprocess.run([*prefix, "true"], check=False).returncode:
            pytest.skip("root cannot give up its capabilities here")
    command = [*prefix, sys.executable, "-m", "dlbricks_core.cli", *arguments]
    env = {**os.environ, "HOME": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_a_run_ends_if_its_store_is_deleted(tmp_path, save):
    save("a", *["Relu"] * 3)
    command = [
        sys.executable,
        "-m",
        "dlbricks_core.cli",
        "estimate",
        "--measure",
        *QUICK,
        "--runs",
        "100000",
        "--json",
        "o.json",
        "a.onnx",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    log = tmp_path / "s.db-wal"
    deadline = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size > 100_000) and time.monotonic() < deadline:
        time.sleep(0.02)
    for path in tmp_path.glob("s.db*"):
        path.unlink()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "was deleted or replaced" in err
    assert "Traceback" not in err
    assert not (tmp_path / "o.json").exists()

"""Folders of suites: written completely or not at all, and never trusted when read."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from dlbricks_suite.folder import read_suite
from dlbricks_suite.folder.manifest import MOST_BYTES, checksum, read_manifest
from dlbricks_suite.writing import generate
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import STRATEGIES
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize
from dlbricks_core.progress import Observer

CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
chain (float[2, 8] x) => (float[2, 8] y) { a = Relu(x)  b = Tanh(a)  y = Sigmoid(b) }"""

TEXT = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
text (string[2] city) => (float[2] y) {
    i = ai.onnx.ml.LabelEncoder <keys_strings = ["rome", "oslo"], values_floats = [1.0, 2.0]> (city)
    y = Tanh(i) }"""


def model(text):
    return normalize(read_model(onnx.parser.parse_model(text), name="net"))


def write(folder, text=CHAIN):
    return generate([model(text)], CutOptions(), folder, 0, Observer())


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original") / "bricks"
    write(folder)
    return folder


@pytest.fixture(scope="module")
def structures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("structures") / "bricks"
    generate([model(CHAIN)], None, folder, 0, Observer())
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """Three bricks in a folder that tests may damage."""
    return Path(shutil.copytree(original, tmp_path / "bricks"))


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def rewrite(folder, **fields):
    """Other fields, as somebody writes them who knows the hash."""
    changed = {**manifest_of(folder), **fields}
    text = json.dumps({**changed, "checksum": checksum(changed)})
    (folder / "manifest.json").write_text(text)


def refused(folder, *words):
    with pytest.raises(DLBricksError) as caught:
        read_suite(folder)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    for word in words:
        assert word in caught.value.message


# -- writing


@pytest.mark.process
def test_a_brick_without_values_is_omitted_and_named(tmp_path):
    written = write(tmp_path / "bricks", TEXT)
    assert [each.brick.operators for each in written.bricks] == [("Tanh",)]
    (omitted,) = written.omitted
    assert omitted.subject == "ai.onnx.ml.LabelEncoder"
    assert "text" in omitted.reason
    assert manifest_of(tmp_path / "bricks")["omitted"] == [
        {"layers": omitted.subject, "reason": omitted.reason}
    ]
    assert len(read_suite(tmp_path / "bricks").bricks) == 1


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("existed", [False, True])
def test_an_interrupted_run_leaves_nothing_and_can_be_repeated(
    tmp_path, monkeypatch, error, existed
):
    folder = tmp_path / "bricks"
    if existed:
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
    written = []

    def failing(proto, path):
        onnx.save(proto, path)
        written.append(path)
        if len(written) == 2:
            raise error

    with monkeypatch.context() as patched:
        patched.setattr("dlbricks_suite.folder.write.save_onnx", failing)
        expected = DLBricksError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            write(folder)
    assert folder.exists() == existed
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["notes.txt"] * existed
    write(folder)
    assert len(read_manifest(folder).bricks) == 3


def test_remains_of_a_killed_run_are_removed(tmp_path):
    left = tmp_path / "bricks" / ".incomplete"
    left.mkdir(parents=True)
    (left / "other.onnx").write_bytes(b"")
    (tmp_path / "bricks" / "other.txt").write_text("mine")
    write(tmp_path / "bricks")
    names = {path.name for path in (tmp_path / "bricks").iterdir()}
    assert names == {"bricks", "manifest.json", "README.txt", "other.txt"}
    assert not left.exists()


def test_folders_that_cannot_be_written_are_an_error(tmp_path, folder):
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300)):
        with pytest.raises(DLBricksError, match="cannot be written"):
            write(target)
    with pytest.raises(DLBricksError, match="already holds"):
        write(folder)


# -- manifests of others

TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["schema_version", "granularity", "split", "composer", "seed", "models", "bricks"]
)
BRICK_FIELDS = st.sampled_from(["signature", "file", "sha256"])
MODEL_FIELDS = st.sampled_from(["signature", "file", "sha256", "name", "source"])


@given(field=FIELDS, value=TREE)
def test_wrong_fields_of_a_manifest_are_one_line(original, tmp_path_factory, field, value):
    check_manifest(tmp_path_factory, {**manifest_of(original), field: value})


@given(field=BRICK_FIELDS, value=TREE)
def test_wrong_fields_of_bricks_in_a_manifest_are_one_line(
    original, tmp_path_factory, field, value
):
    fields = manifest_of(original)
    fields["bricks"][1][field] = value
    check_manifest(tmp_path_factory, fields)


@given(field=MODEL_FIELDS, value=TREE)
def test_wrong_fields_of_models_in_a_manifest_are_one_line(
    structures, tmp_path_factory, field, value
):
    fields = manifest_of(structures)
    fields["models"][0][field] = value
    check_manifest(tmp_path_factory, fields)


def check_manifest(tmp_path_factory, fields):
    folder = tmp_path_factory.getbasetemp() / "spoiled"
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({**fields, "checksum": checksum(fields)}))
    try:
        found = read_manifest(folder)
    except DLBricksError as error:
        lines = error.message.splitlines()
        assert (len(lines), "spoiled" in lines[0]) == (1, True)
    else:
        assert found.cut.strategy in STRATEGIES
        assert all(isinstance(entry.file, str) for entry in (*found.bricks, *found.models))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"[]", "not a JSON object"),
        (b'{"schema_version": NaN}', "NaN"),
        (b'{"schema_version": Infinity}', "Infinity"),
        (b'{"schema_version": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"split": 1, "split": 2}', "twice"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"schema_version": "1"}', "schema_version is '1'"),
        (b'{"schema_version": true}', "schema_version is True"),
        (b'{"schema_version": 7}', "newer DLBricks"),
        (b"{}", "schema_version is missing"),
    ],
)
def test_contents_that_are_no_manifest_are_refused(folder, content, word):
    (folder / "manifest.json").write_bytes(content)
    refused(folder, word, "bricks")  # the folder's name


def test_a_manifest_of_any_depth_is_refused_in_one_line(folder):
    """Reading and writing JSON end at different depths, in whichever order."""
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit()):
        fields = '{"schema_version": 2, "checksum": "%s", "x": ' % ("0" * 64)
        (folder / "manifest.json").write_text(fields + "[" * depth + "]" * depth + "}")
        with pytest.raises(DLBricksError):
            read_manifest(folder)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"granularity": 0}, ("granularity is 0",)),
        ({"granularity": 2**31}, ("granularity is 2147483648",)),
        ({"granularity": 2.0}, ("granularity is 2.0",)),
        ({"granularity": [1]}, ("granularity is [1]",)),
        ({"split": "sideways"}, ("split is 'sideways'", "chain")),
        ({"split": ["chain"]}, ("split is ['chain']",)),
        ({"bricks": {"file": "x"}}, ("bricks is", "a list")),
        ({"bricks": ["x.onnx"]}, ("brick 1 is 'x.onnx'",)),
        ({"bricks": [{"signature": "0" * 24}]}, ("file is missing (brick 1)",)),
        ({"bricks": [{"signature": "../" * 8, "file": "x"}]}, ("not a signature",)),
        ({"models": [{"signature": "0" * 24, "file": "x"}]}, ("(model 1)", "folder models")),
        ({"seed": -1}, ("seed is -1",)),
        ({"composer": ""}, ("composer is ''",)),
    ],
)
def test_impossible_values_in_a_manifest_are_refused(folder, fields, words):
    rewrite(folder, **fields)
    refused(folder, "manifest.json", *words)


@pytest.mark.parametrize(
    "name", [".", "..", "../x.onnx", "/etc/passwd", "x.onnx", "a/b.onnx", "bricks/a/b.onnx",
             "bricks/", "bricks/..", "bricks/../x", "bricks/a\\b.onnx", "bricks/C:x", "bricks/x\0y",
             "bricks/x\x1b[2J", "models/x.onnx", "bricks/" + "n" * 256, "bricks/\ud800", ["x"], 7,
             None],
)  # fmt: skip
def test_names_that_lead_out_of_the_folder_are_refused(folder, name):
    bricks = manifest_of(folder)["bricks"]
    rewrite(folder, bricks=[bricks[0], {**bricks[1], "file": name}])
    refused(folder, "manifest.json", "(brick 2)", "not the name of a file in the folder bricks")


def test_a_folder_without_bricks_says_so(folder):
    rewrite(folder, bricks=[])
    refused(folder, "holds no bricks")


def test_a_manifest_with_a_brick_twice_is_refused(folder):
    first, second, _ = manifest_of(folder)["bricks"]
    rewrite(folder, bricks=[first, first])
    refused(folder, first["signature"], "2 times")
    rewrite(folder, bricks=[first, {**second, "file": first["file"]}])
    refused(folder, first["file"], "2 times")


@pytest.mark.timeout(60)
def test_a_manifest_must_be_a_regular_file_of_limited_size(folder, original, tmp_path):
    path = folder / "manifest.json"
    with path.open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    refused(folder, "at most")
    path.unlink()
    refused(folder, "is not a suite")
    path.symlink_to(original / "manifest.json")
    refused(folder, "is a link")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(folder, "is a link")
    path.unlink()
    os.mkfifo(path)
    refused(folder, "not a regular file")
    path.unlink()
    path.mkdir()
    refused(folder, "not a regular file")
    refused(tmp_path / "absent", "is not a suite")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "is not a suite")


# -- files of others


def spoil_with_other(path, other):
    shutil.copy(other, path)


def spoil_with_link(path, other):
    path.unlink()
    path.symlink_to(other.resolve())


def spoil_with_pipe(path, other):
    path.unlink()
    os.mkfifo(path)


def spoil_with_huge(path, other):
    with path.open("r+b") as file:
        file.truncate(2**31 + 1)


def spoil_with_outer_data(path, other):
    """A weight that lies in a file elsewhere."""
    proto = onnx.load(path)
    proto.graph.initializer.append(
        onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=1)
    )
    proto.graph.initializer[0].external_data.add(key="location", value="/etc/passwd")
    proto.graph.node[0].op_type = "Add"
    proto.graph.node[0].input.append("w")
    path.write_bytes(proto.SerializeToString())


SPOILS = {
    "is not the brick": spoil_with_other,
    "is a link": spoil_with_link,
    "not a regular file": spoil_with_pipe,
    "No such file": lambda path, other: path.unlink(),
    "is not an ONNX model": lambda path, other: path.write_bytes(b"abc"),
    "bytes, and at most": spoil_with_huge,
    "": spoil_with_outer_data,
}


def with_new_hashes(folder):
    """Hashes of files as they are now, as somebody writes them who wants to do harm."""
    bricks = manifest_of(folder)["bricks"]
    for each in bricks:
        path = folder / each["file"]
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**20:
            each["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    rewrite(folder, bricks=bricks)


MANY = ["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Exp", "Erf", "Cos", "Sin"]


@pytest.mark.process
def test_bad_bricks_are_named_and_the_others_are_read(tmp_path):
    folder = tmp_path / "bricks"
    layers = " ".join(f"t{i + 1} = {op}(t{i})" for i, op in enumerate(MANY))
    text = f"many (float[2, 8] t0) => (float[2, 8] t{len(MANY)}) {{ {layers} }}"
    write(folder, f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    good, *bad, also_good = (folder / entry["file"] for entry in manifest_of(folder)["bricks"])
    for spoil, path in zip(SPOILS.values(), bad, strict=True):
        spoil(path, good)
    with_new_hashes(folder)
    bricks = [each.brick for each in read_suite(folder).bricks]
    assert (bricks[0].opaque, bricks[-1].opaque) == ("", "")
    assert (bricks[0].signature, bricks[-1].signature) == (good.stem, also_good.stem)
    for word, path, brick in zip(SPOILS, bad, bricks[1:-1], strict=True):
        assert word in brick.opaque
        assert str(path) in brick.opaque


#: A reader that a file crashes: which files crash ONNX's own changes with its version.
CRASHING = """
import os
from dlbricks_suite.folder.read import NetworkReader

class Crashing(NetworkReader):
    def read_weighted(self, path, identity):
        if b"a name that crashes" in path.read_bytes():
            os.abort()
        return super().read_weighted(path, identity)
"""


@pytest.mark.process
def test_a_brick_that_crashes_its_reader_does_not_affect_the_others(
    folder, tmp_path, monkeypatch, path_with
):
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.setenv("PYTHONPATH", path_with(tmp_path))
    monkeypatch.setattr("dlbricks_suite.folder.read._READER", "crashing:Crashing")
    first, *_ = sorted(folder.glob("bricks/*.onnx"))
    proto = onnx.load(first)
    proto.graph.name = "a name that crashes"
    first.write_bytes(proto.SerializeToString())
    with_new_hashes(folder)
    bricks = [each.brick for each in read_suite(folder).bricks]
    assert [bool(brick.opaque) for brick in bricks] == [True, False, False]
    assert str(first) in bricks[0].opaque


@pytest.mark.process
def test_bench_times_the_bricks_that_can_be_read(folder, tmp_path):
    pytest.importorskip("onnxruntime")
    files = sorted(folder.glob("bricks/*.onnx"))
    files[0].unlink()
    done = bench_of(folder, tmp_path)
    assert [bool(brick.failure) for brick in done.bricks] == [True, False, False]
    (failure,) = done.failures
    assert files[0].name in failure.where
    assert "No such file" in failure.reason
    for file in files[1:]:
        file.unlink()
    with pytest.raises(DLBricksError, match="No such file"):
        bench_of(folder, tmp_path)


def bench_of(folder, tmp_path):
    from dlbricks_suite.timing import bench

    from dlbricks_core.measure.request import Request
    from dlbricks_core.store import ResultStore

    with ResultStore.open(str(tmp_path / "s.sqlite")) as store:
        return bench(folder, Request.of("onnxruntime", threads=1, runs=3), store, Observer())


# -- edited and earlier suites


@pytest.mark.process
def test_a_file_that_was_changed_is_named(folder):
    first, *_ = sorted(folder.glob("bricks/*.onnx"))
    first.write_bytes(first.read_bytes() + b"\0")
    bricks = {each.brick.signature: each.brick for each in read_suite(folder).bricks}
    assert bricks[first.stem].opaque == f"{first} was changed after it was written"
    assert sum(bool(brick.opaque) for brick in bricks.values()) == 1


def test_a_manifest_that_was_changed_is_refused(folder):
    fields = manifest_of(folder)
    fields["granularity"] = 3
    (folder / "manifest.json").write_text(json.dumps(fields))
    refused(folder, "manifest.json", "it was changed")


def test_a_folder_of_files_that_is_a_link_is_refused(folder, tmp_path):
    shutil.move(folder / "bricks", tmp_path / "elsewhere")
    (folder / "bricks").symlink_to(tmp_path / "elsewhere")
    refused(folder, str(folder / "bricks"), "is a link")


def test_a_suite_of_an_earlier_version_is_refused(folder):
    fields = {**manifest_of(folder), "schema_version": 1}
    (folder / "manifest.json").write_text(json.dumps(fields))
    refused(folder, "was made by an older DLBricks")


@pytest.mark.process
def test_damaged_structures_are_named_and_the_others_are_read(tmp_path):
    models = [model(CHAIN), replace(model(CHAIN), name="other")]
    generate(models, None, tmp_path / "suite", 0, Observer())
    first, second = sorted(tmp_path.glob("suite/models/*.onnx"))
    first.write_bytes(b"abc")
    suite = read_suite(tmp_path / "suite")
    assert [each.model.name for each in suite.models] == ["other"]
    (failure,) = suite.unread
    assert (failure.subject, failure.reason) == ("net", f"{first} was changed after it was written")
    second.unlink()
    with pytest.raises(DLBricksError, match="was changed"):
        read_suite(tmp_path / "suite")


# -- limits of what is written


def test_a_suite_of_too_many_files_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("DLBRICKS_MOST_FILES", "2")
    with pytest.raises(DLBricksError, match="3 networks, more than 2 files, the limit DLBRICKS_"):
        write(tmp_path / "bricks")
    assert not (tmp_path / "bricks").exists()


def test_a_manifest_that_nobody_would_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("dlbricks_suite.folder.write.MOST_BYTES", 100)
    with pytest.raises(DLBricksError, match="manifest would have more than"):
        write(tmp_path / "bricks")
    assert not (tmp_path / "bricks").exists()


def test_a_model_of_a_long_name_is_written_as_it_is_read(tmp_path):
    long = replace(model(CHAIN), name="\x1b" * 10_000 + "end")
    generate([long], None, tmp_path / "bricks", 0, Observer())
    (found,) = read_manifest(tmp_path / "bricks").models
    assert found.name.startswith(r"\x1b\x1b")
    assert found.name.endswith("end")

"""Program files that are hostile, damaged, or no programs: nothing of theirs runs."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import torch
from dlbricks_pytorch import archive, serialized
from dlbricks_pytorch.importer import PytorchImporter
from dlbricks_pytorch.package import load_program
from dlbricks_pytorch.serialized import check_expression
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from dlbricks_core.errors import DLBricksError, ModelError

sys.path.append(str(Path(__file__).parent))
import fuzz_programs
from fuzz_programs import PROGRAM, WEIGHTS

CONSTANTS = "data/constants/model_constants_config.json"
SAMPLES = "data/sample_inputs/model.pt"


@pytest.fixture(scope="module")
def entries():
    return fuzz_programs.sample()


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.fixture
def bomb(tmp_path):
    yield Bomb(tmp_path / "ran")
    assert not (tmp_path / "ran").exists()


def pickled(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def load(path):
    return PytorchImporter().load(path)


def refused(path, *words):
    with pytest.raises(DLBricksError) as raised:
        load(path)
    message = raised.value.message
    assert len(message.splitlines()) == 1
    assert raised.value.hint
    for word in (path.name, *words):
        assert word in message
    return raised.value


def edited(entries, change, name=PROGRAM):
    """The entries with one description changed."""
    document = json.loads(entries[name])
    change(document)
    return {**entries, name: json.dumps(document)}


def graph_of(document):
    return document["graph_module"]["graph"]


def node_of(document, target):
    return next(n for n in graph_of(document)["nodes"] if n["target"].startswith(target))


# -- what is read --------------------------------------------------------------------------


def test_names_values_and_dynamic_sizes_stay(entries, tmp_path):
    path = fuzz_programs.archive(tmp_path / "net.pt2", entries)
    model = load(path)
    assert model.inputs == ("image", "pair_0")
    assert not isinstance(model.tensors["image"].shape[0], int)
    program = load_program(path)
    assert program.state_dict["scale"] == 2
    assert [value.tolist() for value in program.constants.values()] == [[1.0]]


def test_weights_of_many_gigabytes_take_no_memory(tmp_path):
    torch.export.save(
        torch.export.export(nn.Linear(64, 80).eval(), (torch.ones(1, 64),)), tmp_path / "net.pt2"
    )
    with zipfile.ZipFile(tmp_path / "net.pt2") as source:
        entries = {n.partition("/")[2]: source.read(n) for n in source.namelist()}
    for name in (PROGRAM, WEIGHTS):
        text = entries[name].decode().replace('"as_int": 80', '"as_int": 800000000')
        entries[name] = text
    model = load(fuzz_programs.archive(tmp_path / "wide.pt2", entries))
    assert ("float32", (800_000_000, 64)) in {
        (model.tensors[name].dtype, model.tensors[name].shape) for name in model.weights
    }


def test_program_of_another_device_is_read(entries, tmp_path):
    text = entries[PROGRAM].decode().replace('"type": "cpu"', '"type": "cuda"')
    assert '"cuda"' in text
    path = fuzz_programs.archive(tmp_path / "net.pt2", {**entries, PROGRAM: text})
    assert load_program(path).graph.nodes


def test_layout_of_older_versions_is_read(entries, tmp_path, bomb):
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as target:
        target.writestr("version", "8.0")
        target.writestr("serialized_exported_program.json", entries[PROGRAM])
        for name in ("state_dict", "constants", "example_inputs"):
            target.writestr(f"serialized_{name}.pt", pickled(bomb))
    program = load_program(tmp_path / "old.pt2")
    assert all(isinstance(value, FakeTensor) for value in program.state_dict.values())
    assert program.graph.nodes


def test_program_of_another_format_is_refused(entries, tmp_path):
    def change(document):
        document["schema_version"]["major"] = 99
        document["torch_version"] = "3.1"

    path = fuzz_programs.archive(tmp_path / "net.pt2", edited(entries, change))
    refused(path, "'3.1'", "format 99", torch.__version__)


def test_program_by_another_suffix_is_read(entries, tmp_path):
    assert PytorchImporter().handles("net.pt")
    assert load_program(fuzz_programs.archive(tmp_path / "net.pt", entries)).graph.nodes


# -- pickles -------------------------------------------------------------------------------


def test_example_inputs_are_not_unpickled(entries, tmp_path, bomb):
    hostile = {**entries, SAMPLES: pickled(bomb)}
    assert load(fuzz_programs.archive(tmp_path / "net.pt2", hostile)).layers


@pytest.mark.parametrize("config", [WEIGHTS, CONSTANTS])
@pytest.mark.parametrize("record", ["weight_0", "tensor_0", "custom_obj_0", "opaque_obj_0"])
def test_pickled_weight_is_refused(entries, tmp_path, bomb, config, record):
    def pickle_one(document):
        meta = document["config"]
        name = next(iter(meta), "odd")
        meta[name] = {"path_name": record, "is_param": False, "use_pickle": True,
                      "tensor_meta": None}  # fmt: skip

    hostile = edited(entries, pickle_one, config)
    hostile[f"{config.rpartition('/')[0]}/{record}"] = pickled(bomb)
    refused(fuzz_programs.archive(tmp_path / "net.pt2", hostile), "pickle")


def test_pickle_in_the_place_of_a_description_is_refused(entries, tmp_path, bomb):
    hostile = {**entries, PROGRAM: pickle.dumps(bomb)}
    refused(fuzz_programs.archive(tmp_path / "net.pt2", hostile), "not JSON")


def test_pickle_by_the_name_of_a_program_is_refused(tmp_path, bomb):
    torch.save(bomb, tmp_path / "new.pt2")
    torch.save(bomb, tmp_path / "old.pt2", _use_new_zipfile_serialization=False)
    (tmp_path / "plain.pt2").write_bytes(pickle.dumps(bomb))
    for name in ("new", "old", "plain"):
        refused(tmp_path / f"{name}.pt2", "posix.mkdir", "may run code")


# -- code in descriptions ----------------------------------------------------------------------

CALL = "__import__('pathlib').Path({!r}).touch()"


@pytest.mark.parametrize(
    "text",
    [
        "s0",
        "2*s0 + 1",
        "Mul(Integer(3), Symbol('s40', positive=True, integer=True))",
        "Pow(Symbol('s0', integer=True), Integer(2))",
        "FloorDiv(Add(Symbol('s0'), Integer(-1)), Integer(2))",
        "Max(1, u0)",
        "Eq(u0, 1)",
        "Float('1.5', precision=53)",
        "Pow(Symbol('s0'), Integer(-1))",
        "(s0 > 1) & (s1 < 2)",
        "s0**2",
    ],
)
def test_formula_of_sizes_passes(text):
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        CALL.format("x"),
        "s0.__class__",
        "[].append",
        "Symbol('__import__(1)')",
        "Symbol('s0', positive=__import__)",
        "Function('f')",
        "sympify('s0')",
        "(lambda: 0)()",
        "Max(*s0)",
        "s0\n",
        "9**9**9",
        "(2**64)**64",
        "2**(s0 + 10**18)",
        "LShift(1, 1000000000)",
        "Pow(2, Max(999999999, 1))",
        "Float('9e999999999')",
        "Float('1.5', precision=1000000000)",
        "Float(1.5, 1000000000)",
        "Pow(2, Integer(-1000000000))",
        "(" * 2000 + ")" * 2000,
        "",
        None,
        7,
    ],
)
def test_size_that_is_no_formula_is_refused(text):
    with pytest.raises(ModelError, match="no formula"):
        check_expression(text)


def test_code_in_a_size_does_not_run(entries, tmp_path, bomb):
    text = re.sub(
        r'"expr_str": "[^"]*"',
        lambda _: '"expr_str": ' + json.dumps(CALL.format(str(bomb.path))),
        entries[PROGRAM].decode(),
    )
    hostile = {**entries, PROGRAM: text}
    refused(fuzz_programs.archive(tmp_path / "net.pt2", hostile), "no formula")


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.serialization.os.system",
        "torch.hub.load",
        "torch.ops.load_library",
        "torch.ops.aten.__class__",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.save.str",
        "torch.ops.higher_order.print",
        "_operator.methodcaller",
        "math.__loader__.load_module",
        "#ns:op",
        "builtins.eval",
        "torch.ops.mylib.spiral.default",
        7,
    ],
)
def test_operator_that_is_none_is_refused(entries, tmp_path, target):
    def change(document):
        node_of(document, "torch.ops.aten.relu")["target"] = target

    refused(fuzz_programs.archive(tmp_path / "net.pt2", edited(entries, change)))


def test_custom_operator_is_named_with_what_is_missing(entries, tmp_path):
    def change(document):
        node_of(document, "torch.ops.aten.relu")["target"] = "torch.ops.mylib.spiral.default"

    path = fuzz_programs.archive(tmp_path / "net.pt2", edited(entries, change))
    error = refused(path, "mylib::spiral", "custom operator", "library is not loaded")
    assert "torch:package.module:factory" in error.hint


def test_code_in_names_does_not_run(entries, tmp_path, bomb):
    """Names become source that torch compiles."""
    code = f"x\n{CALL.format(str(bomb.path))}\n"

    def tensor(document):
        text = json.dumps(document).replace('"image"', json.dumps(code))
        document.clear()
        document.update(json.loads(text))

    def weight(document):
        text = json.dumps(document).replace("fc.weight", f'x\\");{CALL.format("y")}#')
        document.clear()
        document.update(json.loads(text))

    def keyword(document):
        node_of(document, "torch.ops.aten.relu")["inputs"][0]["name"] = code

    for change in (tensor, weight, keyword):
        refused(fuzz_programs.archive(tmp_path / "net.pt2", edited(entries, change)), "name of a")


def test_modules_in_trees_of_arguments_are_not_imported(entries, tmp_path, monkeypatch):
    """A tree may name a type as ``module:name``."""
    (tmp_path / "own_enum.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    context = json.dumps([{"__enum__": True, "fqn": "own_enum:E", "name": "A"}])
    spec = json.dumps([1, {"type": "builtins.dict", "context": context, "children_spec": [
        {"type": None, "context": None, "children_spec": []}]}])  # fmt: skip

    def change(document):
        document["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = spec
        document["guards_code"] = ["import own_enum"]

    assert load(fuzz_programs.archive(tmp_path / "net.pt2", edited(entries, change))).layers
    assert "own_enum" not in sys.modules


# -- what grows --------------------------------------------------------------------------------


def test_archive_that_unpacks_to_many_times_its_size_is_refused(entries, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_JSON_BYTES", 1_000_000)
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr(f"net/{PROGRAM}", b" " * 2_000_000)
    assert path.stat().st_size < 10_000
    refused(path, PROGRAM, "2 MB", "limit")


def test_an_entry_unpacks_to_no_more_than_it_declares(tmp_path):
    path = tmp_path / "a.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/large", bytes(200 << 20))
        (entry,) = file.infolist()
    size = struct.pack("<I", entry.file_size)
    path.write_bytes(path.read_bytes().replace(size, struct.pack("<I", 100)))
    with archive.Archive(path) as opened:
        tracemalloc.start()
        try:
            with pytest.raises(ModelError, match="is damaged"):
                opened.read("large", 1000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 20 << 20


def test_small_weights_are_bounded_together(entries, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_VALUE_BYTES", 100)
    refused(fuzz_programs.archive(tmp_path / "net.pt2", entries), "limit")


def test_many_entries_and_many_nodes_are_refused(entries, tmp_path, monkeypatch):
    path = fuzz_programs.archive(tmp_path / "net.pt2", entries)
    monkeypatch.setattr(serialized, "MOST_NODES", 3)
    refused(path, "operators", "limit")
    monkeypatch.setattr(archive, "MOST_ENTRIES", 3)
    refused(path, "entries", "limit")


def test_directory_of_entries_that_claims_any_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MOST_READ_BYTES", 10_000)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 50_000, 0, 0)
    (tmp_path / "net.pt2").write_bytes(b"PK\1\2" + bytes(50_000 - 4) + end)
    refused(tmp_path / "net.pt2", "too large")


def test_encrypted_entry_is_refused(entries, tmp_path):
    path = fuzz_programs.archive(tmp_path / "net.pt2", entries)
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = -1
        while (at := content.find(mark, at + 1)) >= 0:
            content[at + place] |= 1
    path.write_bytes(content)
    refused(path, "encrypted")


def test_deep_description_is_refused(entries, tmp_path):
    hostile = {**entries, PROGRAM: "[" * 200_000}
    refused(fuzz_programs.archive(tmp_path / "net.pt2", hostile), "not JSON")


# -- other files -------------------------------------------------------------------------------


def state_dict(path):
    torch.save(nn.Linear(2, 2).state_dict(), path)


def old_state_dict(path):
    torch.save(nn.Linear(2, 2).state_dict(), path, _use_new_zipfile_serialization=False)


def checkpoint(path):
    torch.save({"model": nn.Linear(2, 2).state_dict(), "epoch": 3}, path)


def module(path):
    torch.save(nn.Linear(2, 2), path)


def script(path):
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), path)


def safetensors(path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def compiled(path):
    fuzz_programs.archive(path, {"data/aotinductor/model/x.so": b"", "archive_format": "pt2"})


def text(path):
    path.write_text("weights")


def pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\n")


def pipe(path):
    os.mkfifo(path)


@pytest.mark.parametrize("suffix", [".pt2", ".pth"])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (state_dict, "state dict"),
        (old_state_dict, "state dict"),
        (checkpoint, "checkpoint"),
        (module, "pickled torch.nn.modules.linear.Linear"),
        (script, "TorchScript"),
        (safetensors, "safetensors"),
        (compiled, "AOTInductor"),
        (text, "not a file written by PyTorch"),
        (pointer, "LFS pointer"),
        (pipe, "pipe"),
        (Path.touch, "is empty"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_file_without_a_program_is_told_apart(tmp_path, make, what, suffix):
    path = tmp_path / f"net{suffix}"
    make(path)
    assert PytorchImporter().handles(str(path))
    refused(path, what)


# -- many of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [PROGRAM, WEIGHTS])
def test_descriptions_of_other_types_are_refused(entries, tmp_path, name):
    for content in ("[]", "{}", "7", "null", '{"graph_module": []}', '{"config": [1]}'):
        path = fuzz_programs.archive(tmp_path / "net.pt2", {**entries, name: content})
        if (name, content) != (WEIGHTS, "{}"):
            refused(path)


def test_no_damaged_program_breaks_the_importer():
    counts, wrong = fuzz_programs.run(count=12, seed=7)
    assert not wrong
    assert counts["refused"] > 5


def test_sizes_that_are_derived_from_others_are_read(tmp_path):
    """``2*s0`` has a range of its own in the file."""
    half = torch.export.Dim("half", min=2, max=8)
    program = torch.export.export(
        nn.Linear(4, 4), (torch.zeros(6, 4),), dynamic_shapes=({0: 2 * half},)
    )
    torch.export.save(program, tmp_path / "derived.pt2")
    model = load(tmp_path / "derived.pt2")
    (size, width) = model.tensors[model.inputs[0]].shape
    assert (str(size).startswith("2*"), width) == (True, 4)

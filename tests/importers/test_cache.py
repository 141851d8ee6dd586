"""What importing gave is found again, as long as all that it rests on is the same."""

import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.cache import FileState, ImportCache, keep_names, kept_names
from dlbricks_core.importers.host import Imported, canonical
from dlbricks_core.importers.models import ImportSettings, ModelLoader
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import read_model
from dlbricks_core.measure.cutting import _notes
from dlbricks_core.report.notes import text

TARGET = "dlbricks_core.importers.onnx:OnnxImporter"

ONE_READ = f"""
from pathlib import Path
import onnx
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import ImportHost
from dlbricks_core.importers.onnx import OnnxImporter

def save(op):
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,2] x) => (float[N,2] y)'
    onnx.save(onnx.parser.parse_model(head + " {{ y = %s(x) }}" % op), "a.onnx")

def load(size):
    found, files = host.load("{TARGET}", "a.onnx", Path("a.onnx"), LoadOptions(dims={{"N": size}}))
    assert str(Path("a.onnx").absolute()) in [each.path for each in files]
    return found.model.tensors["y"].sizes

reads, read = [], OnnxImporter.load
OnnxImporter.load = lambda *given: reads.append(given) or read(*given)
save("Relu")
host = ImportHost()
(dimension,), files = host.dimensions("{TARGET}", "a.onnx", Path("a.onnx"), LoadOptions())
assert dimension.name == "N" and files
assert (load(3), load(4), len(reads)) == ((3, 2), (4, 2), 1)
save("Tanh")
assert (load(3), len(reads)) == ((3, 2), 2)
"""


def relu(path, size=4):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, size)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a model as one command does; tells whether it was imported before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def load_one(spec, options=None, *, fresh=False):
        with ModelLoader(options, ImportSettings(fresh=fresh)) as loader:
            return loader.load_one(str(spec)), not loader.imported

    return load_one


@pytest.mark.process
def test_a_model_is_imported_once(load, tmp_path):
    path = relu(tmp_path / "a.onnx")
    first, reused = load(path)
    assert not reused
    again, reused = load(path)
    assert reused
    assert (again.name, again.layers, again.tensors) == (first.name, first.layers, first.tensors)
    assert not load(path, fresh=True)[1]


@pytest.mark.process
def test_a_model_with_layers_folded_into_weights_is_imported_once(load, tmp_path):
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> '
        "g (float[2,100] x) => (float[2,100] y) <int8[100,100] w, float[100] s> "
        "{ a = Cast<to=1>(w) b = Mul(a, s) y = MatMul(x, b) }"
    )
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    values = {"w": rng.integers(-9, 9, (100, 100), np.int8), "s": np.ones(100, np.float32)}
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in values.items())
    onnx.save(proto, tmp_path / "a.onnx")
    first, reused = load(tmp_path / "a.onnx")
    assert first.folded is not None
    assert not reused
    again, reused = load(tmp_path / "a.onnx")
    assert reused
    assert [layer.op for layer in again.folded.layers] == ["Cast", "Mul"]


@pytest.mark.process
def test_a_file_of_weights_that_goes_is_missed(load, tmp_path):
    weight = numpy_helper.from_array(np.ones((512, 512), np.float32), "w")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 512)) for n in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    proto = helper.make_model(
        helper.make_graph([node], "g", values[:1], values[1:], [weight]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    path = tmp_path / "a.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="a.bin", size_threshold=0)
    backend = SimpleNamespace(opens=lambda source: False)
    assert [each.code for each in _notes(load(path)[0], backend)] == []
    (tmp_path / "a.bin").unlink()
    model, reused = load(path)
    assert reused
    (found,) = _notes(model, backend)
    assert text(found).startswith("a.bin with its weights is missing")
    # Importers of other kinds of files leave weights out in the same way.
    raw = read_model(onnx.load(path, load_external_data=False), name="a", source=str(path))
    assert raw.weight_files == ()


@pytest.mark.process
def test_denormal_weights_are_looked_for_at_import(load, tmp_path):
    weight = numpy_helper.from_array(np.full((64, 64), 1e-39, np.float32), "w")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 64)) for n in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [weight])
    path = tmp_path / "a.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    assert load(path)[0].denormal_share == load(path)[0].denormal_share == 1


@pytest.mark.process
def test_a_file_is_read_once_for_several_sizes(tmp_path):
    # In a process of its own: the record of files that are read cannot be ended.
    subprocess.run([sys.executable, "-c", ONE_READ], cwd=tmp_path, check=True)


@pytest.mark.process
def test_other_contents_are_imported_anew(load, tmp_path):
    path = relu(tmp_path / "a.onnx")
    load(path)
    before = path.stat()
    relu(path, size=8)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    model, reused = load(path)
    assert not reused
    assert model.tensors["x"].shape == (1, 8)


@pytest.mark.process
def test_other_options_are_imported_anew(load, tmp_path):
    path = relu(tmp_path / "a.onnx", size="n")
    assert load(path, LoadOptions(dims={"n": 3}))[0].tensors["x"].shape == (1, 3)
    assert load(path, LoadOptions(dims={"n": 5}))[0].tensors["x"].shape == (1, 5)
    assert load(path, LoadOptions(dims={"n": 3}))[1]


@pytest.mark.process
def test_external_data_are_part_of_the_model(load, tmp_path):
    def save(rows):
        shape = numpy_helper.from_array(np.array([rows, -1]), "shape")
        values = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 6)),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ]
        node = helper.make_node("Reshape", ["x", "shape"], ["y"])
        graph = helper.make_graph([node], "g", values[:1], values[1:], [shape])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            "a.onnx",
            save_as_external_data=True,
            location="a.data",
            size_threshold=0,
        )

    save(3)
    model = Path("a.onnx").read_bytes()
    assert load("a.onnx")[0].tensors["y"].shape == (3, 8)
    Path("a.data").unlink()
    save(2)
    assert Path("a.onnx").read_bytes() == model
    again, reused = load("a.onnx")
    assert not reused
    assert again.tensors["y"].shape == (2, 12)


#: A collection whose models are made by modules of the user's own, as PyTorch's factories are.
FACTORIES = """
    import importlib
    import sys
    from dlbricks_core.importers import ModelCollection
    from dlbricks_core.ir import read_model

    class Factories(ModelCollection):
        name = "factories"

        def names(self):
            return []

        def load(self, name, options=None):
            sys.path.insert(0, "")
            return read_model(importlib.import_module(name).net(), name=name)
"""


@pytest.mark.process
def test_factories_are_imported_anew_when_their_sources_change(
    load, tmp_path, monkeypatch, distribution
):
    (tmp_path / "site").mkdir()
    points = "[dlbricks.models]\nfactories = made_factories:Factories\n"
    distribution.install(monkeypatch, tmp_path / "site", "made_factories", FACTORIES, points)
    factory = """
        import onnx
        from parts import WIDTH
        def net():
            head = '<ir_version: 8, opset_import: ["" : 17]> g'
            body = "(float[1,%d] x) => (float[1,%d] y) { y = Relu(x) }" % (WIDTH, WIDTH)
            return onnx.parser.parse_model(head + body)
    """
    Path("nets.py").write_text(textwrap.dedent(factory))
    Path("parts.py").write_text("WIDTH = 4\n")
    assert not load("factories:nets")[1]
    assert load("factories:nets")[1]
    Path("parts.py").write_text("WIDTH = 16\n")
    model, reused = load("factories:nets")
    assert not reused
    assert model.tensors[model.inputs[0]].shape == (1, 16)
    # From another folder, the same name is another module.
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    Path("nets.py").write_text(textwrap.dedent(factory).replace("parts", "other"))
    Path("other.py").write_text("WIDTH = 8\n")
    found, reused = load("factories:nets")
    assert not reused
    assert found.tensors[found.inputs[0]].shape == (1, 8)


@pytest.mark.process
def test_models_that_cannot_be_kept_are_imported_again(load, tmp_path, monkeypatch):
    path = relu(tmp_path / "a.onnx")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not load(path)[1]
    assert not load(path)[1]


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("payload", [pickle.dumps(Evil()), b"", b"\x80\x05garbage"])
def test_reading_an_entry_runs_no_code(tmp_path, monkeypatch, payload):
    monkeypatch.chdir(tmp_path)
    cache = ImportCache(tmp_path)
    path = relu(tmp_path / "a.onnx")
    key = cache.key(TARGET, path, LoadOptions())
    imported = canonical(OnnxImporter().load(path), LoadOptions())
    cache.put(key, [FileState.of(path)], imported)
    assert isinstance(cache.get(key), Imported)
    (entry,) = tmp_path.glob("*.import")
    header = entry.read_bytes().partition(b"\n")[0]
    entry.write_bytes(header + b"\n" + payload)
    assert cache.get(key) is None
    assert not Path("ran").exists()


def test_the_oldest_entries_are_removed_first(tmp_path, monkeypatch):
    monkeypatch.setattr("dlbricks_core.importers.cache.MOST_BYTES", 3000)
    cache = ImportCache(tmp_path)
    for number in range(5):
        cache.put(str(number), [], b"x" * 1000)
        os.utime(tmp_path / f"{number}.import", (number, number))
    assert sorted(p.stem for p in tmp_path.glob("*.import")) == ["3", "4"]


@given(st.text(max_size=20), st.integers(0, 9))
def test_keys_differ_with_options(name, size):
    cache = ImportCache(Path("/nowhere"))
    keys = {
        cache.key(TARGET, source, options)
        for source in (Path("a.onnx"), Path("b/a.onnx"), "a.onnx")
        for options in (
            LoadOptions(),
            LoadOptions(dims={name: size}),
            LoadOptions(values={name: size}),
            LoadOptions(batch=size),
        )
    }
    assert len(keys) == 12


def test_a_file_is_imported_once_for_all_backends():
    """Collections write models in the form of a program's files; a file is what it is."""
    cache = ImportCache(Path("/nowhere"))
    options = [LoadOptions(), LoadOptions(form="onnxruntime-genai")]
    assert len({cache.key(TARGET, Path("a.onnx"), each) for each in options}) == 1
    assert len({cache.key(TARGET, "a", each) for each in options}) == 2


def test_names_of_models_are_kept_by_any_signature(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = {"a" * 24: "net", "../../outside": "größer", "\ud800": "old"}
    keep_names(names)
    keep_names({"\ud800": "new"})
    assert kept_names([*names, "unknown"]) == {**names, "\ud800": "new"}
    assert {each.name for each in tmp_path.iterdir()} == {"dlbricks"}


def test_names_that_cannot_be_kept_are_unknown(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    keep_names({"a": "net"})
    assert kept_names(["a"]) == {}

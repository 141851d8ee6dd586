from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.cli import main
from dlbricks_core.importers.cache import FileState, ImportCache
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.importers.options import LoadOptions


@dataclass
class Finished:
    """Status and output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture
def dlbricks(capfd, monkeypatch, tmp_path):
    """Runs a command line in this process; workers are real processes."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # never the user's own store
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        captured = capfd.readouterr()
        return Finished(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def in_folder(keep_workers):
    """Runs a command line in a folder, for what tests share; ``dlbricks`` sees all output."""

    def run(folder, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", "80")
            patch.setenv("XDG_DATA_HOME", str(folder / "data"))
            keep_workers(patch)
            patch.chdir(folder)
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main([str(each) for each in arguments])
        return Finished(ended.value.code, out.getvalue(), err.getvalue())

    return run


def chain_model(*operators, size=16, name="chain", batch=1, seed=0):
    """A small perceptron: MatMul before every one of the given operators."""
    rng = np.random.default_rng(seed)
    nodes, weights, x = [], [], "input"
    for i, op in enumerate(operators):
        weight = rng.normal(size=(size, size)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"{name}_w{i}"))
        nodes.append(helper.make_node("MatMul", [x, f"{name}_w{i}"], [f"{name}_m{i}"]))
        nodes.append(helper.make_node(op, [f"{name}_m{i}"], [f"{name}_x{i}"]))
        x = f"{name}_x{i}"
    shape = [batch, size]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="session")
def chain():
    """The function that builds chain models."""
    return chain_model


@pytest.fixture
def save(tmp_path):
    """Saves a chain model and gives its path."""

    def save_model(name, *operators, **more):
        path = Path(tmp_path) / f"{name}.onnx"
        onnx.save(chain_model(*operators, name=name, **more), path)
        return path

    return save_model


def remember_import(path):
    """Puts a model in the cache of imported models, as a command would that reads it."""
    options, cache = LoadOptions(), ImportCache()
    key = cache.key("dlbricks_core.importers.onnx:OnnxImporter", path, options)
    found = canonical(OnnxImporter().load(path), options, str(path))
    cache.put(key, [FileState.of(path)], found)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Saves a chain model for all tests and gives its path.

    It is in the cache of imported models already: commands need no process to read it, unless
    they read it with options.
    """
    folder = tmp_path_factory.mktemp("shared")

    def save_model(name, *operators, **more):
        told = "-".join([*operators, *(f"{key}{value}" for key, value in sorted(more.items()))])
        path = folder / told / f"{name}.onnx"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            onnx.save(chain_model(*operators, name=name, **more), path)
            remember_import(path)
        return path

    return save_model


#: Three convolutions, each with its ReLU, that hand on large maps: three segments.
CONVOLUTIONS = """<ir_version: 8, opset_import: ["" : 17]>
convolutions (float[1,16,160,160] x) => (float[1,32,1,1] y)
<float[16,16,3,3] w0 = {W}, float[16,16,3,3] w1 = {W}, float[16,16,3,3] w2 = {W}> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w0)
    b = Relu(a)
    c = Conv <pads = [1, 1, 1, 1]> (b, w1)
    d = Relu(c)
    e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
    f = Conv <pads = [1, 1, 1, 1]> (e, w2)
    g = Relu(f)
    h = Concat <axis = 1> (e, g)
    i = Softmax <axis = 1> (h)
    y = GlobalAveragePool(i)
}"""


@pytest.fixture(scope="session")
def convolutions(tmp_path_factory):
    """A network of convolutions, which ONNX Runtime fuses with the ReLU that follows."""
    path = tmp_path_factory.mktemp("convolutions") / "convolutions.onnx"
    weights = ", ".join(["0.01"] * (16 * 16 * 9))
    onnx.save(onnx.parser.parse_model(CONVOLUTIONS.replace("{W}", f"{{{weights}}}")), path)
    remember_import(path)
    return path


@pytest.fixture
def strange(tmp_path):
    """A model whose first operator is unknown."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 8)) for n in "xay"]
    nodes = [
        helper.make_node("Strange", ["x"], ["a"], domain="nowhere"),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "strange", values[:1], values[2:], value_info=values[1:2])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    path = Path(tmp_path) / "strange.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


@pytest.fixture
def read():
    return lambda path: json.loads(Path(path).read_text())


@pytest.fixture
def known(read):
    """Models or bricks of a result, but for where their figures come from, since samples are
    measured once and stored from then on, and for the memory that happens to be free.
    """

    def results(path, kind):
        found = read(path)[kind]
        assert all("origin" in each for each in found)
        return [{k: v for k, v in each.items() if k not in ("origin", "memory")} for each in found]

    return results


@pytest.fixture
def install(distribution, tmp_path_factory, monkeypatch):
    """Installs a distribution of one module for a test; workers find it as well."""
    modules = []

    def installed(module, source, points):
        distribution.install(monkeypatch, tmp_path_factory.mktemp("site"), module, source, points)
        modules.append(module)

    yield installed
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def twin(distribution, tmp_path_factory, monkeypatch):
    """A second backend that starts quickly: ONNX Runtime under the name twin."""
    distribution.install_twin(monkeypatch, tmp_path_factory.mktemp("site"))
    yield
    sys.modules.pop("twin_backend", None)

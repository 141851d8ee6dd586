"""What several test rooms build on."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.backends import BackendSettings
from dlbricks_core.facts import Setup
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.machine.load import FOLDER
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure.request import Request
from dlbricks_core.passes.shapes import infer
from dlbricks_core.plugins import Plugin

# Tests keep no timings: they measure side by side, and none waits until another has measured.
os.environ[FOLDER] = ""


@pytest.fixture(scope="session", autouse=True)
def computed_once():
    """Computes once what commands in this process would compute again, each for itself.

    It depends on the machine and on the reference data alone: the bandwidth of the memory, numbers
    that no cache holds, and posteriors of layers.
    """
    from dlbricks_prediction import from_atlas
    from dlbricks_sizes import roofline

    from dlbricks_core.machine import cores

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roofline, "read_bandwidth", cache(roofline.read_bandwidth))
        patch.setattr(cores, "Memory", cache(cores.Memory))
        patch.setattr(from_atlas, "MOST_KNOWN", 200)
        yield


#: Folders whose tests look at what is done with predictions, and not at how exact they are.
USERS_OF_PREDICTIONS = {"api", "cli", "commands", "estimation", "serving"}


@pytest.fixture(autouse=True)
def nearest_systems(request, monkeypatch):
    """Predicts from the two nearest systems of the reference data, where a command takes six."""
    if not USERS_OF_PREDICTIONS.isdisjoint(request.path.parts):
        monkeypatch.setattr("dlbricks_prediction.from_atlas.MOST_CONTRIBUTIONS", 2)


@dataclass
class ModelBuilder:
    """Builds models in canonical form, a layer at a time.

    Every tensor has one shape, so that any layer can follow any other.
    """

    shape: tuple[int, ...] = (1, 4, 6, 6)
    prefix: str = ""
    layers: list[Layer] = field(default_factory=list)
    weights: dict[str, TensorSpec] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)

    def __post_init__(self):
        self.tensors[self.input] = TensorSpec("float32", self.shape)

    @property
    def input(self):
        return f"{self.prefix}input"

    def add(self, op, *inputs, shape=None, name=None, **attributes):
        out = name or f"{self.prefix}{op.lower()}{len(self.layers)}"
        self.layers.append(Layer(op, inputs, (out,), attributes, name=f"{self.prefix}{out}_layer"))
        self.tensors[out] = TensorSpec("float32", shape or self.shape)
        return out

    def weight(self, *shape, dtype="float32", value=None):
        name = f"{self.prefix}weight{len(self.weights)}"
        self.weights[name] = self.tensors[name] = TensorSpec(dtype, shape)
        if value is not None:
            self.constants[name] = np.asarray(value)
        return name

    def relu(self, x):
        return self.add("Relu", x)

    def conv(self, x, kernel=3):
        channels = self.shape[1]
        pad = kernel // 2
        return self.add(
            "Conv",
            x,
            self.weight(channels, channels, kernel, kernel),
            self.weight(channels),
            auto_pad="NOTSET",
            dilations=(1, 1),
            group=1,
            kernel_shape=(kernel, kernel),
            pads=(pad, pad, pad, pad),
            strides=(1, 1),
        )

    def sum(self, a, b):
        return self.add("Add", a, b)

    def model(self, *outputs, name="built"):
        outputs = outputs or (self.layers[-1].outputs[0],)
        return CanonicalModel(
            name=name,
            layers=tuple(self.layers),
            inputs=(self.input,),
            outputs=outputs,
            tensors=dict(self.tensors),
            weights=frozenset(self.weights),
            constants=dict(self.constants),
            opsets={"": 21},
        )


@pytest.fixture
def builder():
    return ModelBuilder


def residual_model(prefix="", kernel=3, name="residual"):
    """conv-relu-conv, added to its input, then relu."""
    b = ModelBuilder(prefix=prefix)
    first = b.relu(b.conv(b.input, kernel))
    second = b.conv(first, kernel)
    b.relu(b.sum(second, b.input))
    return b.model(name=name)


@pytest.fixture
def residual():
    return residual_model


def chain_with_convolution(inputs, outputs, rows, columns=80, size=3, dilation=1, pad=None,
                           op="Conv", before=(), after=()):  # fmt: skip
    """A model of a convolution that keeps its map's size, and of other layers around it."""
    pad = dilation * (size - 1) // 2 if pad is None else pad
    filters = (outputs, inputs) if op == "Conv" else (inputs, outputs)
    shape = np.array([outputs, rows * columns])
    tensors = {
        "t0": TensorSpec("float32", (1, inputs, rows, columns)),
        "w": TensorSpec("float32", (*filters, size, size)),
        "s": TensorSpec("int64", (2,)),
    }
    attributes = {"auto_pad": "NOTSET", "dilations": (dilation, dilation), "group": 1,
                  "kernel_shape": (size, size), "pads": (pad,) * 4, "strides": (1, 1)}  # fmt: skip
    layers = []
    for each in (*before, op, *after):
        last, more = f"t{len(layers)}", {op: ["w"], "Reshape": ["s"]}.get(each, [])
        own = attributes if each == op else {"allowzero": 0} if each == "Reshape" else {}
        layers.append(Layer(each, (last, *more), (f"t{len(layers) + 1}",), own))
        tensors |= infer(layers[-1], tensors, {"s": shape})
    outputs_of = layers[-1].outputs
    return CanonicalModel(
        "chain",
        tuple(layers),
        ("t0",),
        outputs_of,
        tensors,
        frozenset({"w", "s"}),
        {"s": shape},
        {"": 21},
    )


@pytest.fixture(scope="session")
def chain_of():
    return chain_with_convolution


@pytest.fixture
def asked(faulty):
    """A request to the faulty backend for ten runs of each network."""
    plugin = Plugin("backend", "faulty", faulty.TARGET, "tests", "1", faulty.FaultyBackend)
    protocol = PROTOCOLS["interleaved"]
    setup = Setup("faulty", "1.0", "{}", 1, protocol.identity, "0.1.0")
    return Request(plugin, faulty.FaultyBackend(), setup, BackendSettings(), protocol, 10,
                   current_system())  # fmt: skip


@pytest.fixture
def faulty(monkeypatch):
    """The backend of ``helpers/faulty_backend.py`` and its target for a worker."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "helpers"))
    import faulty_backend

    return faulty_backend


@pytest.fixture(scope="session")
def postgres(processes):
    """A real PostgreSQL server. Where it does not start, its tests fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "helpers"))
        from postgres_server import PostgresServer
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def browser(processes):
    """A headless Chromium that opens pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "helpers"))
        from browser import Browser, start
    driver = start()
    yield Browser(driver)
    driver.quit()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.process)])
def kind(request):
    return request.param


@pytest.fixture
def new_place(kind, request, tmp_path):
    """Gives the path or URL of another store that holds nothing, or is not there yet."""
    numbers = itertools.count()
    if kind == "sqlite":
        return lambda: tmp_path / f"results{next(numbers)}.db"
    emptied = request.getfixturevalue("emptied")
    return lambda: emptied(next(numbers))


@pytest.fixture
def place(new_place):
    """Path or URL of a store that holds nothing, or is not there yet."""
    return new_place()


@pytest.fixture
def store(place):
    from dlbricks_core.store import ResultStore

    with ResultStore.open(place) as opened:
        yield opened


@pytest.fixture
def lines_of():
    """Reads the lines of an exported file."""
    import zstandard

    def read(path):
        with zstandard.open(path, "rt") as file:
            return [json.loads(line) for line in file]

    return read


@pytest.fixture
def write_lines():
    """Writes an exported file line by line."""
    import zstandard

    def write(path, lines):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(text.encode()))

    return write


@pytest.fixture(scope="session")
def emptied(postgres):
    """Empties one of some stores on the server and gives its URL: faster than making one."""
    from dlbricks_core.store import ResultStore
    from dlbricks_core.store.schema import metadata

    names = ", ".join(name for name in metadata.tables if name != "quantities")
    urls = []

    def empty(number=0):
        while len(urls) <= number:
            urls.append(postgres.create())
            ResultStore.open(urls[-1]).close()
        postgres.execute(f"TRUNCATE {names} RESTART IDENTITY", of=urls[number])
        postgres.execute("DELETE FROM quantities WHERE name <> 'latency'", of=urls[number])
        return urls[number]

    return empty


@pytest.fixture(scope="session")
def distribution():
    """Installs distributions for tests; see ``helpers/distribution.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "helpers"))
        import distribution
    return distribution


@pytest.fixture(scope="session")
def save_decoder():
    """Saves a small language model with a cache; see ``helpers/decoder.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "helpers"))
        import decoder
    return decoder.save_decoder


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


@pytest.fixture(scope="session")
def read_page():
    """Reads and checks the source of a page; see ``helpers/page_reader.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "helpers"))
        import page_reader
    return page_reader.Page

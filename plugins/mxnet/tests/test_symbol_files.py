"""Symbol and parameter files that are damaged, hostile, old, or of another MXNet: one line each."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path

import pytest
from dlbricks_mxnet import symbol_file
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import MxnetImporter
from dlbricks_mxnet.params import read_specs

from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import ImportOptions, LoadOptions
from dlbricks_core.importers.host import ImportHost
from dlbricks_core.passes import normalize

sys.path.append(str(Path(__file__).parent))
import fuzz_symbols

mx = import_mxnet()

WIDE = ImportOptions(shapes={"data": (2, 48)})


def null(name, **more):
    return fuzz_symbols.null(name, **more)


def dense(odd, data=None, **graph):
    """A layer with one more operator behind it."""
    nodes = [
        null("data", **(data or {})),
        null("fc_weight"),
        null("fc_bias"),
        {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "8"},
         "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
        {"name": "odd", "inputs": [[3, 0, 0]], **odd},
    ]  # fmt: skip
    return {"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[4, 0, 0]], **graph}


RELU = {"op": "relu"}


@pytest.fixture
def load(tmp_path):
    mx.nd.save(
        str(tmp_path / "net-0000.params"),
        {"arg:fc_weight": mx.nd.ones((8, 48)), "arg:fc_bias": mx.nd.ones((8,))},
    )

    def load(graph, options=WIDE):
        path = tmp_path / "net-symbol.json"
        path.write_text(graph if isinstance(graph, str) else json.dumps(graph))
        return MxnetImporter().load(path, options)

    return load


def refused(load, graph, *words, options=WIDE):
    with pytest.raises(DLBricksError) as raised:
        load(graph, options)
    message = raised.value.message
    assert len(message.splitlines()) == 1
    assert raised.value.hint
    for word in ("net-symbol.json", *words):
        assert word in message
    return raised.value


# -- what the file is ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": {}}, ["nodes"]),
        ({"nodes": []}, ["nodes"]),
        ({"nodes": [[1]]}, ["node 0"]),
        ({"nodes": [{"op": "null"}]}, ["node 0", "no name"]),
        ({"nodes": [{"name": "x"}]}, ["'x'", "no operator"]),
        ({"heads": []}, ["heads"]),
        ({"heads": [[9, 0, 0]]}, ["head", "node 9"]),
        ({"heads": [[4, 1, 0]]}, ["head", "output 1 of 'odd'"]),
        ({"heads": [["4", 0]]}, ["head"]),
    ],
)
def test_graph_of_wrong_types_is_named(load, change, words):
    refused(load, {**dense(RELU), **change}, *words)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({**RELU, "inputs": [[4, 0, 0]]}, ["'odd'", "node 4"]),
        ({**RELU, "inputs": [[-1, 0, 0]]}, ["'odd'", "node -1"]),
        ({**RELU, "inputs": [[3, 1000, 0]]}, ["'odd'", "output 1000 of 'fc'"]),
        ({**RELU, "inputs": [3]}, ["'odd'"]),
        ({**RELU, "inputs": {"3": 0}}, ["'odd'"]),
        ({"op": "BatchNorm", "inputs": []}, ["'odd'", "reads nothing"]),
        ({"op": "BatchNorm"}, ["odd"]),
        ({**RELU, "attrs": {"axis": 1}}, ["'odd'", "attributes"]),
        ({**RELU, "attrs": []}, ["'odd'", "attributes"]),
        ({"op": "null", "name": "data", "inputs": []}, ["two", "'data'"]),
        ({"op": "WarpCTC"}, ["WarpCTC", "'odd'", "no operator"]),
        ({"op": "Custom", "attrs": {"op_type": "Mask"}}, ["'Mask'", "'odd'", "custom"]),
        ({"op": "_Native", "attrs": {"info": "0x41414141"}}, ["_Native", "'odd'"]),
        ({"op": "_NDArray", "attrs": {"info": "0x41414141"}}, ["_NDArray", "'odd'"]),
        ({"op": "_sg_mkldnn_conv"}, ["_sg_mkldnn_conv", "optimized"]),
        ({"op": "_contrib_quantize_v2", "attrs": {"out_type": "int8"}}, ["quantize_v2", "'odd'"]),
        ({"op": "Activation", "attrs": {"act_type": "swishy"}}, ["swishy", "odd"]),
        ({"op": "tile", "attrs": {"reps": "(2000000000, 2000000000)"}}, ["odd"]),
    ],
)  # fmt: skip
def test_node_at_fault_is_named(load, odd, words):
    refused(load, dense(odd), *words)


def test_element_type_that_mxnet_lacks(load):
    refused(load, dense(RELU, {"attrs": {"__dtype__": "20"}}), "'data'", "'20'")


@pytest.mark.parametrize("shape", ["(1, 48", "(1, 48)", "[1,48]", "(1L, 48L)", "(0, 48)"])
def test_shape_is_read_however_it_is_written(load, shape):
    model = load(dense(RELU, {"attrs": {"__shape__": shape}}), ImportOptions())
    assert model.tensors["data"].shape == (1, 48)


@pytest.mark.parametrize("shape", ["None", "()", "__import__('os')", "(1, x)", "(" * 900])
def test_shape_that_is_none_is_asked_for(load, shape):
    graph = dense(RELU, {"attrs": {"__shape__": shape}})
    error = refused(load, graph, "no shape", "data", options=ImportOptions())
    assert "--dim data=" in error.hint
    assert len(normalize(load(graph)).layers) == 2


def test_graph_of_mxnet_07_is_read(load):
    old = dense({"op": "Activation", "param": {"act_type": "relu"}, "inputs": [[3, 0]]})
    old["nodes"][3] = {"op": "FullyConnected", "name": "fc", "inputs": [[0, 0], [1, 0], [2, 0]],
                       "param": {"num_hidden": "8"}, "backward_source_id": -1}  # fmt: skip
    for node in old["nodes"][:3]:
        node.update(param={}, backward_source_id=-1)
    old["heads"] = [[4, 0]]
    assert [layer.op for layer in load(old).layers] == ["Gemm", "Relu"]


def test_deep_and_large_files_are_refused(load, monkeypatch):
    refused(load, "[" * 100_000, "not JSON")
    monkeypatch.setattr(symbol_file, "MOST_BYTES", 100)
    refused(load, dense(RELU), "limit")


def test_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "net-symbol.json")
    with pytest.raises(ModelError, match="device or pipe"):
        MxnetImporter().load(tmp_path / "net-symbol.json")


# -- parameters --------------------------------------------------------------------------


def array(*sizes, magic=0xF993FAC9, form="q", kind=0, content=None):
    head = struct.pack("<I", magic)
    head += struct.pack("<i", 0) if magic != 0xF993FAC8 else b""
    head += struct.pack("<i", len(sizes)) + struct.pack(f"<{len(sizes)}{form}", *sizes)
    return head + struct.pack("<iii", 1, 0, kind) + (content if content is not None else bytes(24))


def params(*arrays, names=("w",), count=None):
    named = b"".join(struct.pack("<Q", len(name)) + name.encode() for name in names)
    count = len(arrays) if count is None else count
    head = struct.pack("<QQQ", 0x112, 0, count)
    return head + b"".join(arrays) + struct.pack("<Q", len(names)) + named


PLAIN = params(array(2, 3))


@pytest.mark.parametrize(
    "arrays",
    [
        array(2, 3),
        array(2, 3, magic=0xF993FAC8),
        array(2, 3, magic=0xF993FACA),
        struct.pack("<III", 2, 2, 3) + struct.pack("<iii", 1, 0, 0) + bytes(24),
    ],
    ids=["today", "64 bits", "numpy", "MXNet 0.7"],
)
def test_arrays_of_every_age_are_read(tmp_path, arrays):
    (tmp_path / "w.params").write_bytes(params(arrays))
    assert read_specs(tmp_path / "w.params")["w"].shape == (2, 3)
    with mx.util.np_shape(arrays.startswith(struct.pack("<I", 0xF993FACA))):
        assert mx.nd.load(str(tmp_path / "w.params"))["w"].shape == (2, 3)


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
def test_sparse_arrays_are_read(tmp_path, stype):
    path = str(tmp_path / "w.params")
    mx.nd.save(path, {"a": mx.nd.ones((4, 3)).tostype(stype), "b": mx.nd.ones((2,))})
    assert {k: s.shape for k, s in read_specs(Path(path)).items()} == {"a": (4, 3), "b": (2,)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not parameters at all, but some text",
        PLAIN[:-1],
        PLAIN[:30],
        params(array(-2, 3)),
        params(array(2**62, 2**62)),
        params(array(2**62, 0)),
        params(array(2, 3, kind=20)),
        params(array(2, 3), count=2**62),
        params(array(2, 3), count=2),
        params(array(2, 3), names=()),
        params(array(2, 3), names=("a", "b")),
        PLAIN[:-9] + struct.pack("<Q", 2**63) + b"w",
        params(struct.pack("<Ii", 0xF993FAC9, 7)),
        params(struct.pack("<Iii", 0xF993FAC9, 0, 2**30)),
        PLAIN[:-1] + b"\xff",
    ],
    ids=range(16),
)
def test_damaged_parameters_are_one_line(tmp_path, content):
    (tmp_path / "w.params").write_bytes(content)
    with pytest.raises(ModelError, match=r"w\.params holds no MXNet parameters") as raised:
        read_specs(tmp_path / "w.params")
    assert len(raised.value.message.splitlines()) == 1
    assert raised.value.hint


# -- many of them --------------------------------------------------------------------------


def test_no_damaged_file_breaks_the_importer():
    counts, wrong = fuzz_symbols.run(count=60, seed=7)
    assert not wrong
    assert counts["refused"] > 20


@pytest.mark.parametrize("count", ["50000000", " 0099999", "9" * 40])
def test_an_operator_of_millions_of_outputs_is_refused_before_they_are_made(tmp_path, count):
    odd = {"op": "SliceChannel", "name": "big", "attrs": {"num_outputs": count, "axis": "1"},
           "inputs": [[0, 0, 0]]}  # fmt: skip
    graph = {"nodes": [null("data"), odd], "arg_nodes": [0], "heads": [[1, 0, 0]]}
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps(graph))
    with pytest.raises(ModelError, match=r"'big' has num_outputs=.*; 10000 is the limit"):
        symbol_file.read_graph(path)


def test_a_graph_of_a_million_heads_is_refused_at_once(load):
    """They took minutes, in a file of some megabytes."""
    many = dense(RELU, heads=[[4, 0, 0]] * 10**6)
    refused(load, many, "1000000 heads; 10000 is the limit")


def test_two_arrays_of_one_name_are_refused(tmp_path):
    path = tmp_path / "w.params"
    path.write_bytes(params(array(2, 3), array(2, 3), names=("a", "a")))
    with pytest.raises(ModelError, match="the same name"):
        read_specs(path)


def test_a_size_with_the_name_of_an_input_is_its_shape(tmp_path):
    taken = mx.sym.take(mx.sym.var("data"), mx.sym.var("places"), axis=1)
    path = tmp_path / "net-symbol.json"
    taken.save(str(path))
    options = LoadOptions(shapes={"data": (64, 100)}, dims={"places": 5})
    found, _ = ImportHost().load("dlbricks_mxnet.importer:MxnetImporter", str(path), path, options)
    assert found.model.tensors["places"].sizes == (5,)
    (output,) = found.model.outputs
    assert found.model.tensors[output].sizes == (64, 5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_inputs_have_the_float_type_of_the_weights(tmp_path, dtype):
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc")
    symbol.save(str(tmp_path / "net-symbol.json"))
    arrays = {"arg:fc_weight": mx.nd.ones((8, 48)), "arg:fc_bias": mx.nd.ones((8,))}
    mx.nd.save(str(tmp_path / "net-0000.params"), {k: a.astype(dtype) for k, a in arrays.items()})
    model = MxnetImporter().load(tmp_path / "net-symbol.json", WIDE)
    assert model.tensors["data"].dtype == dtype

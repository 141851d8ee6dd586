"""Models for tests of the Python API, and a store of their own."""

import pytest
from onnx import TensorProto, helper


@pytest.fixture(autouse=True)
def own_store(kept_workers, monkeypatch, tmp_path):
    """Keeps the user's own store out of the tests, and processes that read models for the next."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.fixture
def proto():
    """Relu and Tanh on a batch of any size."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("N", 8)) for n in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "small", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

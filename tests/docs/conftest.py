"""Models that pages and commands name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def save(path, *sizes):
    """A small file such as pages name; sizes may be left open."""
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
        helper.make_node("MatMul", ["z", "w"], ["t"]),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = (value(n, TensorProto.FLOAT, [*sizes, 8]) for n in ("x", "t"))
    graph = helper.make_graph(nodes, "net", [inputs], [outputs], [weight])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


@pytest.fixture(scope="session")
def perceptron():
    """Saves a small model: the path, and sizes (names leave them open)."""
    return save

"""Operators without a kernel for an element type, compared with sessions of ONNX Runtime."""

import warnings

import onnx
import onnxruntime
import pytest
from dlbricks_onnxruntime.kernels import TYPES, WITHOUT_KERNEL
from dlbricks_testing.operators import operators_with_layers
from onnx import TensorProto
from onnx.backend.test.case.node import collect_testcases
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplemented_

from dlbricks_core.ir.tensors import DTYPE_NUMBERS

pytestmark = pytest.mark.long

NUMBERS = {"float64": TensorProto.DOUBLE, "bfloat16": TensorProto.BFLOAT16}


@pytest.fixture(scope="module")
def cases():
    """Models of one layer with an input in float32 that ONNX Runtime runs."""
    onnxruntime.set_default_logger_severity(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case.model for case in collect_testcases(None)]
    alone = [m for m in found if len(m.graph.node) == 1 and not m.graph.node[0].domain]
    return [m for m in alone if any(map(_is_float, m.graph.input)) and _runs(m)]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_operators_without_a_kernel_are_named(cases, dtype):
    run, refused = set(), set()
    for model in cases:
        other = _in_type(model, NUMBERS[dtype])
        try:
            onnx.checker.check_model(other, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            continue
        (run if _runs(other) else refused).add(model.graph.node[0].op_type)
    # Two that ONNX Runtime writes out have cases with inputs of several types.
    written_out = {"Attention", "SoftmaxCrossEntropyLoss"}
    assert ((refused - run) & operators_with_layers()) - written_out == WITHOUT_KERNEL[dtype]


@pytest.mark.parametrize("dtype", [name for name in DTYPE_NUMBERS if name != "string"])
def test_types_that_no_tensor_has_are_named(dtype):
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Transpose", ["x"], ["y"])
    ends = ([value(name, DTYPE_NUMBERS[dtype], [2, 2])] for name in "xy")
    graph = onnx.helper.make_graph([node], "g", *ends)
    opset = onnx.helper.make_opsetid("", 25)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=13)
    assert _runs(model) == (dtype in TYPES)


def _is_float(value):
    return value.type.tensor_type.elem_type == TensorProto.FLOAT


def _in_type(model, number):
    other = onnx.ModelProto.FromString(model.SerializeToString())
    for value in (*other.graph.input, *other.graph.output):
        if _is_float(value):
            value.type.tensor_type.elem_type = number
    for attribute in other.graph.node[0].attribute:
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = number
    return other


def _runs(model):
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented_):
        return False
    return True

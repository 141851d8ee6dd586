"""Messages of ONNX Runtime, as the backend tells them."""

import numpy as np
import onnxruntime as ort
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from onnx import TensorProto, helper


def raised(operator, *inputs, result=TensorProto.FLOAT):
    """What ONNX Runtime raises when one layer runs on these values."""
    names = [f"x{i}" for i in range(len(inputs))]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], name="the layer")],
        "one",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim
            )
            for n, x in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info("y", result, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    with pytest.raises(Exception) as caught:
        session.run(None, dict(zip(names, inputs, strict=True)))
    return OnnxruntimeBackend().reason(caught.value)


def test_a_reason_names_the_layer_and_no_place_in_the_sources():
    told = raised("Reshape", np.zeros((2, 3), np.float32), np.array([5, 7]))
    assert told.startswith("Fail: Reshape 'the layer': ")
    assert told.endswith("Input shape:{2,3}, requested shape:{5,7}")
    assert "::" not in told
    assert "/onnxruntime" not in told


def test_a_reason_without_a_place_is_whole():
    told = raised("Gather", np.zeros((2, 3), np.float32), np.array([50]))
    assert told == (
        "InvalidArgument: Gather 'the layer': indices element out of data bounds, idx=50 must be "
        "within the inclusive range [-2,1]"
    )


@pytest.mark.parametrize(
    ("operator", "inputs", "reason"),
    [
        (
            "GridSample",
            (np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 2, 2, 3), np.float32)),
            "Last dimension of grid: 3, expect 2",
        ),
        (
            "MatMul",
            (np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32)),
            "MatMul dimension mismatch",
        ),
        (
            "QuantizeLinear",
            (np.zeros(2, np.float16), np.array(1, np.float32), np.array(0, np.int8)),
            "Tensor type mismatch.",
        ),
    ],
)
def test_a_reason_shows_no_source_code(operator, inputs, reason):
    result = TensorProto.INT8 if operator == "QuantizeLinear" else TensorProto.FLOAT
    assert raised(operator, *inputs, result=result) == f"Fail: {operator} 'the layer': {reason}"


def test_other_errors_keep_their_words():
    assert OnnxruntimeBackend().reason(ValueError("no such thing")) == "ValueError: no such thing"

"""Which outputs operators that round what they read make less precise."""

import numpy as np
import onnx
import pytest
from dlbricks_compare.rounding import (
    Rounding,
    precisions,
    random_outputs,
    ranked_outputs,
    rounding_layers,
)
from onnx import TensorProto, helper

from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize

WIDTH = 32


def quantized(**attributes):
    """A model whose first output lies behind a product of quantized weights, and another not."""
    product = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["product"], domain="com.microsoft",
        K=WIDTH, N=WIDTH, bits=4, block_size=32, **attributes,
    )  # fmt: skip
    nodes = [
        product,
        helper.make_node("Relu", ["product"], ["behind"]),
        helper.make_node("Tanh", ["x"], ["beside"]),
    ]
    weights = {"codes": np.zeros((WIDTH, 1, 16), np.uint8), "scales": np.ones(WIDTH, np.float32)}
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, WIDTH))
        for name in ("x", "behind", "beside")
    ]
    graph = helper.make_graph(
        nodes, "g", values[:1], values[1:],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return normalize(read_model(proto, name="quantized"))


@pytest.mark.parametrize(("level", "unit"), [(2, 2**-10), (3, 2**-7), (4, 2**-7)])
def test_outputs_behind_a_rounding_operator_are_less_precise(level, unit):
    model = quantized(accuracy_level=level)
    assert precisions(model) == {"behind": unit}
    assert rounding_layers(model) == {("MatMulNBits", Rounding.ALLOWED): 1}


@pytest.mark.parametrize("attributes", [{}, {"accuracy_level": 0}, {"accuracy_level": 1}])
def test_without_leave_to_round_outputs_are_as_precise_as_their_types(attributes):
    model = quantized(**attributes)
    assert precisions(model) == {}
    assert rounding_layers(model) == {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_outputs_behind_short_floats_are_as_precise_as_these(dtype):
    model = textual(
        f"""m (float[4] x) => (float[4] wide, {dtype}[4] short, float[4] beside) {{
            c = Cast<to = {getattr(TensorProto, dtype.upper())}>(x)
            short = Exp(c)
            wide = Cast<to = 1>(short)
            beside = Exp(x)
        }}"""
    )
    assert precisions(model) == {"wide": {"float16": 2**-10, "bfloat16": 2**-7}[dtype]}
    assert rounding_layers(model) == {(dtype, Rounding.SHORT): 2}


def textual(text):
    header = '<ir_version: 10, opset_import: ["" : 21]>\n'
    return normalize(read_model(onnx.parser.parse_model(header + text), name="m"))


def test_codes_and_products_of_dequantized_weights_are_less_precise():
    model = textual("""g (float[2,4] x, int8[4,4] w) => (float[2,4] y, float[2,4] z)
        <float s = {0.1}> { v = DequantizeLinear(w, s) y = MatMul(x, v)
        q = QuantizeLinear<output_dtype=5>(x, s) z = DequantizeLinear(q, s) }""")
    assert precisions(model) == {"y": 2**-7, "z": 2**-15}
    assert rounding_layers(model) == {
        ("MatMul", Rounding.FUSED): 1,
        ("QuantizeLinear", Rounding.CODES): 1,
    }


def test_random_numbers_are_named_where_they_reach_an_output():
    model = textual("""g (float[2,4] x) => (float[2,4] y, float[2,4] z)
        { r = RandomNormalLike(x) a = Add(x, r) y = Relu(a) z = Tanh(x) }""")
    assert random_outputs(model) == {"y": "RandomNormalLike"}


def test_outputs_behind_places_in_an_order_are_named_and_those_behind_values_are_not():
    model = textual("""g (float[2,4] x) => (float[2,2] v, float[2,2] y)
        <int64[1] k = {2}> { v, i = TopK(x, k) y = Cast<to=1>(i) }""")
    assert ranked_outputs(model) == {"y"}

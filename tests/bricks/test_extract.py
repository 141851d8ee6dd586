import pickle

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.bricks import Brick, BrickSet, extract, signature
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, read_model
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize


@pytest.fixture
def parts():
    """A Split into four, of which the second is read inside and the third is an output."""
    part = TensorSpec("float32", (1, 4))
    layers = (
        Layer("Split", ("x",), ("a", "b", "c", "d"), {"axis": 1, "num_outputs": 4}),
        Layer("Relu", ("b",), ("y",)),
    )
    tensors = {"x": TensorSpec("float32", (1, 16)), **dict.fromkeys("abcdy", part)}
    return CanonicalModel("parts", layers, ("x",), ("c", "y"), tensors)


def test_parts_of_a_split_that_nobody_reads_are_no_outputs(parts):
    names = [layer.outputs for layer in parts.layers]
    assert names == [("a", "b", "c", "d"), ("y",)]
    assert extract(parts, (0, 1), "whole").outputs == ("t2", "t4")
    assert extract(parts, (0,), "split").outputs == ("t1", "t2")


def test_a_whole_model_as_a_brick_has_the_models_outputs(parts):
    model = normalize(parts)
    (cut,) = BrickSet.of([model], 128, "segments", {}).models
    whole = cut.whole.model
    assert len(whole.outputs) == len(model.outputs) == 2
    assert [layer.op for layer in whole.layers] == [layer.op for layer in model.layers]


def test_the_result_of_a_layer_that_nobody_reads_is_an_output(parts):
    alone = CanonicalModel("dead", parts.layers[:1], ("x",), (), parts.tensors)
    assert len(extract(alone, (0,), "split").outputs) == 4


def test_a_whole_model_becomes_a_brick_once_however_often_it_is_cut(parts):
    first, second = (BrickSet.of([parts], granularity=size).models[0] for size in (1, 2))
    assert first.whole is second.whole


def test_a_brick_is_extracted_when_it_is_first_needed_and_pickled_without_its_model(parts):
    brick = Brick.within(parts, (0,), "name")
    assert brick.operators == (parts.layers[0].qualified_op,)
    assert "model" not in vars(brick)
    again = pickle.loads(pickle.dumps(brick))
    assert again.model.layers == brick.model.layers == extract(parts, (0,), "name").layers
    assert len(pickle.dumps(brick)) < len(pickle.dumps(Brick("name", parts)))


def test_a_whole_model_keeps_its_constant_indices_and_they_are_in_its_signature():
    def picked(index):
        whole, row = TensorSpec("float32", (3, 8)), TensorSpec("float32", (8,))
        layer = Layer("Gather", ("x", "index"), ("y",), {"axis": 0})
        tensors = {"x": whole, "index": TensorSpec("int64", ()), "y": row}
        constants = {"index": np.array(index)}
        weights = frozenset(constants)
        return CanonicalModel("picked", (layer,), ("x",), ("y",), tensors, weights, constants)

    models = [picked(0), picked(2), picked(2)]
    first, second, third = BrickSet.of(models, 128, "segments", {}).models
    assert [int(cut.whole.model.constants["w0"]) for cut in (first, second)] == [0, 2]
    assert first.whole.signature != second.whole.signature == third.whole.signature
    assert not extract(models[0], (0,), "brick").constants


def test_a_mask_in_a_brick_is_compared_with_what_the_model_compares_it_with():
    """With another number the mask hides every position, and a softmax gives NaN."""
    nodes = [
        helper.make_node("Equal", ["mask", "hidden"], ["hides"]),
        helper.make_node("Where", ["hides", "never", "x"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("mask", TensorProto.INT64, [2, 8]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])],
        [
            numpy_helper.from_array(np.array(0), "hidden"),
            numpy_helper.from_array(np.array(-np.inf, np.float32), "never"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = materialize(extract(normalize(read_model(proto, name="m")), (0, 1, 2), "b"))
    (compared,) = {layer.inputs[1] for layer in network.model.layers if layer.op == "Equal"}
    (mask,) = (value for value in network.inputs.values() if value.dtype == np.int64)
    assert not (mask == network.weights[compared]).any()


def quantized(zero, dtype="uint8"):
    """A rectifier between codes, with a zero point that is shared."""
    text = (
        f"(float[2,8] x) => (y) <float s = {{0.0213}}, {dtype} z = {{{zero}}}> {{"
        " q = QuantizeLinear(x, s, z)"
        " d = DequantizeLinear(q, s, z)"
        " y = Relu(d) }"
    )
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')
    return normalize(read_model(proto, name="quantized"))


@pytest.mark.parametrize(
    ("zero", "dtype", "kept"),
    [(0, "uint8", 0), (1, "uint8", 128), (200, "uint8", 128), (-128, "int8", -128), (7, "int8", 0)],
)
def test_a_zero_point_is_the_least_code_or_the_middle_one(zero, dtype, kept):
    """Frameworks leave out a rectifier before the least code, so zero points are kept so far."""
    model = quantized(zero, dtype)
    every = range(len(model.layers))
    brick = extract(model, every, "brick")
    (found,) = (value for value in brick.constants.values() if value.dtype.kind in "iu")
    assert (int(found), found.dtype) == (kept, np.dtype(dtype))
    assert signature(brick, every) == signature(model, every)
    exact = extract(model, every, "exact", exact=True)
    assert zero in {int(value) for value in exact.constants.values() if value.dtype.kind in "iu"}


def test_zero_points_that_frameworks_treat_alike_make_the_same_brick():
    every = range(3)
    least, one, other = (signature(quantized(zero), every) for zero in (0, 17, 140))
    assert one == other != least

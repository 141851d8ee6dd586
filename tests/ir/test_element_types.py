"""Every element type that ONNX defines, wherever a file may say it, through the whole IR."""

import math

import numpy as np
import onnx
import pytest
from dlbricks_study.repeats import analysis_data
from dlbricks_study.repetition import analyze
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import read_model
from dlbricks_core.ir.onnx_writer import packed, unpacked
from dlbricks_core.ir.tensors import DTYPE_NAMES, TensorSpec, data_bytes, dtype_name, numpy_dtype
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

TYPES = sorted(DTYPE_NAMES.values())
_NUMBERS = {name: number for number, name in DTYPE_NAMES.items()}
_SHAPE = (2, 4)


def _tensor(dtype, *, raw):
    number = _NUMBERS[dtype]
    if dtype == "string":
        return helper.make_tensor("w", number, _SHAPE, ["a"] * math.prod(_SHAPE))
    if raw:
        return numpy_helper.from_array(np.ones(_SHAPE, numpy_dtype(dtype)), "w")
    return helper.make_tensor("w", number, _SHAPE, np.ones(_SHAPE, numpy_dtype(dtype)))


def _model(nodes, inputs, outputs, weights=()):
    values = (
        [helper.make_tensor_value_info(name, number, _SHAPE) for name, number in each.items()]
        for each in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "types", *values, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


def _of_an_input(dtype):
    number = _NUMBERS[dtype]
    return _model([helper.make_node("Identity", ["x"], ["y"])], {"x": number}, {"y": number})


def _between_layers(dtype):
    casts = [helper.make_node("Cast", ["x"], ["t"], to=_NUMBERS[dtype]),
             helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT)]  # fmt: skip
    return _model(casts, {"x": TensorProto.FLOAT}, {"y": TensorProto.FLOAT})


def _of_a_weight(dtype, *, raw):
    return _model(
        [helper.make_node("Identity", ["w"], ["y"])], {}, {"y": _NUMBERS[dtype]},
        [_tensor(dtype, raw=raw)],
    )  # fmt: skip


def _of_an_attribute(dtype):
    constant = helper.make_node("Constant", [], ["c"], value=_tensor(dtype, raw=True))
    return _model([constant, helper.make_node("Identity", ["c"], ["y"])], {},
                  {"y": _NUMBERS[dtype]})  # fmt: skip


PLACES = {
    "input": _of_an_input,
    "between": _between_layers,
    "raw weight": lambda dtype: _of_a_weight(dtype, raw=True),
    "weight in numbers": lambda dtype: _of_a_weight(dtype, raw=False),
    "attribute": _of_an_attribute,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_type_is_read_analyzed_and_written(dtype, place):
    model = normalize(read_model(PLACES[place](dtype), name="types"))
    analysis_data(analyze([model]))
    bricks = BrickSet.of([model], 1, "chain")
    assert bricks.models
    assert unpacked(packed(model), name=model.name).tensors == model.tensors
    if dtype != "string":
        materialize(model)


def test_onnx_has_no_other_type():
    numbers = set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
    assert numbers == DTYPE_NAMES.keys()


@pytest.mark.parametrize("dtype", sorted(set(TYPES) - {"string"}))
def test_a_type_has_one_name_and_the_bytes_that_onnx_writes(dtype):
    assert dtype_name(numpy_dtype(dtype)) == dtype
    for elements in (1, 3, 5, 8):
        tensor = numpy_helper.from_array(np.zeros(elements, numpy_dtype(dtype)))
        assert len(tensor.raw_data) == data_bytes(dtype, elements)


def test_an_input_without_a_type_is_written_without_one():
    proto = _of_an_input("float32")
    proto.graph.input[0].ClearField("type")
    model = normalize(read_model(proto, name="untyped"))
    again = onnx.ModelProto.FromString(packed(model))
    assert not again.graph.input[0].HasField("type")
    assert unpacked(packed(model), name="untyped").inputs == ("x",)


@pytest.mark.parametrize(
    ("dtype", "nbytes"),
    [("int4", 4), ("uint4", 4), ("float4e2m1", 4), ("uint2", 2), ("float6e2m3", 6), ("int8", 7)],
)
def test_elements_of_few_bits_count_as_in_files(dtype, nbytes):
    assert TensorSpec(dtype, (7,)).nbytes == nbytes

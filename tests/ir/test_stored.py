"""Stored graphs of somebody else are models, or refused in one line."""

import json

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import read_model
from dlbricks_core.ir.onnx_writer import packed, unpacked
from dlbricks_core.passes import normalize


@pytest.fixture(scope="module")
def stored():
    ends = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    weight = numpy_helper.from_array(np.ones(4, "f"), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", *([each] for each in ends), [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return packed(normalize(read_model(model, name="m")))


@pytest.mark.parametrize("table", ["annotations", "layouts", "opaque", "opsets"])
@pytest.mark.parametrize("value", [[], None, 3, "x", {"0": {}}, {"y": []}])
def test_notes_of_another_structure_are_refused(stored, table, value):
    proto = ModelProto.FromString(stored)
    (notes,) = proto.metadata_props
    notes.value = json.dumps({**json.loads(notes.value), table: value})
    with pytest.raises(ModelError, match="the stored graph of m cannot be read"):
        unpacked(proto.SerializeToString(), name="m")


def test_notes_that_are_nested_too_deeply_are_refused(stored):
    proto = ModelProto.FromString(stored)
    proto.metadata_props[0].value = "[" * 100_000
    with pytest.raises(ModelError, match="the stored graph of m cannot be read"):
        unpacked(proto.SerializeToString(), name="m")

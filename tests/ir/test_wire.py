"""Messages of a file are counted before it is parsed."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, GraphProto, ModelProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import lean

EMPTY = {"nodes": 1, "initializers": 5, "inputs": 11, "value infos": 13}


def message(field, inside):
    """A length-delimited field."""
    length, head = len(inside), bytes([field << 3 | 2])
    while length >= 0x80:
        head += bytes([length & 0x7F | 0x80])
        length >>= 7
    return head + bytes([length]) + inside


@pytest.mark.long
@pytest.mark.parametrize("name", EMPTY)
def test_files_of_nothing_but_empty_messages_are_refused(name):
    many = message(EMPTY[name], b"") * 2_100_000
    with pytest.raises(ModelError, match="holds more than"):
        lean.check_messages(b"\x08\x08" + message(7, many))


@pytest.mark.long
def test_nested_messages_are_counted():
    node = message(1, message(5, b"") * 2_100_000)
    with pytest.raises(ModelError, match="holds more than"):
        lean.check_messages(message(7, node))


def test_long_lists_and_large_tensors_are_not_counted(monkeypatch):
    monkeypatch.setattr(lean, "MAX_MESSAGES", 20)
    node = helper.make_node("Trees", ["x"], ["y"], values=[0.5] * 10**6, ids=list(range(10**6)))
    weight = numpy_helper.from_array(np.ones(10**6, np.float32), "w")
    graph = helper.make_graph([node], "g", [], [], [weight])
    lean.check_messages(ModelProto(ir_version=8, graph=graph).SerializeToString())


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_the_count_is_that_of_the_parsed_messages(nodes, attributes, depth):
    graph = GraphProto()
    for _ in range(nodes):
        node = graph.node.add(op_type="A")
        for _ in range(attributes):
            node.attribute.add(type=AttributeProto.INT, i=1)
    for _ in range(depth):
        outer = GraphProto()
        outer.node.add().attribute.add(type=AttributeProto.GRAPH).g.CopyFrom(graph)
        graph = outer
    count = 1 + nodes * (1 + attributes) + 3 * depth
    raw = onnx.ModelProto(graph=graph).SerializeToString()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean, "SMALL_FILE_BYTES", 0)
        patch.setattr(lean, "_TEXT", 0)
        patch.setattr(lean, "MAX_MESSAGES", count)
        lean.check_messages(raw)
        patch.setattr(lean, "MAX_MESSAGES", count - 1)
        with pytest.raises(ModelError):
            lean.check_messages(raw)


@given(st.binary(max_size=200))
def test_counting_ends_for_any_bytes(raw):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean, "SMALL_FILE_BYTES", 0)
        lean.check_messages(raw)

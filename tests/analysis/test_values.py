"""Layers whose time depends on values are found where they matter."""

import numpy as np
import onnx
import pytest

from dlbricks_core.analysis.values import ByValues
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


@pytest.fixture
def by_values():
    """Layers of a model, or of a graph in ONNX's language, whose time depends on values."""

    def of(model):
        proto = onnx.parser.parse_model(HEAD + model) if isinstance(model, str) else model
        return ByValues.of(normalize(read_model(proto, name="m")))

    return of


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("g (float[1,8,64,64] x, float[8,1,1] s) => (float[1,8,64,64] y) { y = PRelu(x, s) }",
         ("PRelu",)),
        ("g (float[1,8,64,64] x) => (float[1,8,64,64] y) { y = LeakyRelu(x) }", ()),
        ("""g (float[9,64] x) => (float[9,4] y, int64[9,4] i) <int64[1] k = {4}>
            { y, i = TopK(x, k) }""", ("TopK",)),
    ],
)  # fmt: skip
def test_operators_that_branch_on_values_are_named(by_values, text, operators):
    assert by_values(text).operators == operators


def test_what_is_a_small_share_of_a_model_is_not_named(by_values):
    text = """g (float[1,{n}] x, float[{n},{n}] w, float[1] s) => (float[1,{n}] y)
        {{ m = MatMul(x, w) y = PRelu(m, s) }}"""
    assert by_values(text.format(n=16)).operators == ("PRelu",)
    assert by_values(text.format(n=1024)).operators == ()


@pytest.fixture
def with_table(by_values):
    """Layers of a model whose weight is a table of rows."""

    def of(rows):
        table = onnx.numpy_helper.from_array(np.zeros((rows, 16), np.float32), "w")
        nodes = [onnx.helper.make_node("Gather", ["w", "i"], ["r"]),
                 onnx.helper.make_node("Add", ["r", "x"], ["y"])]  # fmt: skip
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            nodes, "g",
            [value("i", INT64, [64]), value("x", FLOAT, [64, 16])],
            [value("y", FLOAT, [64, 16])],
            [table],
        )  # fmt: skip
        opsets = [onnx.helper.make_opsetid("", 17)]
        return by_values(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))

    return of


@pytest.mark.parametrize(("rows", "tables"), [(100, 0), (20_000, 1)])
def test_large_tables_are_named_whose_rows_an_input_chooses(with_table, rows, tables):
    found = with_table(rows)
    assert (found.tables, found.table_bytes) == (tables, tables * rows * 64)

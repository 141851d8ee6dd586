"""Tensors without elements: an empty cache, no proposals, a batch of nothing."""

from __future__ import annotations

import onnx
import pytest
from dlbricks_suite.folder import read_suite
from dlbricks_suite.writing import generate

from dlbricks_core.bricks import BrickSet, extract, signature
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.ir import read_model, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.progress import Observer

CACHE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,past,4] cache, float[1,2,4] new, float[4,4] w, int64[past] rows)
    => (float[1,all,4] y, float[1,past,4] z, float[past,4] r)
{ k = Concat<axis=1>(cache, new)  y = MatMul(k, w)
  c = Relu(cache)  z = MatMul(c, w)  r = Gather(w, rows) }"""

NO_ROWS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[5,4] x, float[4,8] w) => (float[0,8] boxes, float[5,8] scores)
<int64[1] zero = {0}>
{ a = Relu(x)  none = Slice(a, zero, zero, zero)  b = MatMul(none, w)  boxes = Relu(b)
  scores = MatMul(a, w) }"""


def normal(text: str, **dims: int):
    return normalize(read_model(onnx.parser.parse_model(text), name="net"), dims=dims)


def test_a_size_of_zero_is_written_as_one():
    model = normal(CACHE, past=0)
    assert str(model.tensors["z"]) == "float32[1x0x4]"
    every = range(len(model.layers))
    assert signature(model, every) != signature(normal(CACHE, past=1), every)


def test_a_declared_zero_means_any_size_unless_zero_is_given():
    proto = onnx.parser.parse_model(NO_ROWS)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    assert read_model(proto, name="net").tensors["x"].shape == (None, 4)
    assert read_model(proto, name="net", zeros=True).tensors["x"].shape == (0, 4)


@pytest.mark.process
@pytest.mark.parametrize(("text", "dims"), [(CACHE, {"past": 0}), (NO_ROWS, {})])
@pytest.mark.parametrize("granularity", [1, 4])
def test_generated_bricks_keep_sizes_of_zero(tmp_path, text, dims, granularity):
    model = normal(text, **dims)
    options = CutOptions(granularity, "chain")
    written = generate([model], options, tmp_path / "bricks", 0, Observer())
    models = [each.brick.model for each in written.bricks]
    assert any(0 in spec.sizes for model in models for spec in model.tensors.values())
    read = read_suite(tmp_path / "bricks")
    tensors, expected = (
        {each.brick.signature: each.brick.model.tensors for each in suite.bricks}
        for suite in (read, written)
    )
    assert tensors == expected


@pytest.mark.parametrize(("text", "dims"), [(CACHE, {"past": 0}), (NO_ROWS, {})])
def test_a_written_brick_is_a_valid_file(text, dims):
    model = normal(text, **dims)
    for identity, brick in BrickSet.of([model]).bricks.items():
        values = {name: brick.model.constants.get(name) for name in brick.model.weights}
        proto = to_onnx(brick.model, values)
        onnx.checker.check_model(proto, full_check=True)
        again = normalize(read_model(proto, name="brick", zeros=True))
        every = range(len(again.layers))
        assert signature(again, every) == identity
        assert extract(again, every, identity).tensors == brick.model.tensors

"""Tensors without elements, as ONNX Runtime executes and runs them."""

import onnx
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.timer import OnnxruntimeTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"optimizations": "all"})

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,past,4] cache, float[5,4] x, float[4,8] w)
    => (float[0,8] boxes, float[5,8] scores, float[1,past,8] z)
<int64[1] zero = {0}>
{ a = Relu(x)  none = Slice(a, zero, zero, zero)  b = MatMul(none, w)  boxes = Relu(b)
  scores = MatMul(a, w)  c = Relu(cache)  z = MatMul(c, w) }"""


@pytest.fixture(scope="module")
def model():
    return normalize(read_model(onnx.parser.parse_model(TEXT), name="net"), dims={"past": 0})


def test_what_is_executed_has_sizes_of_zero(model):
    made = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    assert all(spec.is_static for spec in made.tensors.values())
    assert made.tensors["cache"].sizes == (1, 0, 4)
    assert made.tensors["boxes"].sizes == (0, 8)


def test_its_bricks_run(model):
    timer = OnnxruntimeTimer(SETTINGS)
    made = OnnxruntimeBackend().rewrite(model, SETTINGS, 0)
    bricks = [*BrickSet.of([model], rewritten={0: made}).bricks.values()]
    for brick in (*bricks, *BrickSet.of([model]).bricks.values()):
        loaded = timer.load(materialize(brick.model))
        timer.warm_io(loaded)
        timer.run(loaded)
        for name, value in timer.outputs(loaded).items():
            assert value.shape == brick.model.tensors[name].sizes
        timer.unload(loaded)

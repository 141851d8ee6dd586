"""Graphs that ONNX Runtime makes of models in which roots and logarithms follow sums."""

import numpy as np
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.values import materialize

MODELS = {
    "a divisive normalization": (
        "(float[1,3,64,64] x, float[16,3,5,5] w1, float[16,16,1,1] w2) => (y)"
        "{ c = Conv<pads=[2,2,2,2]>(x, w1) s = Mul(c, c) n = Conv(s, w2) q = Sqrt(n)"
        "  y = Div(c, q) }"
    ),
    "a logarithm": (
        "(float[1,3,32,32] x, float[16,3,3,3] w1) => (y){ e = Exp(x) c = Conv(e, w1) y = Log(c) }"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_an_executed_graph_are_valid(name):
    model, backend = cases.build(MODELS[name]).model, OnnxruntimeBackend()
    settings = BackendSettings(1, {"optimizations": "all"})
    graph = backend.rewrite(model, settings, 0)
    assert any("nchwc" in layer.domain for layer in graph.layers)
    timer = backend.timer(settings)
    for brick in BrickSet.of([model], 128, "segments", {0: graph}).bricks.values():
        loaded = timer.load(materialize(brick.model, 0))
        timer.run(loaded)
        assert all(np.isfinite(each).all() for each in timer.outputs(loaded).values())

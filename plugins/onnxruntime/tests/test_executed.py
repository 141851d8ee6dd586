"""The graph that ONNX Runtime executes, and bricks cut from it."""

import numpy as np
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.buffers import in_place
from dlbricks_onnxruntime.timer import OnnxruntimeTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet, materialize
from dlbricks_core.importers.light import LightModels
from dlbricks_core.passes import normalize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


@pytest.fixture(scope="module", params=["light_squeezenet", "light_resnet50", "light_shufflenet"])
def model(request):
    return normalize(LightModels().load(request.param))


@pytest.fixture(scope="module")
def executed(model):
    return OnnxruntimeBackend().executed(model, SETTINGS, 0)


def test_it_is_smaller_and_complete(model, executed):
    assert executed.executed == "onnxruntime"
    assert len(executed.layers) < len(model.layers)
    assert all(spec.is_static for spec in executed.tensors.values())
    assert executed.inputs == model.inputs
    assert executed.outputs == model.outputs


def test_nothing_is_rewritten_where_that_is_switched_off(model):
    off = BackendSettings(1, {"optimizations": "off"})
    assert len(OnnxruntimeBackend().executed(model, off, 0).layers) == len(model.layers)


def test_every_segment_of_it_runs(model, executed):
    timer = OnnxruntimeTimer(SETTINGS)
    bricks = BrickSet.of([model], 128, "segments", {0: executed}).bricks
    for brick in bricks.values():
        loaded = timer.load(materialize(brick.model))
        for _ in range(2):
            timer.touch(loaded)
            timer.run(loaded)
        assert all(np.isfinite(value).all() for value in timer.outputs(loaded).values())
        timer.unload(loaded)


def test_a_sum_takes_the_place_of_its_input_and_leaves_results_as_they_are():
    model = normalize(LightModels().load("light_resnet50"))
    executed = OnnxruntimeBackend().executed(model, SETTINGS, 0)
    bricks = BrickSet.of([model], 128, "segments", {0: executed}).bricks
    placed = [brick.model for brick in bricks.values() if in_place(brick.model)]
    assert placed
    timer = OnnxruntimeTimer(SETTINGS)
    loaded = timer.load(materialize(placed[0]))
    results = []
    for _ in range(2):
        timer.touch(loaded)
        timer.run(loaded)
        results.append(timer.outputs(loaded))
    for name, value in results[0].items():
        np.testing.assert_array_equal(value, results[1][name])

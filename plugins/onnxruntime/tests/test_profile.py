"""ONNX Runtime's profile of a whole model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.profile import _layers
from dlbricks_testing.laboratory import layers_sum_up_to_a_run
from onnx import helper

from dlbricks_core.backends import BackendSettings
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"optimizations": "all"})
TRIES = 5
"""Other work on the machine disturbs some of them."""


@pytest.fixture(scope="module")
def squeezenet() -> CanonicalModel:
    return normalize(LightModels().load("light_squeezenet"))


@pytest.mark.parametrize("names", ["own", "none", "one for all"])
def test_every_layer_of_the_rewritten_graph_has_a_profile(squeezenet, names):
    model = squeezenet
    if names != "own":
        name = "" if names == "none" else "layer"
        model = replace(model, layers=tuple(replace(each, name=name) for each in model.layers))
    backend = OnnxruntimeBackend()
    timer, rewritten = backend.timer(SETTINGS), backend.rewrite(model, SETTINGS, 0)
    network = materialize(model, 0)
    profile = timer.profile(network, 6)
    assert len(rewritten.layers) < len(model.layers)
    # Each in an order of its own: that in which layers run, and that of the model.
    told = {(each.outputs[0], each.operator) for each in profile.layers}
    assert told == {(each.outputs[0], each.qualified_op) for each in rewritten.layers}
    assert len(profile.layers) == len(rewritten.layers)
    # What is fused or blocked is still known in the model.
    producers = model.producers
    last = [producers[n] for each in profile.layers for n in each.outputs if n in producers]
    known = {model.layers[index].op for index in last}
    assert {"Relu", "MaxPool", "Concat", "Softmax"} <= known
    reorders = sum("Reorder" in each.operator for each in profile.layers)
    assert len(profile.layers) - reorders <= len(set(last)) + 1
    plain = materialize(squeezenet, 0)
    assert any(layers_sum_up_to_a_run(timer, network, plain) for _ in range(TRIES))


def test_the_time_is_where_the_work_is():
    big, small = TensorSpec("float32", (256, 1024)), TensorSpec("float32", (1024, 1024))
    model = CanonicalModel(
        "work",
        (
            Layer("Sigmoid", ("x",), ("a",)),
            Layer("MatMul", ("a", "w"), ("b",)),
            Layer("Relu", ("b",), ("y",)),
        ),
        ("x",),
        ("y",),
        {"x": big, "w": small, "a": big, "b": big, "y": big},
        frozenset({"w"}),
    )
    timer, network = OnnxruntimeBackend().timer(SETTINGS), materialize(model, 0)

    def most_is_the_product():
        taken = {each.outputs[0]: each.ms for each in timer.profile(network, 6).layers}
        assert min(taken.values()) > 0
        return taken["b"] > 3 * max(taken["a"], taken["y"])

    assert any(most_is_the_product() for _ in range(TRIES))


def test_two_disturbed_runs_of_seven_do_not_count():
    spec = TensorSpec("float32", (1, 4))
    layer = Layer("Relu", ("x",), ("y",), name="relu")
    model = CanonicalModel("one", (layer,), ("x",), ("y",), {"x": spec, "y": spec}, frozenset())
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    taken_ms = {"relu": [0.010, 12.0, 0.011, 0.010, 9.0, 0.011, 0.010]}
    (found,) = _layers([node], model, taken_ms, 7)
    assert 0.010 <= found.ms <= 0.011

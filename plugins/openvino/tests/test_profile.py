"""OpenVINO's profile of a whole model, and the graph that it executes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("openvino")

import openvino
from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_openvino.executed import with_merged
from dlbricks_openvino.profile import Counters
from dlbricks_testing import cases
from dlbricks_testing.laboratory import layers_sum_up_to_a_run
from dlbricks_testing.operators import DEFINED

from dlbricks_core.backends import BackendSettings
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"precision": "model"})
TRIES = 5
"""Other work on the machine disturbs some of them."""


@pytest.fixture(scope="module")
def timer():
    return OpenvinoBackend().timer(SETTINGS)


@pytest.fixture(scope="module")
def shufflenet() -> CanonicalModel:
    return normalize(LightModels().load("light_shufflenet"))


def test_every_layer_has_a_part_in_the_profile(timer, shufflenet):
    network = materialize(shufflenet, 0)
    profile = timer.profile(network, 2)
    told = [name for each in profile.layers for name in each.outputs]
    assert sorted(told) == sorted(n for each in shufflenet.layers for n in each.outputs)
    # OpenVINO merges a convolution with the normalization and the activation behind it.
    (first,) = (each for each in profile.layers if "r0" in each.outputs)
    assert first.operator == "Convolution"
    assert first.outputs == ("r2", "r1", "r0")
    unnamed = [each for each in profile.layers if not each.outputs]
    assert {each.operator for each in unnamed} <= {"Reorder"}
    assert any(layers_sum_up_to_a_run(timer, network, network) for _ in range(TRIES))


def test_the_time_is_where_the_work_is(timer):
    big, small = TensorSpec("float32", (256, 1024)), TensorSpec("float32", (1024, 1024))
    model = CanonicalModel(
        "work",
        (
            Layer("Sigmoid", ("x",), ("a",)),
            Layer("MatMul", ("a", "w"), ("b",)),
            Layer("Tanh", ("b",), ("y",)),
        ),
        ("x",),
        ("y",),
        {"x": big, "w": small, "a": big, "b": big, "y": big},
        frozenset({"w"}),
    )
    profile = timer.profile(materialize(model, 0), 4)
    product = sum(each.ms for each in profile.layers if "b" in each.outputs)
    assert product > 0.5 * profile.sum_ms


def test_a_layer_that_runs_as_its_definition_has_the_time_of_all_parts(timer):
    profile = timer.profile(cases.build(DEFINED["GroupQueryAttention of a token"]), 2)
    told = {name for each in profile.layers for name in each.outputs}
    assert told >= {"y", "a", "b"}


class Counted:
    """A compiled model whose one node takes a given time in each run."""

    def __init__(self, us):
        self.us = us
        self.done = 0

    def __call__(self):
        self.done += 1

    def get_runtime_model(self):
        taken = self.us[: self.done]
        mean = str(int(np.mean(taken))) if taken else "not_executed"
        node = openvino.opset13.parameter([1], np.float32, name="node")
        node.get_rt_info()["execTimeMcs"] = mean
        node.get_rt_info()["originalLayersNames"] = "dlbricks:0.7"
        return openvino.Model([openvino.opset13.result(node)], [node])


def test_a_disturbed_run_does_not_count(monkeypatch):
    ready = Counted([900, 100, 100, 5000, 100, 100])
    ready()
    counters = Counters(ready, runs=1)
    clock = iter([0.0, 0.1, 1.0, 1.1, 2.0, 7.0, 8.0, 8.1, 9.0, 9.1])
    monkeypatch.setattr("dlbricks_openvino.profile.perf_counter", lambda: next(clock))
    for _ in range(5):
        counters.timed(ready)
    profile = counters.profile(cases.network("relu").model)
    (layer,) = profile.layers
    assert layer.outputs == cases.network("relu").model.outputs
    assert layer.ms == pytest.approx(0.1, abs=0.004)
    assert profile.run_ms == pytest.approx(100)


def test_what_was_merged_belongs_to_the_layer_behind_it():
    names = ("x", "a", "b", "c", "y")
    spec = TensorSpec("float32", (1, 4))
    layers = tuple(Layer("Relu", (x,), (y,)) for x, y in pairwise(names))
    model = CanonicalModel("m", layers, ("x",), ("y",), dict.fromkeys(names, spec), frozenset())
    assert with_merged({"p": (2,), "q": (3,)}, model) == {"p": (2, 1, 0), "q": (3,)}
    assert with_merged({"p": (0,)}, model) == {"p": (0,)}


def test_feature_maps_have_the_layout_in_which_openvino_keeps_them(shufflenet):
    model = OpenvinoBackend().rewrite(shufflenet, SETTINGS, 0)
    layouts = {model.tensors[name].layout for layer in model.layers for name in layer.outputs}
    assert layouts - {""}
    assert {model.tensors[name].layout for name in (*model.inputs, *model.outputs)} == {""}


def test_a_model_that_openvino_widens_is_cut_in_single_precision(monkeypatch, shufflenet):
    short = convert(shufflenet, "bfloat16")
    monkeypatch.setattr("dlbricks_openvino.rewrite.computed", frozenset)
    widened = OpenvinoBackend().rewrite(short, SETTINGS, 0)
    assert {each.dtype for each in widened.tensors.values()} & {"bfloat16", "float32"} == {
        "float32"
    }
    assert (widened.inputs, widened.outputs) == (short.inputs, short.outputs)
    monkeypatch.setattr("dlbricks_openvino.rewrite.computed", lambda: frozenset({"bfloat16"}))
    kept = OpenvinoBackend().rewrite(short, SETTINGS, 0)
    assert "bfloat16" in {each.dtype for each in kept.tensors.values()}

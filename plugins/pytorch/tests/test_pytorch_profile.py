"""Torch's layers, timed while all of them run."""

from __future__ import annotations

import pytest
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.timer import PytorchTimer
from dlbricks_testing.laboratory import layers_sum_up_to_a_run

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize


@pytest.fixture(params=["contiguous", "channels_last"])
def timer(request):
    opened = PytorchBackend().timer(BackendSettings(1, {"memory_format": request.param}))
    yield opened
    opened.close()


def test_every_layer_has_a_profile_and_their_sum_is_a_run(timer):
    model = normalize(LightModels().load("light_squeezenet"))
    network = materialize(model, 0)
    profile = timer.profile(network, 6)
    assert [each.outputs for each in profile.layers] == [each.outputs for each in model.layers]
    assert all(each.ms > 0 for each in profile.layers)
    assert layers_sum_up_to_a_run(timer, network)


def test_the_time_is_where_the_work_is(timer):
    big, small = TensorSpec("float32", (256, 1024)), TensorSpec("float32", (1024, 1024))
    layers = (
        Layer("Sigmoid", ("x",), ("a",)),
        Layer("Identity", ("a",), ("same",)),  # no call of torch's
        Layer("MatMul", ("same", "w"), ("b",)),
        Layer("Relu", ("b",), ("y",)),
        Layer("Tanh", ("a",), ("z",)),  # a is read again, late
    )
    specs = {"w": small, **dict.fromkeys(("x", "a", "same", "b", "y", "z"), big)}
    model = CanonicalModel("work", layers, ("x",), ("y", "b", "z"), specs, frozenset({"w"}))
    profile = timer.profile(materialize(model, 0), 6)
    taken = {each.outputs[0]: each.ms for each in profile.layers}
    assert taken["b"] > 3 * max(taken["a"], taken["y"])
    assert all(taken[name] > 0 for name in ("a", "b", "y", "z"))


def test_what_is_compiled_has_no_layers_left():
    timer = PytorchTimer(BackendSettings(1, {"compile": "default"}))
    model = normalize(LightModels().load("light_squeezenet"))
    try:
        with pytest.raises(UnsupportedError, match="compile"):
            timer.profile(materialize(model, 0), 2)
    finally:
        timer.close()

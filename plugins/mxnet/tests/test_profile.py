"""MXNet's profile of a whole model."""

from __future__ import annotations

import os

import pytest
from dlbricks_mxnet.backend import MxnetBackend

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.testing.profile import layers_sum_up_to_a_run
from dlbricks_core.values import materialize


def timer(**options):
    return MxnetBackend().timer(BackendSettings(1, options))


def test_every_layer_has_a_profile_and_their_sum_is_a_run():
    model = normalize(LightModels().load("light_squeezenet"))
    network = materialize(model, 0)
    profile = timer().profile(network, 6)
    before = dict(os.environ)  # what MXNet imports may have set variables of its own
    assert [each.outputs for each in profile.layers] == [each.outputs for each in model.layers]
    assert all(each.ms > 0 for each in profile.layers)
    assert layers_sum_up_to_a_run(timer(), network)
    assert dict(os.environ) == before


def test_the_time_is_where_the_work_is_each_time_anew():
    big, small = TensorSpec("float32", (256, 1024)), TensorSpec("float32", (1024, 1024))
    layers = (
        Layer("Sigmoid", ("x",), ("a",)),
        Layer("MatMul", ("a", "w"), ("b",)),
        Layer("Relu", ("b",), ("y",)),
    )
    specs = {"w": small, **dict.fromkeys(("x", "a", "b", "y"), big)}
    model = CanonicalModel("work", layers, ("x",), ("y",), specs, frozenset({"w"}))
    for runs in (4, 7):
        profile = timer().profile(materialize(model, 0), runs)
        taken = {each.outputs[0]: each.ms for each in profile.layers}
        assert taken["b"] > 3 * max(taken["a"], taken["y"])
        assert min(taken.values()) > 0


@pytest.mark.parametrize("option", [{"executor": "symbol"}, {"engine": "threaded"}])
def test_what_cannot_be_told_apart_is_refused(option):
    model = normalize(LightModels().load("light_squeezenet"))
    with pytest.raises(UnsupportedError):
        timer(**option).profile(materialize(model, 0), 2)

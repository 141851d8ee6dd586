"""Whole networks with random weights, against ONNX Runtime."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import onnxruntime
import pytest
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.lowering import lower, unsupported
from dlbricks_mxnet.timer import MxnetTimer
from dlbricks_mxnet.zoo import GluonZoo

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks.materialize import materialize
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import to_onnx
from dlbricks_core.passes import normalize

mx = import_mxnet()

# Large only in weights, and built of the same operators as the others.
LARGE = {"light_vgg19", "light_zfnet512"}


def _check(model, *executors):
    assert unsupported(model) == {}
    network = materialize(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        to_onnx(model, network.weights).SerializeToString(), options,
        providers=["CPUExecutionProvider"],
    )  # fmt: skip
    expected = session.run(list(model.outputs), dict(network.inputs))
    for executor in executors:
        timer = MxnetTimer(BackendSettings(options={"executor": executor}))
        loaded = timer.load(network)
        timer.run(loaded)
        results = timer.outputs(loaded)
        timer.unload(loaded)
        for name, wanted in zip(model.outputs, expected, strict=True):
            assert np.std(wanted) > 0, "a constant output compares nothing"
            error = np.abs(results[name] - wanted).max() / np.abs(wanted).max()
            assert error < 1e-4, (executor, name, error)


@pytest.mark.parametrize("name", sorted(set(LightModels().names()) - LARGE))
def test_light_network_computes_what_onnx_runtime_does(name):
    _check(normalize(LightModels().load(name)), "cachedop", "symbol")


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_light_network_computes_what_onnx_runtime_does(name):
    _check(normalize(LightModels().load(name)), "symbol")


@pytest.mark.parametrize("name", ["mobilenetv2_0.25", "resnet18_v2", "squeezenet1.1"])
def test_gluon_network_computes_what_onnx_runtime_does(name):
    _check(normalize(GluonZoo().load(name)), "cachedop", "symbol")


@pytest.mark.parametrize("name", GluonZoo().names())
def test_every_gluon_network_is_supported(name):
    assert unsupported(normalize(GluonZoo().load(name))) == {}


def _operators(symbol):
    # ONNX has a layer for the flattening that a dense layer of Gluon does itself.
    skipped = ("null", "Dropout", "Flatten")
    nodes = json.loads(symbol.tojson())["nodes"]
    return Counter(node["op"] for node in nodes if node["op"] not in skipped)


@pytest.mark.parametrize("name", ["resnet50_v1", "densenet121", "mobilenetv2_1.0", "vgg11_bn"])
def test_gluon_network_comes_back_as_the_operators_that_gluon_uses(name):
    native = mx.gluon.model_zoo.vision.get_model(name)(mx.sym.var("data"))
    lowered = lower(materialize(normalize(GluonZoo().load(name)))).symbol
    assert _operators(lowered) == _operators(native)

"""Whole networks with random weights, against ONNX Runtime.

The Gluon zoo's are compared with Gluon itself, in test_backend.py.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from dlbricks_mxnet.lowering import unsupported
from dlbricks_mxnet.timer import MxnetTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks.materialize import materialize
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import to_onnx
from dlbricks_core.passes import normalize

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
def test_large_light_network_is_supported(name):
    assert unsupported(normalize(LightModels().load(name))) == {}

"""Whole networks with random weights, against ONNX Runtime.

The Gluon zoo's are compared with Gluon itself, in test_backend.py.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from dlbricks_mxnet.check import unsupported
from dlbricks_mxnet.timer import MxnetTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import read_model, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

# Large only in weights, and built of the same operators as the others.
LARGE = {"light_bvlc_alexnet", "light_vgg19", "light_zfnet512"}


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


_WEIGHTS = np.random.default_rng(0)


def _after_a_convolution(axes, *layers):
    """A network whose layers read what a convolution over so many axes left in blocks."""
    image, weight = (1, 3, *[6] * axes), (16, 3, *[3] * axes)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["t"]), *layers],
        "blocks",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, image)],
        [onnx.helper.make_empty_tensor_value_info("y")],
        [
            onnx.numpy_helper.from_array(_WEIGHTS.standard_normal(weight, np.float32), "w"),
            onnx.numpy_helper.from_array(np.array([1, 16, 64]), "shape"),
        ],
    )
    return normalize(read_model(onnx.helper.make_model(graph), name="blocks"))


@pytest.mark.parametrize(
    "network",
    [
        _after_a_convolution(2, onnx.helper.make_node("Softmax", ["t"], ["y"])),
        _after_a_convolution(2, onnx.helper.make_node("LogSoftmax", ["t"], ["y"])),
        _after_a_convolution(
            3,
            onnx.helper.make_node("Relu", ["t"], ["r"]),
            onnx.helper.make_node("Reshape", ["r", "shape"], ["s"]),
            onnx.helper.make_node("Transpose", ["s"], ["y"], perm=[0, 2, 1]),
        ),
        _after_a_convolution(
            3,
            onnx.helper.make_node("Flatten", ["t"], ["f"]),
            onnx.helper.make_node("Softmax", ["f"], ["y"]),
        ),
    ],
    ids=["softmax", "log softmax", "reshaped volumes", "flattened volumes"],
)
def test_what_does_not_know_blocks_of_channels_gets_plain_order(network):
    _check(network, "cachedop", "symbol")


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_light_network_is_supported(name):
    assert unsupported(normalize(LightModels().load(name))) == {}

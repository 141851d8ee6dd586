"""Whole networks on torch and on ONNX Runtime, with weights that leave the results varied."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from dlbricks_pytorch.backend import PytorchBackend

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.ir import CanonicalModel, read_model, to_onnx
from dlbricks_core.passes import normalize

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))
#: Large in weights alone: the same operators as in others.
LARGE = {"light_bvlc_alexnet", "light_vgg19", "light_zfnet512"}


def without_last_softmax(model: CanonicalModel) -> CanonicalModel:
    """Its result is nearly one-hot for random weights, which would hide every difference."""
    last = model.layers[-1]
    if last.op != "Softmax":
        return model
    return replace(model, layers=model.layers[:-1], outputs=(last.inputs[0],))


def he_weights(model: CanonicalModel) -> dict[str, np.ndarray]:
    """Weights that keep activations near unit scale; known integers stay."""
    rng = np.random.default_rng(0)
    values = {}
    for name in sorted(model.weights):
        spec = model.tensors[name]
        layer = model.layers[model.consumers[name][0]] if name in model.consumers else None
        if not spec.dtype.startswith("float") or layer is None:
            values[name] = model.constants[name]
            continue
        position = layer.inputs.index(name)
        if layer.op == "BatchNormalization":
            low, high = {1: (0.4, 0.8), 4: (0.8, 1.2)}.get(position, (-0.1, 0.1))
            value = rng.uniform(low, high, spec.sizes)
        elif spec.rank > 1:
            fan_in = spec.sizes[1] if layer.op == "Gemm" else math.prod(spec.sizes[1:])
            value = rng.standard_normal(spec.sizes, np.float32) * np.float32(math.sqrt(2 / fan_in))
        else:
            value = rng.uniform(-0.1, 0.1, spec.sizes)
        values[name] = value.astype(np.float32, copy=False)
    return values


@pytest.fixture(scope="module")
def timer():
    timer = PytorchBackend().timer(BackendSettings(threads=1))
    yield timer
    timer.close()


def test_all_nine_networks_are_there():
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_network_is_supported(name):
    proto = onnx.load(FOLDER / f"{name}.onnx")
    assert PytorchBackend().check(normalize(read_model(proto, name=name))) == {}


@pytest.mark.parametrize("name", sorted({*NAMES} - LARGE))
def test_network_agrees_with_onnxruntime(name, timer):
    ort = pytest.importorskip("onnxruntime")
    proto = onnx.load(FOLDER / f"{name}.onnx")
    model = without_last_softmax(normalize(read_model(proto, name=name)))
    assert PytorchBackend().check(model) == {}
    weights = he_weights(model)
    rng = np.random.default_rng(1)
    inputs = {
        n: rng.standard_normal(model.tensors[n].sizes).astype(np.float32) for n in model.inputs
    }
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(to_onnx(model, weights).SerializeToString(), options)
    loaded = timer.load(Network(model, weights, inputs))
    timer.run(loaded)
    results = timer.outputs(loaded)
    timer.unload(loaded)
    for output, expected in zip(model.outputs, session.run(None, inputs), strict=True):
        spread = expected.std()
        assert spread > 1e-3, "the comparison shows nothing"
        np.testing.assert_allclose(results[output], expected, rtol=1e-3, atol=1e-3 * spread)


def test_channels_last_agrees_on_a_whole_network(timer):
    proto = onnx.load(FOLDER / "light_densenet121.onnx")
    model = without_last_softmax(normalize(read_model(proto, name="densenet")))
    rng = np.random.default_rng(1)
    inputs = {
        n: rng.standard_normal(model.tensors[n].sizes).astype(np.float32) for n in model.inputs
    }
    network = Network(model, he_weights(model), inputs)
    results = []
    for backend in (timer, PytorchBackend().timer(
        BackendSettings(threads=1, options={"memory_format": "channels_last"})
    )):  # fmt: skip
        loaded = backend.load(network)
        backend.run(loaded)
        results.append(backend.outputs(loaded))
    backend.close()
    plain, last = (result[model.outputs[0]] for result in results)
    np.testing.assert_allclose(plain, last, rtol=1e-3, atol=1e-3 * plain.std())

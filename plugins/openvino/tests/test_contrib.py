"""ONNX Runtime's own operators on OpenVINO: as they are defined, or unsupported by name."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino")

from dlbricks_contrib.expand import expanded
from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_testing.cases import build, difference, evaluate
from dlbricks_testing.operators import DEFINED, UNDEFINED

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError

ROUNDED = 1e-2
"""Largest error where activations are rounded to eight bits, by design."""


def same(found, right, name):
    if found.dtype == np.uint8:  # A mean in the middle of two codes is rounded to either.
        return np.abs(found.astype(int) - right.astype(int)).max() <= 1
    return not difference(found, right, ROUNDED if "MatMulNBits" in name else 1e-3)


@pytest.fixture(scope="module")
def timer():
    return OpenvinoBackend().timer(BackendSettings(1, {"precision": "model"}))


@pytest.mark.parametrize("name", DEFINED)
def test_a_layer_is_computed_as_it_is_defined(timer, name):
    network = build(DEFINED[name])
    assert OpenvinoBackend().check(network.model) == {}
    loaded = timer.load(network)
    timer.run(loaded)
    found = timer.outputs(loaded)
    right = evaluate(expanded(network.model, known=()).network(network))
    for output in network.model.outputs:
        assert same(found[output], right[output], name)


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_layer_without_a_definition_is_unsupported_by_name(name):
    model = build(UNDEFINED[name]).model
    own = {i for i, layer in enumerate(model.layers) if layer.domain}
    reasons = OpenvinoBackend().check(model)
    assert reasons.keys() == own
    for index, reason in reasons.items():
        assert reason.startswith(f"com.microsoft.{model.layers[index].op}: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "(float[2,64] x, uint8[24,2,4] w1, float[24,2] w2) => (y)"
            "{ y = com.microsoft.MatMulNBits<K=64, N=24, bits=1, block_size=32>(x, w1, w2) }",
            "codes of 4 and 8 bits",
        ),
        (
            "(float[2,64] x, uint8[24,2,16] c, float[24,2] w2) => (y)"
            "{ y = com.microsoft.MatMulNBits<K=64, N=24, bits=4, block_size=32>(x, c, w2) }",
            "constant codes",
        ),
    ],
)
def test_other_codes_are_refused_with_the_reason(timer, text, reason):
    network = build(text)
    (found,) = OpenvinoBackend().check(network.model).values()
    assert reason in found
    with pytest.raises(UnsupportedError, match=reason):
        timer.load(network)

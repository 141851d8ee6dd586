"""ONNX Runtime's own operators on MXNet: as they are defined, or unsupported by name."""

import numpy as np
import pytest
from dlbricks_contrib.expand import expanded
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_testing.cases import build, evaluate
from dlbricks_testing.operators import DEFINED, UNDEFINED

from dlbricks_core.backends import BackendSettings

#: Layers whose definition needs what MXNet lacks, with that.
LACKING = {
    "DynamicQuantizeMatMul": "MatMulInteger",
    "MatMulIntegerToFloat": "MatMulInteger",
    "MatMulNBits": "BitShift",
    "MatMulNBits with zero points": "BitShift",
    "QAttention": "MatMulInteger",
    "QAttention with a mask": "MatMulInteger",
}


@pytest.fixture(scope="module")
def timer():
    made = MxnetBackend().timer(BackendSettings(threads=1, options={}))
    yield made
    made.close()


@pytest.mark.parametrize("name", [name for name in DEFINED if name not in LACKING])
def test_a_layer_is_computed_as_it_is_defined(timer, name):
    network = build(DEFINED[name])
    assert MxnetBackend().check(network.model) == {}
    loaded = timer.load(network)
    timer.run(loaded)
    right = evaluate(expanded(network.model, known=()).network(network))
    for tensor, value in timer.outputs(loaded).items():
        np.testing.assert_allclose(
            value.astype(np.float64), right[tensor].astype(np.float64), rtol=1e-3, atol=1e-3
        )
    timer.unload(loaded)


@pytest.mark.parametrize("name", LACKING)
def test_a_layer_whose_definition_mxnet_lacks_is_unsupported_by_name(name):
    model = build(DEFINED[name]).model
    operator = f"com.microsoft.{name.partition(' ')[0]}"
    assert list(MxnetBackend().check(model).values()) == [
        f"{operator}: {LACKING[name]}: MXNet has no counterpart of the operator"
    ]


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_layer_without_a_definition_is_unsupported_by_name(name):
    model = build(UNDEFINED[name]).model
    own = {i for i, layer in enumerate(model.layers) if layer.domain}
    reasons = MxnetBackend().check(model)
    assert reasons.keys() == own
    assert all("MXNet has no counterpart of the operator" in why for why in reasons.values())

"""What MXNet computes from the mask of an attention: as little as layers could share."""

import numpy as np
import pytest
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.lowering import lower
from onnx.reference import ReferenceEvaluator

from dlbricks_core.backends import BackendSettings
from dlbricks_core.ir import CanonicalModel, Layer, Network, TensorSpec, to_onnx
from dlbricks_core.values import materialize


def attention(weights):
    """Attention of two heads, four steps, with a boolean mask."""
    operand = TensorSpec("float32", (1, 2, 4, 8))
    tensors = {**dict.fromkeys("qkvy", operand), "m": TensorSpec("bool", (1, 1, 4, 4))}
    attributes = {"is_causal": 0, "scale": 0.25, "softcap": 0.0, "qk_matmul_output_mode": 0}
    layer = Layer("Attention", ("q", "k", "v", "m"), ("y",), attributes)
    inputs = tuple(name for name in "qkvm" if name not in weights)
    return CanonicalModel("attention", (layer,), inputs, ("y",), tensors, frozenset(weights),
                          opsets={"": 23})  # fmt: skip


@pytest.fixture(scope="module")
def timer():
    made = MxnetBackend().timer(BackendSettings(threads=1, options={}))
    yield made
    made.close()


@pytest.mark.parametrize("weights", [(), ("m",)])
def test_masks_are_right(timer, weights):
    network = materialize(attention(weights))
    mask = np.tril(np.ones((1, 1, 4, 4), bool))
    mask[0, 0, 2] = False  # a query that may look at nothing
    given = {**network.weights, **network.inputs, "m": mask}
    network = Network(
        network.model,
        {name: given[name] for name in network.weights},
        {name: given[name] for name in network.inputs},
    )
    loaded = timer.load(network)
    timer.run(loaded)
    timer.synchronize(loaded)
    (found,) = timer.outputs(loaded).values()
    timer.unload(loaded)
    proto = to_onnx(network.model, network.weights)
    (wanted,) = ReferenceEvaluator(proto).run(None, dict(network.inputs))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert (found[0, :, 2] == 0).all()


def test_a_mask_is_made_ready_when_a_network_is_loaded():
    lowered = lower(materialize(attention(("m",))))
    arguments = lowered.symbol.list_inputs()
    assert [name for name in arguments if name.startswith("m")] == ["m:added"]
    assert lowered.arrays["m:added"].shape == (1, 1, 4, 4)
    readers = [node for node in lowered.symbol.get_internals().list_outputs() if "log" in node]
    assert not readers

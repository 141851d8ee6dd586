"""ONNX Runtime's own operators on PyTorch: as they are defined, or unsupported by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dlbricks_contrib.expand import expanded
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.lowering import lower
from dlbricks_pytorch.profile import profile
from dlbricks_pytorch.tensors import from_numpy
from dlbricks_testing.cases import build, evaluate
from dlbricks_testing.operators import DEFINED, UNDEFINED

from dlbricks_core.backends import BackendSettings


@pytest.mark.parametrize("name", DEFINED)
def test_a_layer_is_computed_as_it_is_defined(name):
    network = build(DEFINED[name])
    model = network.model
    assert PytorchBackend().check(model) == {}
    with torch.inference_mode():
        results = lower(network)(*(from_numpy(network.inputs[n]) for n in model.inputs))
    right = evaluate(expanded(model, known=()).network(network))
    for tensor, result in zip(model.outputs, results, strict=True):
        value = result.numpy()
        assert (value.dtype.name, value.shape) == (
            model.tensors[tensor].dtype, model.tensors[tensor].sizes,
        )  # fmt: skip
        np.testing.assert_allclose(
            value.astype(np.float64), right[tensor].astype(np.float64), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_layer_without_a_definition_is_unsupported_by_name(name):
    model = build(UNDEFINED[name]).model
    own = {i for i, layer in enumerate(model.layers) if layer.domain}
    reasons = PytorchBackend().check(model)
    assert reasons.keys() == own
    for index, reason in reasons.items():
        assert reason.startswith(f"com.microsoft.{model.layers[index].op}: ")


def test_what_a_definition_does_not_cover_is_unsupported_with_the_reason():
    text = DEFINED["GroupQueryAttention of a token"].replace("softcap=5.0", "smooth_softmax=1")
    (reason,) = PytorchBackend().check(build(text).model).values()
    assert reason == (
        "com.microsoft.GroupQueryAttention: attention with a smooth softmax or without order has "
        "no definition"
    )


def test_a_profile_gives_the_time_of_all_parts_to_the_layer():
    network = build(DEFINED["GroupQueryAttention of a token"])
    (layer,) = profile(network, BackendSettings(1, {}), runs=2).layers
    assert layer.operator == "com.microsoft.GroupQueryAttention"
    assert layer.ms > 0

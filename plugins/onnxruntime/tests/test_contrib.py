"""ONNX Runtime's own operators: their definitions in the core against ONNX Runtime itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from dlbricks_contrib.expand import DEFINITIONS, expanded
from dlbricks_contrib.operators import OPERATORS
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from dlbricks_testing.cases import build
from dlbricks_testing.operators import DEFINED, UNDEFINED
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from dlbricks_core.backends import BackendSettings

SCHEMAS = {(each.domain, each.name): each for each in get_all_operator_schema()}


@pytest.fixture(scope="module")
def timer():
    return OnnxruntimeTimer(BackendSettings(1, {"optimizations": "off"}))


def outputs(timer, network):
    loaded = timer.load(network)
    timer.run(loaded)
    found = {name: np.array(value) for name, value in timer.outputs(loaded).items()}
    timer.unload(loaded)
    return found


def with_codes(network):
    """The network, its quantized inputs spread over all codes."""
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.integers(0, 256, value.shape, np.uint8) if value.dtype == np.uint8 else value
        for name, value in network.inputs.items()
    }
    return replace(network, inputs=inputs)


def formals(params):
    return [(each.name, str(each.option).rpartition(".")[2]) for each in params]


def kind(attribute):
    return str(attribute.type).rpartition(".")[2], attribute.required


def default(serialized):
    return (
        onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(serialized))
        if serialized
        else None
    )


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda key: ".".join(filter(None, key)))
def test_schemas_are_those_of_the_installed_version(operator):
    own, known = OPERATORS[operator].schema, SCHEMAS[operator]
    assert formals(own.inputs) == formals(known.inputs)
    assert formals(own.outputs) == formals(known.outputs)
    assert {n: kind(a) for n, a in own.attributes.items()} == {
        n: kind(a) for n, a in known.attributes.items()
    }
    given = {
        name: default(each.default_value.SerializeToString())
        for name, each in own.attributes.items()
    }
    assert given == {n: default(a._default_value) for n, a in known.attributes.items()}


@pytest.mark.parametrize("name", [*DEFINED, *UNDEFINED])
def test_layers_run_and_their_results_have_the_inferred_shapes(timer, name):
    network = build({**DEFINED, **UNDEFINED}[name])
    model = network.model
    assert not any(layer.opaque for layer in model.layers)
    assert OnnxruntimeBackend().check(model) == {}
    for tensor, value in outputs(timer, network).items():
        spec = model.tensors[tensor]
        assert (spec.dtype, spec.sizes) == (value.dtype.name, value.shape)
        assert np.isfinite(value.astype(np.float64)).all()


@pytest.mark.parametrize("name", DEFINED)
def test_a_definition_computes_what_onnxruntime_does(timer, name):
    network = with_codes(build(DEFINED[name], seed=1))
    whole = expanded(network.model, known=())
    assert whole.refused == {}
    assert {layer.domain for layer in whole.model.layers} == {""}
    right = outputs(timer, network)
    quantized = name.startswith("QLinear")
    for tensor, value in outputs(timer, whole.network(network)).items():
        np.testing.assert_allclose(
            value.astype(np.float64), right[tensor], rtol=1e-3, atol=1 if quantized else 1e-3
        )
        counts = value.dtype.kind == "i"
        assert counts or np.ptp(right[tensor].astype(np.float64)) > 0  # not all the same


def test_every_definition_is_tried():
    tried = {
        (layer.domain, layer.op) for text in DEFINED.values() for layer in build(text).model.layers
    }
    assert tried >= DEFINITIONS.keys()


def test_a_cache_with_several_sequences_and_several_steps_is_refused_by_name():
    text = DEFINED["GroupQueryAttention of a token"].replace("[2,1,", "[2,3,").replace("{7}", "{9}")
    (reason,) = OnnxruntimeBackend().check(build(text).model).values()
    assert reason.startswith("com.microsoft.GroupQueryAttention: ONNX Runtime takes one sequence")


def test_heads_that_onnxruntime_cannot_rotate_are_refused_by_name():
    text = DEFINED["GroupQueryAttention of a prompt"]
    text = text.replace("64]", "32]").replace("32] k", "16] k").replace("32] v", "16] v")
    (reason,) = OnnxruntimeBackend().check(build(text.replace("[20,8]", "[20,4]")).model).values()
    assert reason.endswith("ONNX Runtime rotates heads of a multiple of 16 elements, not of 8")

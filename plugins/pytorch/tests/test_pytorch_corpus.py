"""Well-known PyTorch networks: imported, and computed alike by every framework at hand."""

from __future__ import annotations

from collections import Counter
from importlib import metadata

import numpy as np
import pytest
import torch
import torch_networks as networks
from dlbricks_compare.verification import VerifyOptions, verify
from dlbricks_pytorch.export import to_program, trace

from dlbricks_core.bricks import BrickSet
from dlbricks_core.ir import read_model
from dlbricks_core.measure.request import Request
from dlbricks_core.passes import normalize

FRAMEWORKS = {"pytorch": "torch", "onnxruntime": "onnxruntime", "mxnet": "mxnet"}

#: Operators that each network must keep, and how many.
KEPT = {
    "resnet50": {"BatchNormalization": 53, "GlobalAveragePool": 1},
    "vit": {"LayerNormalization": 7, "Attention": 3, "Gelu": 3},
    "swin": {"LayerNormalization": 10, "Softmax": 4, "Gelu": 4},
    "bert": {"LayerNormalization": 5, "Attention": 2, "Gelu": 2},
    "gpt2_decode": {"LayerNormalization": 5, "Attention": 2, "Concat": 4, "Split": 2},
    "llama": {"RMSNormalization": 5, "Attention": 2, "Swish": 2},
    "whisper_encoder": {"Conv": 2, "LayerNormalization": 5, "Attention": 2, "Gelu": 4},
    "unet": {"GroupNormalization": 11, "ConvTranspose": 1, "Resize": 1, "Attention": 1},
    "lstm": {"LSTM": 2},
    # Of its six attentions, one reads nothing but weights, and folding makes it a weight.
    "detr": {"BatchNormalization": 3, "LayerNormalization": 11, "Attention": 5},
    "yolo": {"BatchNormalization": 23, "Swish": 23, "Split": 5, "Resize": 1, "MaxPool": 3},
}


def flat(values):
    if isinstance(values, torch.Tensor):
        return [values.detach().numpy()]
    return [array for value in values for array in flat(value)]


@pytest.fixture(scope="module")
def exported():
    """Each network, its inputs, and its program in ONNX with its own weights."""
    torch.manual_seed(0)
    found = {}
    for name in networks.NETWORKS:
        module, inputs = getattr(networks, name)()
        found[name] = module.eval(), inputs, to_program(trace(module, inputs, {})).model_proto
    return found


@pytest.fixture(scope="module")
def models(exported):
    return {name: normalize(read_model(each[2], name=name)) for name, each in exported.items()}


@pytest.fixture(scope="module")
def verdicts(models):
    """All networks on all frameworks that are installed, with fresh weights."""
    here = {each.metadata["Name"] for each in metadata.distributions()}
    backends = [name for name, framework in FRAMEWORKS.items() if framework in here]
    # The reference evaluator takes longer than all frameworks, and so is for one alone.
    how = VerifyOptions(reference_timeout_s=0) if len(backends) > 1 else VerifyOptions()
    requests = [Request.of(name, threads=1) for name in backends]
    found = verify(list(models.values()), requests, how)
    return {(verdict.model, verdict.backend): verdict for verdict in found}


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_torch_network_keeps_its_layers(name, models):
    assert not [layer.opaque for layer in models[name].layers if layer.opaque]
    operators = [layer.op for layer in models[name].layers]
    assert {operator: operators.count(operator) for operator in KEPT[name]} == KEPT[name]


def test_resnet50_has_the_layers_of_the_other_frameworks(models):
    assert Counter(layer.op for layer in models["resnet50"].layers) == {
        "Conv": 53, "BatchNormalization": 53, "Relu": 49, "Add": 16, "MaxPool": 1,
        "GlobalAveragePool": 1, "Reshape": 1, "Gemm": 1,
    }  # fmt: skip
    assert len(set(BrickSet.of([models["resnet50"]]).models[0].layer_signatures)) < 100


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_torch_network_is_exported_with_the_same_results(name, exported):
    ort = pytest.importorskip("onnxruntime")
    module, inputs, proto = exported[name]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    fed = {i.name: a for i, a in zip(session.get_inputs(), flat(inputs), strict=True)}
    with torch.no_grad():
        expected = flat(module(*inputs))
    for result, wanted in zip(session.run(None, fed), expected, strict=True):
        assert wanted.std() > 1e-3, "the comparison shows nothing"
        np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3 * wanted.std())


@pytest.mark.parametrize("backend", FRAMEWORKS)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_torch_network_agrees_on(backend, name, verdicts):
    if not any(key[1] == backend for key in verdicts):
        pytest.skip(f"{backend} is not installed")
    verdict = verdicts[name, backend]
    assert verdict.agrees, verdict

"""Frameworks compute what transformers computes, from models in canonical form."""

import json
from dataclasses import replace

import numpy as np
import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of
from golden_weights import tokens, weight
from onnx.reference import ReferenceEvaluator
from test_golden import GOLDEN, HERE, PROMPT, proto_of

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.passes import normalize

FAMILIES = ("llama", "qwen3_next", "mamba", "gemma4_text", "longcat_flash",
            "recurrent_gemma", "kimi_linear")  # fmt: skip


def pytorch():
    timer = pytest.importorskip("dlbricks_pytorch.timer")
    return timer.PytorchTimer(BackendSettings(threads=1))


def onnxruntime():
    backend = pytest.importorskip("dlbricks_onnxruntime.backend")
    return backend.OnnxruntimeBackend().timer(BackendSettings(threads=1))


def derived(raw, specs):
    """Weights that are computed once, while the model is brought into canonical form."""
    known, layers = set(raw.weights), []
    for layer in raw.layers:
        if layer.reads and known.issuperset(filter(None, layer.reads)):
            known.update(layer.outputs)
            layers.append(layer)
    alone = replace(raw, layers=tuple(layers), inputs=(), outputs=tuple(specs),
                    tensors={**raw.tensors, **specs})  # fmt: skip
    return dict(zip(specs, ReferenceEvaluator(proto_of(alone)).run(None, {}), strict=True))


def results(timer, raw, ids, cache, past):
    """Outputs for tokens after others, by name."""
    dims = {"sequence": ids.shape[1], "past": past}
    if not any("past" in (raw.tensors[name].shape or ()) for name in raw.inputs):
        del dims["past"]  # states alone
    model = normalize(raw, batch=1, dims=dims)
    learned = model.weights - model.constants.keys()
    weights = {
        **model.constants,
        **{name: weight(name, raw.tensors[name].shape) for name in learned & raw.weights},
        **derived(raw, {name: model.tensors[name] for name in learned - raw.weights}),
    }
    zeros = {name: np.zeros(model.tensors[name].shape, np.float32) for name in model.inputs[1:]}
    loaded = timer.load(Network(model, weights, {**zeros, "input_ids": ids, **cache}))
    timer.run(loaded)
    found = {name: np.array(value) for name, value in timer.outputs(loaded).items()}
    timer.unload(loaded)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("timer", [pytorch, onnxruntime])
def test_a_framework_gives_the_logits_of_transformers(timer, family):
    config = json.loads((HERE / f"configurations/{family}.json").read_text())
    raw, one = build(decoder_of(config, family), family, ""), timer()
    ids = tokens(PROMPT + 1, config["vocab_size"])
    first = results(one, raw, ids[:, :PROMPT], {}, 0)
    cache = {
        name.replace("present.", "past_key_values.").replace("present_", "past_"): value
        for name, value in first.items()
        if name != "logits"
    }
    second = results(one, raw, ids[:, PROMPT:], cache, PROMPT)
    np.testing.assert_allclose(first["logits"], GOLDEN[f"{family}/prompt"], atol=2e-5)
    np.testing.assert_allclose(second["logits"], GOLDEN[f"{family}/token"], atol=2e-5)
    one.close()

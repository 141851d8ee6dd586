"""Forms of decoders that no other family has: counts of their weights, names of their layers."""

import json
import math
from collections import Counter

import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of
from dlbricks_decoders.parameters import parameters
from test_golden import HERE

from dlbricks_core.passes import normalize

PROMPT = {"sequence": 7, "past": 0}
ENCODED = {"sequence": 1, "past": 0, "encoder_sequence": 9}


def raw(name):
    config = json.loads((HERE / f"configurations/{name}.json").read_text())
    return build(decoder_of(config, name), name, "")


@pytest.mark.parametrize(
    "name",
    [
        "gemma3n_text",
        "gemma4_text",
        "gemma4_experts",
        "falcon_h1",
        "jamba",
        "umt5",
        "whisper",
        "longcat_flash",
        "hy_v4",
        "kimi_linear",
        "recurrent_gemma",
    ],
)
def test_the_number_of_parameters_is_that_of_the_built_model(name):
    config = json.loads((HERE / f"configurations/{name}.json").read_text())
    model = raw(name)
    learned = model.weights - model.constants.keys()
    assert parameters(decoder_of(config, name)) == sum(
        math.prod(model.tensors[each].shape) for each in learned
    )


@pytest.mark.parametrize(
    ("name", "dims"),
    [("mamba", {"sequence": 7}), ("gemma4_text", PROMPT), ("gemma3n_text", PROMPT),
     ("t5", ENCODED), ("deepseek_v3", PROMPT),
     ("longcat_flash", PROMPT), ("hy_v4", PROMPT), ("kimi_linear", PROMPT),
     ("recurrent_gemma", PROMPT)],
)  # fmt: skip
def test_layers_have_names_of_their_own(name, dims):
    model = normalize(raw(name), batch=1, dims=dims)
    names = Counter(layer.name for layer in model.layers if layer.name)
    assert not [name for name, times in names.items() if times > 1]


def test_the_encoder_runs_while_the_cache_is_empty():
    model = raw("t5")
    first = normalize(model, batch=1, dims=ENCODED)
    later = normalize(model, batch=1, dims={**ENCODED, "past": 3})
    assert any(layer.name.startswith("encoder.") for layer in first.layers)
    assert not any(layer.name.startswith("encoder.") for layer in later.layers)
    assert len(later.layers) < 0.7 * len(first.layers)


def test_blocks_that_borrow_all_keys_compute_the_last_token_alone():
    model = normalize(raw("gemma4_text"), batch=1, dims=PROMPT)
    rows = {layer.outputs[0]: model.tensors[layer.outputs[0]].shape for layer in model.layers}
    assert rows["layers.3.self_attn"] == (1, 7, 64)
    assert rows["layers.5.self_attn"] == (1, 1, 64)


def test_functions_are_in_the_operators_of_transformers():
    ops = {name: Counter(layer.op for layer in raw(name).layers if ".0.mlp.act" in layer.outputs[0])
           for name in ("gpt2", "bloom", "gemma")}  # fmt: skip
    assert ops["gpt2"] == {"Mul": 4, "Add": 2, "Pow": 1, "Tanh": 1}
    assert ops["bloom"] == {"Mul": 6, "Add": 2, "Tanh": 1}
    assert ops["gemma"] == {"Gelu": 1}

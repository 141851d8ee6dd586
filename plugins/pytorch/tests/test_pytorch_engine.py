"""Python of transformers' loop by the blocks of a model."""

import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of
from dlbricks_pytorch.engine import python_of, transformers_python

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes import normalize

SIZES = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 5}
FAMILIES = {
    "llama": {**SIZES, "intermediate_size": 24, "num_attention_heads": 4},
    "mamba2": {**SIZES, "num_heads": 4, "head_dim": 8, "n_groups": 1, "state_size": 4},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_are_counted_by_what_they_remember(family):
    raw = build(decoder_of({"model_type": family, **FAMILIES[family]}, "c"), "m", "")
    model = normalize(raw, batch=1, dims={"sequence": 1, "past": 8} if family == "llama"
                      else {"sequence": 1})  # fmt: skip
    cost = transformers_python()
    assert python_of(model).calls == cost.token_calls + 5 * cost.block_calls


T5 = {"model_type": "t5", "vocab_size": 32, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_heads": 4,
      "num_layers": 3, "num_decoder_layers": 2, "is_encoder_decoder": True}  # fmt: skip
BORROWING = {"model_type": "gemma4_text", **SIZES, "intermediate_size": 24, "head_dim": 4,
             "num_attention_heads": 4, "num_key_value_heads": 2, "num_kv_shared_layers": 2,
             "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
             "global_head_dim": 8, "hidden_size_per_layer_input": 0}  # fmt: skip


@pytest.mark.parametrize(("past", "count"), [(0, 5), (4, 2)])
def test_blocks_of_an_encoder_count_while_it_runs(past, count):
    raw = build(decoder_of(T5, "c"), "m", "")
    model = normalize(raw, batch=1, dims={"sequence": 1, "past": past, "encoder_sequence": 6})
    cost = transformers_python()
    assert python_of(model).calls == cost.token_calls + count * cost.block_calls


def test_blocks_that_borrow_keys_count():
    raw = build(decoder_of(BORROWING, "c"), "m", "")
    model = normalize(raw, batch=1, dims={"sequence": 1, "past": 8})
    cost = transformers_python()
    assert python_of(model).calls == cost.token_calls + 5 * cost.block_calls


def test_a_model_without_a_cache_has_none():
    tensors = {name: TensorSpec("float32", (4,)) for name in "xy"}
    model = CanonicalModel("m", (Layer("Relu", ("x",), ("y",)),), ("x",), ("y",), tensors)
    assert python_of(model) is None


def test_weights_that_displace_the_caches_make_python_slower():
    values = {"model_type": "llama", **FAMILIES["llama"], "vocab_size": 2**20}
    raw = build(decoder_of(values, "c"), "m", "")
    model = normalize(raw, batch=1, dims={"sequence": 1, "past": 8})
    cost = transformers_python()
    warm = cost.token_calls + 5 * cost.block_calls
    assert python_of(model).calls == pytest.approx(cost.cold * warm)

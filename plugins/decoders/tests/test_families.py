"""What configurations change, and what they may not say."""

from __future__ import annotations

from collections import Counter

import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import TIED, decoder_of, text_of

from dlbricks_core.backends import Traits
from dlbricks_core.bricks.signature import signature
from dlbricks_core.errors import ModelError, UnboundDimensionsError
from dlbricks_core.measure.footprint import Footprint
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import conversion, convert

TINY = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def raw(family, **more):
    return build(decoder_of({"model_type": family, **TINY, **more}, "config.json"), "m", "llm:m")


def bound(family, sequence=1, past=8, batch=1, **more):
    return normalize(raw(family, **more), batch=batch, dims={"sequence": sequence, "past": past})


def kinds(model):
    """Number of distinct layers."""
    return len({signature(model, [index]) for index in range(len(model.layers))})


@pytest.mark.parametrize(
    ("family", "more", "says"),
    [
        ("rwkv", {}, "model_type 'rwkv' is not supported"),
        ("llama", {"hidden_act": "gelu_10"}, "hidden_act 'gelu_10'"),
        ("llama", {"num_experts": 8}, "unknown field num_experts"),
        ("llama", {"rope_scaling": {"rope_type": "magic"}}, "rope_scaling.rope_type 'magic'"),
        (
            "llama",
            {"rope_scaling": {"type": "linear", "factor": 2.0, "odd": 1}},
            "unknown field rope_scaling.odd",
        ),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "is missing"),
        ("llama", {"rope_theta": 0}, "rope_theta"),
        (
            "mixtral",
            {"num_local_experts": 2, "num_experts_per_tok": 4},
            "num_experts_per_tok is 4, not an integer from 1 to 2",
        ),
        (
            "olmoe",
            {"num_experts": 2, "num_experts_per_tok": 4},
            "num_experts_per_tok is 4, not an integer from 1 to 2",
        ),
        ("llama", {"hidden_size": [list(range(99))] * 99}, "hidden_size is "),
        ("llama", {"hidden_act": "x" * 999}, "hidden_act 'xxx"),
        ("llama", {"x" * 999: 1}, "unknown field xxx"),
        ("llama", {"hidden_size": "16"}, "hidden_size is '16'"),
        ("llama", {"hidden_size": None}, "hidden_size is missing"),
        ("llama", {"hidden_size": True}, "hidden_size is true"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ("llama", {"num_attention_heads": 3, "num_key_value_heads": 3}, "num_attention_heads 3"),
        ("llama", {"num_hidden_layers": 10**7}, "num_hidden_layers"),
        (
            "llama",
            {"head_dim": 5, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "config.json: rotated dimensions 5",
        ),
        ("phi", {"partial_rotary_factor": 1.5}, "rotated dimensions 6"),
        ("laguna", {"num_attention_heads_per_layer": [3] * 6}, "num_attention_heads_per_layer"),
        ("laguna", {"gating": "odd"}, "do not fit a model of type 'laguna'"),
        ("deepseek_v32", {"q_lora_rank": None}, "an indexer reads compressed queries"),
        ("phimoe", {"num_experts_per_tok": 1}, "num_experts_per_tok 1"),
        ("qwen3_next", {"linear_num_value_heads": 3}, "linear_num_key_heads 16"),
        ("gptj", {"rotary_dim": 128}, "rotated dimensions 128"),
        ("llama", {"rope_theta": float("inf")}, "rope_theta is inf, not a finite number"),
        ("llama", {"rope_theta": 10**400}, "rope_theta is 1000.*, not a finite number"),
        (
            "llama",
            {"rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 4.0}},
            "rope_scaling.rope_theta 1.0 is not supported",
        ),
        (
            "llama",
            {
                "rope_scaling": {
                    "type": "longrope",
                    "factor": 2.0,
                    "original_max_position_embeddings": 1,
                    "short_factor": [1.0, 1.0],
                    "long_factor": [1.0, 1.0],
                }
            },
            "original_max_position_embeddings 1 is not supported",
        ),
        ("llama", {"rms_norm_eps": -1e-6}, "rms_norm_eps is -1e-06, not a positive number"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantized"),
        ("llama", {"is_encoder_decoder": True}, "is_encoder_decoder true"),
        ("gemma2", {"layer_types": ["chunked_attention"] * 6}, "chunked_attention"),
        ("gemma2", {"layer_types": ["full_attention"]}, "layer_types"),
        ("phi", {"qk_layernorm": True}, "qk_layernorm true"),
        ("falcon", {"alibi": True}, "alibi true"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("qwen3_moe", {"mlp_only_layers": "all"}, "mlp_only_layers 'all'"),
        ("mpt", {"attn_config": {"alibi": False}}, "attn_config.alibi false"),
        ("deepseek_v3", {"moe_layer_freq": 2}, "moe_layer_freq 2"),
    ],
)
def test_what_decoders_are_not_built_for_is_refused_by_name(family, more, says):
    with pytest.raises(ModelError, match=says) as caught:
        raw(family, **more)
    assert caught.value.message.startswith("config.json: ")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 160
    assert 0 < len(caught.value.hint) < 160


@pytest.mark.parametrize(
    ("quantization", "says", "nearest"),
    [
        ({"quant_method": "awq", "bits": 4}, "4 bits that are quantized by 'awq'", "int4"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "8 bits .* by 'gptq'", "int8"),
        ({"quant_method": "gptq", "bits": 3}, "3 bits", "int4"),
        ({"quant_method": "fp8", "fmt": "e4m3"}, "8 bits .* by 'fp8'", "int8"),
        ({"quant_method": "fbgemm_fp8"}, "8 bits", "int8"),
        ({"quant_method": "mxfp4"}, "4 bits .* by 'mxfp4'", "int4"),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            "4 bits .* by 'bitsandbytes' 'nf4'",
            "int4",
        ),
        ({"load_in_4bit": False, "load_in_8bit": True}, "8 bits", "int8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "8 bits .* by 'compressed-tensors'",
            "int8",
        ),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, "4 bits", "int4"),
        ({"quant_method": "odd"}, "weights that are quantized by 'odd'", "int4 or int8"),
        ({"quant_method": "vptq"}, "2 bits that are quantized by 'vptq'", "int4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"input_activations": {"num_bits": 8}, "weights": {"num_bits": 4}}
                },
            },
            "4 bits that are quantized by 'compressed-tensors'",
            "int4",
        ),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Int8DynamicActivationInt4WeightConfig"}},
            },
            "4 bits that are quantized by 'torchao'",
            "int4",
        ),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {
                    "input_tensors": {"dtype": "int8"},
                    "weight": {"dtype": "uint4"},
                },
            },
            "4 bits that are quantized by 'quark'",
            "int4",
        ),
        ([1, {"bits": 4}], "4 bits", "int4"),
        ("int8", "8 bits", "int8"),
        (5, "need an element type", "int4 or int8"),
    ],
)
def test_quantized_weights_lead_to_the_nearest_conversion(quantization, says, nearest):
    with pytest.raises(ModelError, match=says) as caught:
        raw("llama", quantization_config=quantization)
    assert f"dtype={nearest}, which is nearest" in caught.value.hint


@pytest.mark.parametrize("field", ["quantization", "compression_config"])
def test_quantized_weights_are_known_under_other_names(field):
    quantization = {"group_size": 64, "bits": 4}
    with pytest.raises(ModelError, match="4 bits that are quantized"):
        raw("llama", **{field: quantization})
    config = {**TINY, "model_type": "llama", "quantization_config": quantization}
    assert decoder_of({**config, field: quantization}, "c", "int4").blocks


def test_quantized_weights_are_read_where_a_conversion_follows():
    config = {**TINY, "model_type": "llama", "quantization_config": {"bits": 4}}
    assert decoder_of(config, "config.json", "int4").blocks
    within = {"text_config": config, "quantization_config": {"bits": 4}}
    assert text_of(within, "config.json", "int4")[1] == "text_config"


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_has_four_bits_too(tied):
    model = conversion("int4")(bound("llama", tie_word_embeddings=tied))
    last = [layer for layer in model.layers if layer.op in ("MatMulNBits", "Gemm")][-1]
    assert (last.op, last.attributes["N"]) == ("MatMulNBits", TINY["vocab_size"])
    assert any(layer.op == "Gather" for layer in model.layers)


def test_a_configuration_may_say_that_weights_are_plain():
    assert raw("llama", quantization_config=None).layers


@pytest.mark.parametrize("family", ["phimoe9", "ministral9", "cohere9", "gpt_os", "rwkv"])
def test_the_hint_for_an_unknown_family_suggests_no_other_one_that_is_spelt_like_it(family):
    with pytest.raises(ModelError) as caught:
        raw(family)
    assert "Did you mean" not in caught.value.hint
    assert "dlbricks list models llm:" in caught.value.hint
    assert ".onnx" in caught.value.hint


def test_some_blocks_of_a_mixture_have_no_experts():
    sparse = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    decoder = decoder_of(
        {**TINY, **sparse, "model_type": "qwen3_moe", "decoder_sparse_step": 2,
         "mlp_only_layers": [3]},
        "config.json",
    )  # fmt: skip
    assert [block.feed_forward.experts is not None for block in decoder.blocks] == [
        False, True, False, False, False, True,
    ]  # fmt: skip


def test_all_unknown_fields_are_named_at_once():
    with pytest.raises(ModelError, match="unknown fields odd, strange and rare") as caught:
        raw("llama", odd=1, strange=[2], absent=None, rare="x")
    assert "Remove those" in caught.value.hint


#: Fields of published configurations that their families never read.
UNUSED = {
    "falcon": {"activation": "gelu", "ff_factor": 4, "num_ln_in_parallel_attn": 1},
    "gemma": {"num_image_tokens": 256, "head_dim": 4},
    "gemma2": {"sliding_window_size": 4096, "head_dim": 4},
    "llama": {"activation": "swiglu", "pixel_shuffle_factor": 4, "perceiver_config": {"a": 1}},
    "qwen3_moe": {"use_qk_norm": True, "qkv_bias": False, "num_experts": 8},
    "stablelm": {
        "partial_rotary_factor": 0.5,
        "norm_eps": 1e-5,
        "num_heads": 32,
        "rope_pct": 0.5,
        "rotary_scaling_factor": 1.0,
    },
    "starcoder2": {"activation_function": "relu", "layer_norm_epsilon": 1e-2},
}


@pytest.mark.parametrize("family", UNUSED)
def test_published_fields_that_a_family_never_reads_are_accepted(family):
    assert raw(family, **UNUSED[family]).layers


def test_fields_of_training_and_generation_change_nothing():
    more = {"attention_dropout": 0.1, "torch_dtype": "bfloat16", "bos_token_id": 1,
            "unsloth_version": "1", "_name_or_path": "x", "use_sliding_window": False,
            "max_sequence_length": 16384,
            "rope_scaling": {"factor": 16.0, "finetuned": True, "type": "linear"}}  # fmt: skip
    assert len(raw("llama", **more).layers) == len(raw("llama").layers)


def test_open_dimensions_are_batch_sequence_and_past():
    model = raw("llama")
    named = {dim for name in model.inputs for dim in model.tensors[name].shape}
    assert {dim for dim in named if isinstance(dim, str)} == {"batch", "sequence", "past"}
    with pytest.raises(UnboundDimensionsError) as caught:
        normalize(model)
    assert len(caught.value.message) < 500
    assert caught.value.hint.endswith("Estimates and advice take prompt=N, generate=N instead.")


@pytest.mark.parametrize(("sequence", "past"), [(1, 8), (7, 0), (3, 5), (1, 0)])
def test_results_have_the_shapes_that_were_agreed_on(sequence, past):
    model = bound("llama", sequence, past, batch=2)
    assert model.tensors["logits"].shape == (2, 1, 32)
    assert model.tensors["present.5.value"].shape == (2, 2, sequence + past, 4)
    assert not any(layer.opaque for layer in model.layers)


def test_blocks_that_are_alike_have_the_same_signatures():
    few, many = bound("llama", num_hidden_layers=3), bound("llama", num_hidden_layers=40)
    assert len(many.layers) > 10 * len(few.layers)
    assert kinds(many) == kinds(few)


def test_scaled_rotary_embeddings_are_the_same_work():
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
    plain, scaled = bound("llama"), bound("llama", rope_scaling=scaling)
    everything = range(len(plain.layers))
    assert signature(plain, everything) == signature(scaled, everything)


@pytest.mark.parametrize(("past", "masked"), [(3, False), (4, True)])
def test_a_window_is_masked_only_where_it_hides_something(past, masked):
    model = bound("mistral", past=past, sliding_window=4)
    attentions = [layer for layer in model.layers if layer.op == "Attention"]
    assert len(attentions) == 6
    assert all(bool(layer.inputs[3]) == masked for layer in attentions)


def test_only_the_blocks_with_a_window_are_masked():
    model = bound("gemma3_text", past=64, sliding_window=4, sliding_window_pattern=3, head_dim=8)
    attentions = [layer for layer in model.layers if layer.op == "Attention"]
    assert [bool(layer.inputs[3]) for layer in attentions] == [True, True, False] * 2


def test_what_follows_from_sizes_is_no_layer_and_of_a_row_for_each_token():
    model = bound("llama", sequence=1, past=100_000)
    allowed = {"Gather", "RMSNormalization", "MatMul", "RotaryEmbedding", "Attention", "Add",
               "Swish", "Mul", "Slice"}  # fmt: skip
    assert {layer.op for layer in model.layers} <= allowed
    assert model.tensors["rotary0.cos"].shape == (1, 1, 2)


def test_a_tied_embedding_is_one_weight():
    tied = bound("llama", tie_word_embeddings=True)
    assert "lm_head.weight" not in tied.weights
    head = next(layer for layer in tied.layers if layer.op == "Gemm")
    assert "embed_tokens.weight" in head.inputs


@pytest.mark.parametrize(("tokens", "experts"), [(1, 2), (2, 4), (4, 8), (16, 8)])
def test_tokens_spread_evenly_over_experts(tokens, experts):
    more = {"num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 1}
    model = bound("mixtral", sequence=tokens, **more)
    rows = Counter(
        model.tensors[layer.outputs[0]].shape[0]
        for layer in model.layers
        if layer.outputs[0].endswith("gate_up_proj")
    )
    assert rows == {max(1, tokens * 2 // 8): experts}
    read = {name for name in model.weights if name.endswith("gate_up_proj.weight")}
    assert len(read) == experts


def test_a_text_longer_than_the_learned_positions_is_refused():
    def at(past: int) -> None:
        normalize(raw("gpt2", n_positions=16), batch=1, dims={"sequence": 1, "past": past})

    at(15)
    with pytest.raises(ModelError, match=r"reads row 16 of .*, which has 16"):
        at(16)


@pytest.mark.parametrize("tokens", [1, 2, 3, 16])
def test_all_experts_are_in_memory_however_few_are_chosen(tokens):
    more = {"num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 1}
    few, many = (bound("mixtral", sequence=n, **more) for n in (tokens, 64))
    assert many.idle_bytes == 0
    experts = {name for name in many.weights - few.weights if name.endswith(".weight")}
    assert few.idle_bytes == sum(many.tensors[name].nbytes for name in experts)
    assert (few.idle_bytes > 0) == (tokens < 4)
    found = Footprint.of(few, Traits(weights_held=1), 10**12)
    assert found.weights_bytes == few.weight_bytes + few.idle_bytes
    half = convert(few, "float16")
    assert half.idle_bytes == pytest.approx(few.idle_bytes / 2, rel=0.2)


@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [(True, False, True), (False, True, False), (None, True, True), (None, None, None)],
)
def test_the_outer_configuration_says_whether_embeddings_are_tied(outer, inner, tied):
    text = {"model_type": "llama", **({} if inner is None else {TIED: inner})}
    whole = {"model_type": "llava", "text_config": text, **({} if outer is None else {TIED: outer})}
    assert text_of(whole, "config.json")[0].get(TIED) == tied


def read(family, **fields):
    return decoder_of({"model_type": family, **fields}, "config.json")


def test_a_field_that_is_null_is_not_a_field_that_is_left_out():
    heads = {"num_attention_heads": 8, "head_dim": 4}
    tiny = {name: value for name, value in {**TINY, **heads}.items() if "key_value" not in name}
    assert read("bitnet", **tiny, num_key_value_heads=None).attentions[0].kv_heads == 8
    with pytest.raises(ModelError, match="num_key_value_heads 5"):
        read("bitnet", **tiny)
    assert read("cwm", **tiny).attentions[0].kv_heads == 8
    assert read("cwm", **{**tiny, "head_dim": None}).attentions[0].head_dim == 2
    del tiny["head_dim"]
    assert read("cwm", **tiny).attentions[0].head_dim == 128


def test_a_further_name_of_a_field_states_it():
    sizes = {"vocab_size": 32, "n_embd": 16, "n_head": 4, "n_layer": 2}
    assert read("gpt2", **sizes).positions == 1024
    assert read("gpt2", **sizes, max_position_embeddings=64).positions == 64


def test_sizes_of_blocks_that_newer_files_state_block_by_block():
    kinds = ["sliding_attention", "full_attention"] * 3
    plain = {**TINY, "head_dim": 8, "layer_types": kinds}
    far = {str(index): {"head_dim": 16} for index in (1, 3, 5)}
    assert read("gemma4_text", **plain, per_layer_config=far) == read(
        "gemma4_text", **plain, global_head_dim=16
    )
    with pytest.raises(ModelError, match="per_layer_config"):
        read("gemma4_text", **plain, per_layer_config={"0": {"head_dim": 16}})
    parts = ["linear_attention", "full_attention", "mlp", "moe"]
    less = {name: value for name, value in TINY.items() if name != "num_hidden_layers"}
    both = read("nemotron_h", **less, layers_block_type=parts, layer_types=parts)
    assert both == read("nemotron_h", **less, hybrid_override_pattern="M*-E")


def test_kimi_linear_is_read_as_it_is_published():
    linear = {"full_attn_layers": [2, 4], "kda_layers": [1, 3], "num_heads": 2, "head_dim": 8,
              "short_conv_kernel_size": 4}  # fmt: skip
    config = {
        **TINY, "model_type": "kimi_linear", "num_hidden_layers": 4, "linear_attn_config": linear,
        "first_k_dense_replace": 1, "num_experts": 4, "num_experts_per_token": 2,
        "num_shared_experts": 1, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
        "num_expert_group": 1, "use_grouped_topk": True, "mla_use_nope": True, "head_dim": 4,
        "q_lora_rank": None, "model_max_length": 64, "rope_theta": 10000.0, "rope_scaling": None,
    }  # fmt: skip
    blocks = decoder_of(config, "c").blocks
    assert [bool(block.attention) for block in blocks] == [False, True, False, True]
    assert [bool(block.feed_forward.experts) for block in blocks] == [False, True, True, True]
    assert blocks[0].delta.kernel == 4
    with pytest.raises(ModelError, match=r"unknown field linear_attn_config\.odd"):
        decoder_of({**config, "linear_attn_config": {**linear, "odd": 1}}, "c")


def test_experts_of_longcat_flash_that_are_idle_compute_nothing():
    sizes = {"num_layers": 2, "ffn_hidden_size": 24, "expert_ffn_hidden_size": 8, "moe_topk": 2,
             "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4,
             "v_head_dim": 4, "n_routed_experts": 2}  # fmt: skip
    with_idle, without = (
        bound("longcat_flash", **sizes, zero_expert_num=idle, sequence=4) for idle in (2, 0)
    )
    products = [sum(layer.op == "MatMul" for layer in each.layers) for each in (with_idle, without)]
    assert products[0] == products[1]


def test_the_first_configurations_of_gemma_mean_the_approximate_gelu():
    decoders = [decoder_of({"model_type": "gemma", **TINY, "hidden_act": name}, "c")
                for name in ("gelu", "gelu_pytorch_tanh")]  # fmt: skip
    assert decoders[0] == decoders[1]

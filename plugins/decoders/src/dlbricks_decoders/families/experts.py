"""Mixtures of experts: Qwen 2, Granite, dots, Hunyuan, MiniMax, GLM and GPT-OSS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import Activation, Experts, FeedForward, Gate, Temperature
from dlbricks_decoders.families.deepseek import after_dense
from dlbricks_decoders.families.llama import granite
from dlbricks_decoders.families.parts import (
    FULL,
    MOST_EXPERTS,
    SLIDING,
    activation_of,
    attention_of,
    before_both,
    count_of,
    decoder_with,
    experts_of,
    kinds_of,
    layer_norm,
    optional_window,
    plain_feed_forward,
    renamed,
    rms_norm,
    rotary_by_kind,
    rotary_of,
    routed,
    sizes_of,
    sparse_or_dense,
    windowed,
)
from dlbricks_decoders.fields import Fields


def _qwen2_moe(fields: Fields) -> Decoder:
    """Qwen 2 with experts, and a shared one that a gate weighs."""
    sizes, norm = sizes_of(fields, kv_heads=16), rms_norm(fields)
    bias = fields.flag("qkv_bias", default=True)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes), bias=bias)
    window, kinds = optional_window(fields, sizes.layers, 28)
    dense = plain_feed_forward(fields, sizes)
    shared = replace(dense, width=fields.integer("shared_expert_intermediate_size", default=5632))
    experts = replace(experts_of(fields, 60, per_token=4), shared=shared, shared_gate=True)
    width = fields.integer("moe_intermediate_size", default=1408)
    sparse = routed(fields, experts, width=width)
    parts = sparse_or_dense(fields, sizes.layers, dense, sparse)
    attentions = windowed(attention, kinds, window)
    blocks = [before_both(norm, *both) for both in zip(attentions, parts, strict=True)]
    return decoder_with(fields, sizes, blocks, norm)


def _granite_moe(fields: Fields, *, shared: bool = False) -> Decoder:
    """Granite with experts; in one kind, another expert works on every token."""
    plain, sizes = granite(fields), sizes_of(fields)
    experts = experts_of(fields, 8, per_token=2, normalized=True)
    width = count_of(fields, "shared_intermediate_size", 0) if shared else 0
    if width:
        part = FeedForward(width, activation_of(fields), joined=True)
        experts = replace(experts, shared=part)
    sparse = routed(fields, experts, width=sizes.width)
    blocks = [replace(block, feed_forward=sparse) for block in plain.blocks]
    return replace(plain, blocks=tuple(blocks))


def _glm4_moe(
    fields: Fields, *, theta: float = 10000.0, share: float = 0.5, normalized: bool = False,
    **usual: Any,
) -> Decoder:  # fmt: skip
    """GLM 4 with experts; ``usual`` are defaults of other experts and scales of weights."""
    sizes, norm = sizes_of(fields, kv_heads=8), rms_norm(fields, default=1e-5)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, theta=theta, share=share),
        bias=fields.flag("attention_bias", default=False),
        norm=norm if fields.flag("use_qk_norm", default=normalized) else None,
    )  # fmt: skip
    dense = plain_feed_forward(fields, sizes)
    blocks = [before_both(norm, attention, dense)] * sizes.layers
    return after_dense(fields, sizes, blocks, dense, count=128, first=1, **usual)


def _sarvam_moe(fields: Fields) -> Decoder:
    """Sarvam 30B: like GLM 4 with experts, under the names of its publication, too."""
    fields = renamed(fields, num_shared_experts="n_shared_experts", use_qkv_bias="attention_bias")
    return _glm4_moe(fields, theta=8e6, share=1.0, normalized=True, scale=2.5)


def _mellum(fields: Fields) -> Decoder:
    """Mellum 2: like Qwen 3 with experts, with windows and frequencies by kind of block."""
    sizes, norm = sizes_of(fields, kv_heads=4, head_dim=128), rms_norm(fields)
    kinds = kinds_of(fields, sizes.layers, [FULL] * sizes.layers)
    bias = fields.flag("attention_bias", default=False)
    far = attention_of(
        sizes, rotary=rotary_by_kind(fields, sizes, FULL, 5e5), bias=bias, output_bias=bias,
        norm=norm,
    )  # fmt: skip
    near = replace(far, rotary=rotary_by_kind(fields, sizes, SLIDING, 1e4),
                   window=fields.integer("sliding_window", default=1024))  # fmt: skip
    width = fields.integer("moe_intermediate_size", default=896)
    sparse = routed(fields, experts_of(fields, 64, normalized=True), width=width)
    dense = plain_feed_forward(fields, sizes)
    names = fields.list_of("mlp_layer_types", ("dense", "sparse"), sizes.layers)
    names = names or ["sparse"] * sizes.layers
    fields.ignore("num_mtp_layers", "num_nextn_predict_layers", "mtp_layer_types",
                  "mtp_mlp_layer_types")  # fmt: skip
    blocks = [
        before_both(norm, near if kind == SLIDING else far, dense if name == "dense" else sparse)
        for kind, name in zip(kinds, names, strict=True)
    ]
    return decoder_with(fields, sizes, blocks, norm)


def _with_sinks(fields: Fields, plain: Decoder) -> Decoder:
    """Granite with sinks, windows in three of four blocks, and frequencies by block."""
    sizes = sizes_of(fields)
    window = fields.integer("sliding_window", default=128)
    usual = [SLIDING if i % 4 else FULL for i in range(sizes.layers)]
    kinds = kinds_of(fields, sizes.layers, usual)
    thetas = fields.get("layer_rope_theta") or [None] * sizes.layers
    stated = fields.get("rope_parameters", "rope_scaling") or {}
    turns = {None: rotary_of(fields, sizes), 0: None}
    for theta in set(thetas) - turns.keys():
        one = fields.replaced("rope_parameters", {**stated, "rope_theta": theta})
        turns[theta] = rotary_of(one, sizes)
    attentions = [
        block.attention and replace(
            block.attention, sinks=True, rotary=turns[theta],
            window=window if kind == SLIDING else None,
        )
        for block, kind, theta in zip(plain.blocks, kinds, thetas, strict=True)
    ]  # fmt: skip
    blocks = [replace(block, attention=attention)
              for block, attention in zip(plain.blocks, attentions, strict=True)]  # fmt: skip
    return replace(plain, blocks=tuple(blocks))


def _granite_swa(fields: Fields) -> Decoder:
    return _with_sinks(fields, granite(fields))


def _granite_moe_swa(fields: Fields) -> Decoder:
    return _with_sinks(fields, _granite_moe(fields, shared=True))


def _solar_open(fields: Fields) -> Decoder:
    """Solar Open: like GLM 4, with experts in all blocks."""
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=128), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes, theta=1e6), bias=bias)
    dense = plain_feed_forward(fields, sizes)
    blocks = [before_both(norm, attention, dense)] * sizes.layers
    return after_dense(fields, sizes, blocks, dense, count=128, first=0)


def _aria(fields: Fields) -> Decoder:
    """Aria: like Llama, with experts and shared ones."""
    sizes, norm = sizes_of(fields), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias)
    shared = sizes.width * fields.integer("moe_num_shared_experts", default=2)
    plain = plain_feed_forward(fields, sizes, bias=fields.flag("mlp_bias", default=False))
    count = fields.integer("moe_num_experts", default=8, most=MOST_EXPERTS)
    experts = Experts(
        count, fields.integer("moe_topk", default=2, most=count),
        shared=replace(plain, width=shared),
    )  # fmt: skip
    block = before_both(norm, attention, routed(fields, experts, width=sizes.width))
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _dots1(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias, norm=norm
    )
    window = fields.integer("sliding_window", default=None)
    first = fields.integer("max_window_layers", default=62)
    usual = [SLIDING if window and i >= first else FULL for i in range(sizes.layers)]
    dense = plain_feed_forward(fields, sizes)
    attentions = windowed(attention, kinds_of(fields, sizes.layers, usual), window)
    blocks = [before_both(norm, near, dense) for near in attentions]
    return after_dense(fields, sizes, blocks, dense, count=64, first=0)


def _hunyuan_moe(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias, norm=norm,
        norm_after_rotary=True,
    )  # fmt: skip
    count = fields.integer("num_experts", "num_local_experts", default=1, most=MOST_EXPERTS)
    per_token = fields.integer("moe_topk", "num_experts_per_tok", default=1, most=count)
    experts = Experts(count, per_token, shared=plain_feed_forward(fields, sizes))
    block = before_both(norm, attention, routed(fields, experts, width=sizes.width))
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _minimax_m2(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=128), rms_norm(fields)
    turned = fields.integer("rotary_dim", default=sizes.head_dim)
    turns = rotary_of(fields, sizes, theta=5e6, share=turned / sizes.head_dim)
    attention = attention_of(sizes, rotary=turns, norm=norm, norm_by_head=False)
    count = fields.integer("num_local_experts", "num_experts", default=256, most=MOST_EXPERTS)
    per_token = fields.integer("num_experts_per_tok", default=8, most=count)
    experts = Experts(count, per_token, score="Sigmoid")
    fields.ignore("scoring_func", "use_routing_bias", "use_qk_norm", "qk_norm_type", "use_mtp",
                  "num_mtp_modules", "mtp_transformer_layers", "attn_type_list",
                  "shared_intermediate_size")  # fmt: skip
    block = before_both(norm, attention, routed(fields, experts, width=sizes.width))
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _gpt_oss(fields: Fields) -> Decoder:
    """Attention with sinks, every other block within a window; experts with limited activations."""
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=64), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=True)
    turns = rotary_of(fields, sizes, theta=150000.0, usual=_GPT_OSS_SCALING)
    attention = attention_of(sizes, rotary=turns, bias=bias, output_bias=bias, sinks=True)
    window = fields.integer("sliding_window", default=128)
    usual = [SLIDING if (i + 1) % 2 else FULL for i in range(sizes.layers)]
    count = fields.integer("num_local_experts", "num_experts", default=128, most=MOST_EXPERTS)
    per_token = fields.integer("num_experts_per_tok", "experts_per_token", default=4, most=count)
    fields.only("hidden_act", "silu")
    fields.only("swiglu_alpha", 1.702)
    fields.ignore("initial_context_length")
    limit = fields.positive("swiglu_limit", default=7.0)
    activation = Activation("SharperSwish", limit=limit, raised=True)
    sparse = FeedForward(
        sizes.width, activation, joined=True, interleaved=True, bias=True,
        experts=Experts(count, per_token, router_bias=True),
    )  # fmt: skip
    attentions = windowed(attention, kinds_of(fields, sizes.layers, usual), window)
    blocks = [before_both(norm, near, sparse) for near in attentions]
    return decoder_with(fields, sizes, blocks, norm)


_GPT_OSS_SCALING = {
    "rope_type": "yarn", "factor": 32.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
"""Scaling of a configuration of GPT-OSS that states none."""


def _phimoe(fields: Fields) -> Decoder:
    """Phi 3.5 with experts: centered norms, and a router that compares near results."""
    sizes, norm = sizes_of(fields, kv_heads=8), layer_norm(fields, "rms_norm_eps")
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, theta=1e6), bias=bias, output_bias=bias,
        window=fields.integer("sliding_window", default=None),
    )  # fmt: skip
    fields.ignore("input_jitter_noise")
    fields.only("num_experts_per_tok", 2)
    experts = replace(
        experts_of(fields, 16, per_token=2), normalized=False,
        jitter=fields.number("router_jitter_noise", default=0.01),
    )  # fmt: skip
    block = before_both(norm, attention, routed(fields, experts, width=sizes.width))
    bias = fields.flag("lm_head_bias", default=False)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, head_bias=bias)


def _afmoe(fields: Fields) -> Decoder:
    """Trinity: gated attention, norms around both parts, positions only within windows."""
    sizes, norm = sizes_of(fields, head_dim=128), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    far = attention_of(sizes, bias=bias, output_bias=bias, norm=norm, gate=Gate())
    near = replace(
        far, rotary=rotary_of(fields, sizes), window=fields.integer("sliding_window", default=1024)
    )
    every = fields.integer("global_attn_every_n_layers", default=4)
    usual = [SLIDING if (i + 1) % every else FULL for i in range(sizes.layers)]
    kinds = kinds_of(fields, sizes.layers, usual)
    scaled = fields.flag("mup_enabled", default=False)
    # Names of the publication, which transformers keeps.
    fields.ignore("route_norm", "score_func", "n_group", "topk_group", "load_balance_coeff",
                  "num_expert_groups", "num_limited_groups", "use_grouped_mm")  # fmt: skip
    dense = plain_feed_forward(fields, sizes)
    width = fields.integer("moe_intermediate_size", default=1408)
    shared = fields.integer("num_shared_experts", default=2)
    experts = replace(
        experts_of(fields, 64, per_token=6, normalized=True), score="Sigmoid", normalized=True,
        scale=fields.number("route_scale", default=1.0),
        shared=replace(dense, width=width * shared),
    )  # fmt: skip
    sparse = routed(fields, experts, width=width)
    first = count_of(fields, "num_dense_layers", 1)
    blocks = [
        Block(near if kind == SLIDING else far, dense if i < first else sparse,
              before_attention=norm, after_attention=norm, before_feed_forward=norm,
              after_feed_forward=norm)
        for i, kind in enumerate(kinds)
    ]  # fmt: skip
    scale = sizes.hidden**0.5 if scaled else 1.0
    return decoder_with(fields, sizes, blocks, norm, embedding_scale=scale)


def _laguna(fields: Fields) -> Decoder:
    """Laguna: gated attention whose number of heads differs between blocks."""
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=128), rms_norm(fields)
    kinds = kinds_of(fields, sizes.layers, [FULL] * sizes.layers)
    bias = fields.flag("attention_bias", default=False)
    gate = _LAGUNA_GATES[fields.get("gating") if fields.given("gating") else True]
    fields.only("moe_apply_router_weight_on_input", False)
    window = fields.integer("sliding_window", default=512)
    turns = {
        FULL: rotary_by_kind(fields, sizes, FULL, 5e5, 0.5),
        SLIDING: rotary_by_kind(fields, sizes, SLIDING, 1e4),
    }
    counts = fields.get("num_attention_heads_per_layer") or [sizes.heads] * sizes.layers
    if not all(isinstance(count, int) and count > 0 == count % sizes.kv_heads
               for count in counts):  # fmt: skip
        raise fields.refusal("num_attention_heads_per_layer", counts,
                             f"Each is a multiple of {sizes.kv_heads}.")  # fmt: skip
    attentions = [
        attention_of(
            replace(sizes, heads=count), rotary=turns[kind], bias=bias, output_bias=bias, norm=norm,
            gate=gate, window=window if kind == SLIDING else None,
        )
        for kind, count in zip(kinds, counts, strict=True)
    ]  # fmt: skip
    dense = plain_feed_forward(fields, sizes)
    shared = fields.integer("shared_expert_intermediate_size", default=512)
    experts = replace(
        experts_of(fields, 256, normalized=True), score="Sigmoid", normalized=True,
        scale=fields.number("moe_routed_scaling_factor", default=1.0),
        softcap=fields.number("moe_router_logit_softcapping", default=0.0),
        shared=replace(dense, width=shared),
    )  # fmt: skip
    sparse = routed(fields, experts, width=fields.integer("moe_intermediate_size", default=512))
    parts = _after_first(fields, sizes.layers, dense, sparse)
    blocks = [before_both(norm, *both) for both in zip(attentions, parts, strict=True)]
    return decoder_with(fields, sizes, blocks, norm)


_LAGUNA_GATES: Mapping[Any, Gate] = {
    True: Gate("Softplus", by_head=True),
    "per-head": Gate("Softplus", by_head=True),
    "per-element": Gate("Softplus"),
    False: Gate("Softplus"),
}
"""Gates by the value of ``gating``."""


def _after_first(
    fields: Fields, layers: int, dense: FeedForward, sparse: FeedForward
) -> list[FeedForward]:
    """The feed-forward part of each block, by its name; only the first is usually dense."""
    names = fields.list_of("mlp_layer_types", ("dense", "sparse"), layers)
    names = names or ["dense", *["sparse"] * (layers - 1)]
    return [dense if name == "dense" else sparse for name in names]


def _mimo(fields: Fields) -> Decoder:
    """MiMo V2 Flash: windows with sinks and twice the heads of keys; values have other sizes."""
    sizes, norm = sizes_of(fields, kv_heads=4, head_dim=192), rms_norm(
        fields, "rms_norm_eps", 1e-5)  # fmt: skip
    usual = [FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING for i in range(sizes.layers)]
    kinds = kinds_of(fields, sizes.layers, usual)
    before = fields.integer("sliding_window_size", default=None)
    window = fields.integer("sliding_window", default=129)
    far = attention_of(
        sizes, rotary=rotary_by_kind(fields, sizes, FULL, 5e6, 0.334),
        bias=fields.flag("attention_bias", default=False),
        value=fields.integer("v_head_dim", default=128),
        value_scale=fields.number("attention_value_scale", default=0.707),
    )  # fmt: skip
    near = replace(
        far, rotary=rotary_by_kind(fields, sizes, SLIDING, 1e4, 0.334), sinks=True,
        kv_heads=2 * sizes.kv_heads, window=before + 1 if before else window,
    )  # fmt: skip
    count = fields.integer("n_routed_experts", "num_local_experts", default=256, most=MOST_EXPERTS)
    experts = Experts(
        count, fields.integer("num_experts_per_tok", default=8, most=count),
        fields.flag("norm_topk_prob", default=True), score="Sigmoid",
        scale=fields.number("routed_scaling_factor", default=1.0),
    )  # fmt: skip
    sparse = routed(fields, experts, width=fields.integer("moe_intermediate_size", default=2048))
    # transformers derives the kinds of blocks itself and reads none of these published fields.
    fields.ignore("n_group", "topk_group", "n_shared_experts", "rope_theta", "swa_rope_theta",
                  "partial_rotary_factor", "layernorm_epsilon", "hybrid_layer_pattern",
                  "moe_layer_freq", "scoring_func", "topk_method", "attention_chunk_size",
                  "add_swa_attention_sink_bias", "add_full_attention_sink_bias",
                  "swa_num_key_value_heads", "swa_num_attention_heads", "swa_head_dim",
                  "swa_v_head_dim", "hybrid_block_size")  # fmt: skip
    parts = _after_first(fields, sizes.layers, plain_feed_forward(fields, sizes), sparse)
    blocks = [before_both(norm, near if kind == SLIDING else far, part)
              for kind, part in zip(kinds, parts, strict=True)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


_CHUNKED = "chunked_attention"


def _llama4(fields: Fields) -> Decoder:
    """Llama 4: chunks in blocks with positions, growing queries in the others, one expert."""
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=128), rms_norm(fields, default=1e-5)
    interval = fields.integer("no_rope_layer_interval", default=4)
    usual = [int((i + 1) % interval != 0) for i in range(sizes.layers)]
    given = fields.list_of("no_rope_layers", (0, 1), sizes.layers) if (
        fields.get("no_rope_layers")) else None  # fmt: skip
    turns = given or usual
    bias = fields.flag("attention_bias", default=False)
    normalizes = fields.flag("use_qk_norm", default=True)
    tempers = fields.flag("attn_temperature_tuning", default=True)
    grows = Temperature(
        fields.number("attn_scale", default=0.1), fields.integer("floor_scale", default=8192), 1
    )
    near = attention_of(
        sizes, rotary=replace(rotary_of(fields, sizes, theta=5e5), interleaved=True), bias=bias,
        output_bias=bias, norm=replace(norm, weight=False) if normalizes else None,
        norm_after_rotary=True, chunk=fields.integer("attention_chunk_size", default=8192),
    )  # fmt: skip
    far = attention_of(
        sizes, bias=bias, output_bias=bias, temperature=grows if tempers else None
    )  # fmt: skip
    fields.list_of("layer_types", (FULL, _CHUNKED), sizes.layers)
    wide = fields.integer("intermediate_size_mlp", default=16384)
    dense = FeedForward(wide, activation_of(fields))
    count = fields.integer("num_local_experts", "num_experts", default=16, most=MOST_EXPERTS)
    experts = Experts(
        count, fields.integer("num_experts_per_tok", default=1, most=count), normalized=False,
        score="Sigmoid", shared=replace(dense, width=sizes.width), weighs_input=True,
    )  # fmt: skip
    step = fields.integer("interleave_moe_layer_step", default=1)
    chosen = fields.get("moe_layers")
    chosen = range(step - 1, sizes.layers, step) if chosen is None else chosen
    sparse = routed(fields, experts, width=sizes.width)
    fields.ignore("for_llm_compressor")
    blocks = [before_both(norm, near if turn else far, sparse if i in chosen else dense)
              for i, turn in enumerate(turns)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "sarvam_moe": _sarvam_moe,
    "mellum": _mellum,
    "granite_swa": _granite_swa,
    "granitemoe_swa": _granite_moe_swa,
    "qwen2_moe": _qwen2_moe,
    "granitemoe": _granite_moe,
    "granitemoeshared": lambda fields: _granite_moe(fields, shared=True),
    "glm4_moe": _glm4_moe,
    "solar_open": _solar_open,
    "aria_text": _aria,
    "dots1": _dots1,
    "hunyuan_v1_moe": _hunyuan_moe,
    "minimax_m2": _minimax_m2,
    "gpt_oss": _gpt_oss,
    "llama4_text": _llama4,
    "phimoe": _phimoe,
    "afmoe": _afmoe,
    "laguna": _laguna,
    "mimo_v2_flash": _mimo,
}
"""Families by ``model_type``."""

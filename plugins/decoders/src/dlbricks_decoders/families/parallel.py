"""Families whose attention and feed-forward parts have the same input and are summed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import FeedForward, JoinedProjections
from dlbricks_decoders.families.parts import (
    FULL,
    SLIDING,
    activation_of,
    attention_of,
    before_both,
    count_of,
    decoder_with,
    experts_of,
    in_pairs,
    kinds_of,
    layer_norm,
    rms_norm,
    rotary_of,
    routed,
    sizes_of,
    with_attention,
)
from dlbricks_decoders.fields import Fields
from dlbricks_decoders.rotary import rotary


def _gptj(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields, "layer_norm_epsilon")
    fields.only("rotary", True)
    fields.only("scale_attn_weights", True)
    turned = in_pairs(fields, sizes, fields.integer("rotary_dim", default=64))
    turns = replace(rotary(Fields({}, ""), 10000.0, turned, sizes.longest), interleaved=True)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "activation_function", default="gelu_new"), gated=False,
        bias=True,
    )  # fmt: skip
    block = Block(attention_of(sizes, rotary=turns), feed_forward, norm, parallel=True)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, head_bias=True)


def _codegen(fields: Fields) -> Decoder:
    """CodeGen: GPT-J with one weight for queries, keys and values."""
    plain = _gptj(fields.with_default("rotary", None))
    if plain.attentions[0].heads % 4:
        raise fields.refusal("n_head", plain.attentions[0].heads, "It has to be a multiple of 4.")
    return with_attention(plain, joined=JoinedProjections.IN_QUARTERS)


def _gpt_neox(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields)
    bias = fields.flag("attention_bias", default=True)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.25), joined=JoinedProjections.BY_HEAD,
        bias=bias, output_bias=bias,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, default="gelu"), gated=False, bias=True
    )
    block = replace(
        before_both(norm, attention, feed_forward),
        parallel=fields.flag("use_parallel_residual", default=True),
    )
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _phi(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields)
    fields.only("qk_layernorm", False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.5), bias=True, output_bias=True
    )
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, default="gelu_new"), gated=False, bias=True
    )
    block = Block(attention, feed_forward, before_attention=norm, parallel=True)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, head_bias=True)


def _stablelm(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields)
    fields.only("qk_layernorm", False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.25),
        bias=fields.flag("use_qkv_bias", default=False),
    )  # fmt: skip
    parallel = fields.flag("use_parallel_residual", default=False)
    block = Block(
        attention, FeedForward(sizes.width, activation_of(fields)), before_attention=norm,
        before_feed_forward=None if parallel else norm, parallel=parallel,
    )  # fmt: skip
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _falcon(fields: Fields) -> Decoder:
    """Falcon; its cache holds each head of keys once, where transformers repeats it."""
    fields.only("alibi", False)
    fields.only("parallel_attn", True)
    grouped = fields.flag("new_decoder_architecture", default=False)
    shared = fields.flag("multi_query", default=True)
    sizes = sizes_of(fields)
    kv_heads = sizes.kv_heads if grouped else 1 if shared else sizes.heads
    sizes = replace(sizes, kv_heads=kv_heads)
    norm = layer_norm(fields, "layer_norm_epsilon")
    norms = fields.integer("num_ln_in_parallel_attn", default=2 if grouped else 1)
    bias = fields.flag("bias", default=False)
    many = JoinedProjections.BY_GROUP if grouped else JoinedProjections.BY_HEAD
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias,
        joined=JoinedProjections.IN_ROW if shared and not grouped else many,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "activation", default="gelu"), gated=False, bias=bias
    )
    block = Block(
        attention, feed_forward, before_attention=norm, parallel=True,
        before_feed_forward=norm if grouped and norms > 1 else None,
    )  # fmt: skip
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, tied=True)


def _cohere(fields: Fields, theta: float = 500000.0) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields, bias=False)
    fields.only("use_qk_norm", False)
    bias = fields.flag("attention_bias", default=False)
    turns = replace(rotary_of(fields, sizes, theta), interleaved=True)
    attention = attention_of(sizes, rotary=turns, bias=bias, output_bias=bias)
    block = Block(
        attention, FeedForward(sizes.width, activation_of(fields)), before_attention=norm,
        parallel=True,
    )  # fmt: skip
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm, tied=True,
        logits_scale=fields.number("logit_scale", default=0.0625),
    )  # fmt: skip


def _cohere2(fields: Fields) -> Decoder:
    """Like Cohere; positions only in blocks that attend to a window, three of four by default."""
    plain = _cohere(fields, theta=10000.0)
    count, attention = len(plain.blocks), plain.attentions[0]
    pattern = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=4)
    kinds = kinds_of(fields, count, [SLIDING if (i + 1) % pattern else FULL for i in range(count)])
    near = replace(attention, window=fields.integer("sliding_window", default=4096))
    far = replace(attention, rotary=None)
    fields.ignore(
        "order_of_interleaved_layers", "rotary_pct", "use_embedding_sharing",
        "use_gated_activation", "use_parallel_block", "use_parallel_embedding",
    )  # fmt: skip
    blocks = [replace(plain.blocks[0], attention=near if kind == SLIDING else far)
              for kind in kinds]  # fmt: skip
    return replace(plain, blocks=tuple(blocks))


def _cohere2_moe(fields: Fields) -> Decoder:
    """Command A Plus: like Cohere 2, with experts after the first blocks, and shared ones."""
    sizes = sizes_of(fields, head_dim=128)
    dense = count_of(fields, "first_k_dense_replace", 0)
    near, before = (
        fields.integer(name, default=usual)
        for name, usual in (
            ("sliding_window_pattern", 4), ("prefix_dense_sliding_window_pattern", 1),
        )
    )  # fmt: skip
    usual = [SLIDING if (i + 1) % before else FULL for i in range(dense)]
    usual += [SLIDING if (i + 1) % near else FULL for i in range(sizes.layers - dense)]
    kinds = kinds_of(fields, sizes.layers, usual)
    names = fields.list_of("mlp_layer_types", ("dense", "sparse"), sizes.layers)
    names = names or ["dense" if i < dense else "sparse" for i in range(sizes.layers)]
    plain = _cohere(fields.replaced("layer_types", None), theta=10000.0)
    centered = fields.number("rms_norm_eps", default=None) is None
    norm = plain.norm if centered else rms_norm(fields)
    windowed = replace(plain.attentions[0], window=fields.integer("sliding_window", default=4096))
    far = replace(windowed, window=None, rotary=None)
    first = replace(windowed, window=None) if before == 1 else far
    part = FeedForward(sizes.width, activation_of(fields))
    wide = fields.integer("prefix_dense_intermediate_size", default=sizes.width)
    score = fields.choice("expert_selection_fn", _SCORES, default="softmax")
    experts = replace(experts_of(fields, 8, per_token=2, normalized=True), score=score)
    experts = replace(experts, normalized=experts.normalized or score == "Softmax")
    shared = count_of(fields, "num_shared_experts", 0)
    strategy = fields.get("shared_expert_combination_strategy") or "average"
    fields.only("shared_expert_combination_strategy", "average", "sum")
    if shared:
        weight = 0.5 if strategy == "average" else 1.0
        other = replace(part, width=sizes.width * shared, output_scale=weight)
        experts = replace(experts, scale=weight, shared=other)
    parts = {
        "dense": replace(part, width=wide),
        "sparse": routed(fields, experts, width=sizes.width),
    }
    blocks = [
        Block(windowed if kind == SLIDING else first if name == "dense" else far, parts[name],
              before_attention=norm, parallel=True)
        for kind, name in zip(kinds, names, strict=True)
    ]  # fmt: skip
    return replace(plain, blocks=tuple(blocks), norm=norm)


_SCORES: Mapping[str, str] = {"softmax": "Softmax", "sigmoid": "Sigmoid"}
"""ONNX operators that make weights of a router's results, by the names in configurations."""


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "phi": _phi,
    "stablelm": _stablelm,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "falcon": _falcon,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "codegen": _codegen,
    "cohere2_moe": _cohere2_moe,
}
"""Families by ``model_type``."""

"""Qwen: like Llama, with biases or norms of queries and keys, and a window for later blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import DeltaRule, FeedForward, Gate
from dlbricks_decoders.families.parts import (
    FULL,
    FamilySizes,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    experts_of,
    optional_window,
    plain_feed_forward,
    rms_norm,
    rotary_of,
    routed,
    sizes_of,
    sparse_or_dense,
    windowed,
)
from dlbricks_decoders.fields import Fields


def _qwen2(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes), bias=True)
    window, kinds = optional_window(fields, sizes.layers, 28)
    feed_forward = FeedForward(sizes.width, activation_of(fields))
    blocks = [before_both(norm, each, feed_forward)
              for each in windowed(attention, kinds, window)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


def _qwen3(fields: Fields) -> Decoder:
    sizes = sizes_of(fields, head_dim=128)
    return _qwen3_of(fields, sizes, [plain_feed_forward(fields, sizes)] * sizes.layers)


def _qwen3_of(fields: Fields, sizes: FamilySizes, parts: Sequence[FeedForward]) -> Decoder:
    norm, bias = rms_norm(fields), fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias, norm=norm
    )
    window, kinds = optional_window(fields, sizes.layers, 28)
    attentions = windowed(attention, kinds, window)
    blocks = [before_both(norm, *both) for both in zip(attentions, parts, strict=True)]
    return decoder_with(fields, sizes, blocks, norm)


def _qwen3_moe(fields: Fields) -> Decoder:
    """Qwen 3 with experts, in all blocks or in every so many of them."""
    sizes = sizes_of(fields)
    dense = plain_feed_forward(fields, sizes)
    width = fields.integer("moe_intermediate_size", default=768)
    sparse = routed(fields, experts_of(fields, 128), width=width)
    return _qwen3_of(fields, sizes, sparse_or_dense(fields, sizes.layers, dense, sparse))


def _linear_blocks(
    fields: Fields, sizes: FamilySizes, parts: Sequence[FeedForward], *, joined: bool
) -> Decoder:
    """Three of four blocks with linear attention by the delta rule, the others with gates."""
    norm, bias = rms_norm(fields), fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.25), bias=bias, output_bias=bias, norm=norm,
        gate=Gate(joined=True),
    )  # fmt: skip
    heads = fields.integer("linear_num_value_heads", default=32)
    groups = fields.integer("linear_num_key_heads", default=16)
    if heads % groups:
        raise fields.refusal("linear_num_key_heads", groups, f"It has to divide {heads} heads.")
    fields.only("attn_output_gate", True)
    fields.only("hidden_act", "silu")
    fields.ignore("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype")
    delta = DeltaRule(
        heads, groups, fields.integer("linear_key_head_dim", default=128),
        fields.integer("linear_value_head_dim", default=128),
        fields.integer("linear_conv_kernel_dim", default=4), norm, joined,
    )  # fmt: skip
    every = fields.integer("full_attention_interval", default=4)
    usual = [_LINEAR if (i + 1) % every else FULL for i in range(sizes.layers)]
    kinds = fields.list_of("layer_types", (_LINEAR, FULL), sizes.layers) or usual
    blocks = [
        before_both(norm, attention, part) if kind == FULL
        else Block(None, part, before_attention=norm, before_feed_forward=norm, delta=delta)
        for kind, part in zip(kinds, parts, strict=True)
    ]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


_LINEAR = "linear_attention"


def _sparse(fields: Fields, sizes: FamilySizes, *, experts: int, per_token: int) -> FeedForward:
    """Experts with a shared one that a gate weighs; the numbers are defaults."""
    width = fields.integer("shared_expert_intermediate_size", default=512)
    chosen = experts_of(fields, experts, per_token=per_token, normalized=True)
    shared = replace(plain_feed_forward(fields, sizes), width=width)
    return routed(
        fields, replace(chosen, shared=shared, shared_gate=True),
        width=fields.integer("moe_intermediate_size", default=512),
    )  # fmt: skip


def _qwen3_next(fields: Fields) -> Decoder:
    sizes = sizes_of(fields, kv_heads=2, head_dim=256, width=5632)
    dense = plain_feed_forward(fields, sizes)
    sparse = _sparse(fields, sizes, experts=512, per_token=10)
    parts = sparse_or_dense(fields, sizes.layers, dense, sparse)
    return _linear_blocks(fields, sizes, parts, joined=True)


def _qwen3_5(fields: Fields) -> Decoder:
    sizes = sizes_of(fields, kv_heads=4, head_dim=256)
    parts = [plain_feed_forward(fields, sizes)] * sizes.layers
    return _linear_blocks(fields, sizes, parts, joined=False)


def _qwen3_5_moe(fields: Fields) -> Decoder:
    sizes = sizes_of(fields, kv_heads=2, head_dim=256)
    parts = [_sparse(fields, sizes, experts=256, per_token=8)] * sizes.layers
    return _linear_blocks(fields, sizes, parts, joined=False)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "qwen3_5_text": _qwen3_5,
    "qwen3_5_moe_text": _qwen3_5_moe,
}
"""Families by ``model_type``."""

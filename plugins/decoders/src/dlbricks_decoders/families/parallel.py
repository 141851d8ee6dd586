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
    decoder_with,
    in_pairs,
    kinds_of,
    layer_norm,
    rotary_of,
    sizes_of,
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


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "phi": _phi,
    "stablelm": _stablelm,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "falcon": _falcon,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
}
"""Families by ``model_type``."""

"""GPT-2 and its successors: centered norms before both parts, and plain layers with biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.importers.decoders.architecture import (
    Block,
    Decoder,
    FeedForward,
    Joined,
    Norm,
)
from dlbricks_core.importers.decoders.families.parts import (
    TANH,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    layer_norm,
    rotary_of,
    sizes_of,
)
from dlbricks_core.importers.decoders.fields import Fields


def _gpt2(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields, "layer_norm_epsilon")
    fields.only("scale_attn_by_inverse_layer_idx", False)
    scaled = fields.flag("scale_attn_weights", default=True)
    attention = attention_of(
        sizes, joined=Joined.IN_ROW, bias=True, output_bias=True,
        scale=sizes.head_dim**-0.5 if scaled else 1.0,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "activation_function", default="gelu_new"), gated=False,
        bias=True,
    )  # fmt: skip
    block = before_both(norm, attention, feed_forward)
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm, tied=True, positions=sizes.longest
    )


_OPT_OFFSET = 2
"""Number of rows of OPT's learned positions before the first position."""


def _opt(fields: Fields) -> Decoder:
    sizes = sizes_of(fields)
    affine = fields.flag("layer_norm_elementwise_affine", default=True)
    norm = Norm(1e-5, centered=True, weight=affine, bias=affine)
    bias = fields.flag("enable_bias", default=True)
    attention = attention_of(sizes, bias=bias, output_bias=bias)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "activation_function", default="relu"), gated=False,
        bias=bias,
    )  # fmt: skip
    before = fields.flag("do_layer_norm_before", default=True)
    removed = fields.flag("_remove_final_layer_norm", default=False)
    block = (
        before_both(norm, attention, feed_forward)
        if before
        else Block(attention, feed_forward, attention_sum=norm, feed_forward_sum=norm)
    )
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm if before and not removed else None, tied=True,
        embedding=fields.integer("word_embed_proj_dim", default=sizes.hidden),
        positions=sizes.longest + _OPT_OFFSET, position_offset=_OPT_OFFSET,
    )  # fmt: skip


def _bloom(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields, "layer_norm_epsilon")
    fields.only("apply_residual_connection_post_layernorm", False)
    attention = attention_of(sizes, joined=Joined.BY_HEAD, bias=True, output_bias=True, alibi=True)
    feed_forward = FeedForward(sizes.width, TANH, gated=False, bias=True)
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, tied=True, embedding_norm=norm)


def _starcoder2(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, kv_heads=2), layer_norm(fields, "norm_epsilon")
    fields.only("norm_type", "layer_norm")
    fields.only("scale_attn_weights", True)
    fields.only("mlp_type", "default")
    bias = fields.flag("use_bias", default=True)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias,
        window=fields.integer("sliding_window", default=None),
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, default="gelu_pytorch_tanh"), gated=False, bias=bias
    )
    return decoder_with(
        fields, sizes, [before_both(norm, attention, feed_forward)] * sizes.layers, norm, tied=True
    )


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "starcoder2": _starcoder2,
    "gpt2": _gpt2,
    "opt": _opt,
    "bloom": _bloom,
}
"""Families by ``model_type``."""

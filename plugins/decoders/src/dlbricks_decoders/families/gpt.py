"""GPT-2 and its successors: centered norms before both parts, and plain layers with biases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import Activation, FeedForward, JoinedProjections, Norm
from dlbricks_decoders.families.parts import (
    FAST_GELU,
    NEW_GELU,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    layer_norm,
    rotary_of,
    sizes_of,
    with_attention,
)
from dlbricks_decoders.fields import Fields


def _gpt2(fields: Fields, activation: str = "gelu_new") -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields, "layer_norm_epsilon")
    fields.only("scale_attn_by_inverse_layer_idx", False)
    scaled = fields.flag("scale_attn_weights", default=True)
    attention = attention_of(
        sizes, joined=JoinedProjections.IN_ROW, bias=True, output_bias=True,
        scale=sizes.head_dim**-0.5 if scaled else 1.0,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "activation_function", default=activation), gated=False,
        bias=True,
    )  # fmt: skip
    block = before_both(norm, attention, feed_forward)
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm, tied=True, positions=sizes.longest
    )


_FIRST_GPT: Mapping[str, Activation] = {
    "gelu": NEW_GELU, "relu": Activation("Relu"), "silu": Activation("Swish"),
    "swish": Activation("Swish"),
}  # fmt: skip
"""Activation functions of the first GPT, whose gelu is the approximate one."""


def _openai_gpt(fields: Fields) -> Decoder:
    """The first GPT: norms follow the sums, and there is none after the last block."""
    plain = _gpt2(fields)
    dense = plain.blocks[0].feed_forward
    activation = fields.choice("afn", _FIRST_GPT, default="gelu")
    part = dense and replace(dense, activation=activation)
    block = Block(plain.attentions[0], part, attention_sum=plain.norm, feed_forward_sum=plain.norm)
    return replace(plain, blocks=(block,) * len(plain.blocks), norm=None)


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


def _biogpt(fields: Fields) -> Decoder:
    """BioGPT and XGLM: like OPT, with a scaled embedding; XGLM computes its positions."""
    heads = fields.get("attention_heads")
    sizes = sizes_of(fields.with_default("num_attention_heads", heads) if heads else fields)
    norm = Norm(1e-5, centered=True, bias=True)
    attention = attention_of(sizes, bias=True, output_bias=True)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "hidden_act", "activation_function", default="gelu"),
        gated=False, bias=True,
    )  # fmt: skip
    scale = math.sqrt(sizes.hidden) if fields.flag("scale_embedding", default=True) else 1.0
    fields.ignore("layer_norm_eps", "hidden_dropout_prob", "layerdrop", "activation_dropout")
    return decoder_with(
        fields, sizes, [before_both(norm, attention, feed_forward)] * sizes.layers, norm, tied=True,
        embedding_scale=scale, positions=sizes.longest + _OPT_OFFSET, position_offset=_OPT_OFFSET,
    )  # fmt: skip


def _bloom(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields, "layer_norm_epsilon")
    fields.only("apply_residual_connection_post_layernorm", False)
    attention = attention_of(
        sizes, joined=JoinedProjections.BY_HEAD, bias=True, output_bias=True, alibi=True
    )
    feed_forward = FeedForward(sizes.width, FAST_GELU, gated=False, bias=True)
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


def _gpt_bigcode(fields: Fields) -> Decoder:
    """SantaCoder and StarCoder: like GPT-2, with one head of keys and values."""
    shared = fields.flag("multi_query", default=True)
    plain = _gpt2(fields, activation="gelu_pytorch_tanh")
    fields.ignore("inference_runner", "validate_runner_input", "pre_allocate_kv_cache",
                  "max_batch_size")  # fmt: skip
    return with_attention(
        plain,
        kv_heads=1 if shared else plain.attentions[0].heads,
        joined=JoinedProjections.IN_ROW if shared else JoinedProjections.BY_HEAD,
    )


_LOCAL, _GLOBAL = "local", "global"


def _gpt_neo(fields: Fields) -> Decoder:
    """Blocks that attend to all positions, and blocks that attend to a window, without a scale."""
    sizes, norm = sizes_of(fields), layer_norm(fields, "layer_norm_epsilon")
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "activation_function", default="gelu_new"), gated=False,
        bias=True,
    )  # fmt: skip
    window = fields.integer("window_size", default=256)
    fields.ignore("attention_types")
    usual = [(_GLOBAL, _LOCAL)[i % 2] for i in range(sizes.layers)]
    kinds = fields.list_of("attention_layers", (_GLOBAL, _LOCAL), sizes.layers) or usual
    attention = attention_of(sizes, output_bias=True, scale=1.0)
    near = replace(attention, window=window)
    blocks = [before_both(norm, near if kind == _LOCAL else attention, feed_forward)
              for kind in kinds]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm, tied=True, positions=sizes.longest)


def _mpt(fields: Fields) -> Decoder:
    """MPT: scores fall with the distance, and no layer has a bias."""
    sizes = sizes_of(fields)
    norm = Norm(fields.positive("layer_norm_epsilon", default=1e-5), centered=True)
    part = fields.part("attn_config")
    part.only("alibi", True)
    part.only("alibi_bias_max", 8)
    part.only("qk_ln", False)
    part.only("prefix_lm", False)
    part.only("attn_type", "multihead_attention")
    part.ignore("attn_impl", "attn_uses_sequence_id", "model_type")
    fields.only("no_bias", True)
    fields.only("expansion_ratio", 4)
    fields.only("logit_scale", None)
    fields.ignore("learned_pos_emb", "init_device", "norm_type", "embedding_fraction", "verbose",
                  "init_config")  # fmt: skip
    attention = attention_of(
        sizes, joined=JoinedProjections.IN_ROW, alibi=True,
        clip=part.number("clip_qkv", default=None),
        scale=part.number("softmax_scale", default=sizes.head_dim**-0.5),
    )  # fmt: skip
    part.check_all_read()
    block = before_both(norm, attention, FeedForward(
        4 * sizes.hidden, Activation("Gelu", "none"), gated=False))  # fmt: skip
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, tied=True)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "starcoder2": _starcoder2,
    "gpt2": _gpt2,
    "openai-gpt": _openai_gpt,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neo": _gpt_neo,
    "mpt": _mpt,
    "opt": _opt,
    "biogpt": _biogpt,
    "xglm": _biogpt,
    "bloom": _bloom,
}
"""Families by ``model_type``."""

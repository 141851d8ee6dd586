"""Families of language models: how the configuration of each is to be understood.

Each function follows the definition of its family in the transformers library. The value that a
field has if a configuration leaves it out is that library's.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dlbricks_core.errors import ModelError, shown
from dlbricks_core.importers.decoders.architecture import (
    Activation,
    Attention,
    Block,
    Decoder,
    Experts,
    FeedForward,
    Joined,
    Norm,
    Rotary,
)
from dlbricks_core.importers.decoders.fields import Fields
from dlbricks_core.importers.decoders.rotary import rotary

_TANH = Activation("Gelu", "tanh")

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": Activation("Swish"),
    "swish": Activation("Swish"),
    "gelu": Activation("Gelu", "none"),
    "gelu_python": Activation("Gelu", "none"),
    "gelu_new": _TANH,
    "gelu_fast": _TANH,
    "gelu_pytorch_tanh": _TANH,
    "relu": Activation("Relu"),
}
"""Activation functions by the names that configurations use."""

_MOST_BLOCKS, _MOST_EXPERTS = 1024, 1024

_FULL, _SLIDING = "full_attention", "sliding_attention"


def decoder_of(values: Any, source: str) -> Decoder:
    """The decoder that a configuration describes.

    Args:
        values: The configuration, as JSON holds it.
        source: Its name for messages.

    Raises:
        ModelError: If decoders of its family are not built here, or a field is missing, unknown
            or has a value that they are not built for.
    """
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise ModelError(
            f"{source} is no configuration of a language model: it has no model_type",
            hint="Name the config.json that the model ships with.",
        )
    family = values["model_type"]
    known = ", ".join(FAMILIES)
    if family not in FAMILIES and isinstance(values.get("text_config"), dict):
        raise ModelError(
            f"{source}: model_type {shown(family)} reads more than text, which is not supported",
            hint="Its text_config describes the language model: make that a file of its own.",
        )
    if family not in FAMILIES:
        near = difflib.get_close_matches(family, FAMILIES, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise ModelError(
            f"{source}: model_type {shown(family)} is not supported",
            hint=f"Supported: {known}.{meant}",
        )
    fields = Fields(values, source)
    if "quantization_config" in fields:
        raise ModelError(
            f"{source}: quantized weights are not supported (quantization_config)",
            hint="Remove the field for the model with 32-bit weights.",
        )
    fields.only("is_encoder_decoder", False)
    fields.only("add_cross_attention", False)
    decoder = FAMILIES[family](fields)
    fields.check_all_read()
    return replace(decoder, family=family)


@dataclass(frozen=True)
class _Sizes:
    """Sizes that every family has."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    longest: int
    width: int


def _sizes(fields: Fields, **defaults: Any) -> _Sizes:
    """Sizes of a decoder, whatever a family calls them; defaults are those of the family."""
    hidden = fields.integer("hidden_size", "n_embed", "n_embd")
    heads = fields.integer("num_attention_heads", "n_head")
    usual = heads if fields.given("num_key_value_heads") else defaults.get("kv_heads", heads)
    kv_heads = fields.integer("num_key_value_heads", "num_kv_heads", default=usual)
    if heads % kv_heads:
        raise fields.refusal("num_key_value_heads", kv_heads, f"It has to divide {heads} heads.")
    head_dim = fields.integer("head_dim", default=defaults.get("head_dim"))
    if head_dim is None and hidden % heads:
        raise fields.refusal("num_attention_heads", heads, f"It has to divide {hidden} elements.")
    return _Sizes(
        fields.integer("vocab_size"),
        hidden,
        fields.integer("num_hidden_layers", "n_layer", most=_MOST_BLOCKS),
        heads,
        kv_heads,
        head_dim or hidden // heads,
        fields.integer("max_position_embeddings", "n_positions", default=2048),
        fields.integer("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size",
                       default=defaults.get("width", 4 * hidden)),
    )  # fmt: skip


def _activation(fields: Fields, *names: str, default: str = "silu") -> Activation:
    found: Activation = fields.choice(*(names or ("hidden_act",)), ACTIVATIONS, default=default)
    return found


def _norm(fields: Fields, name: str = "rms_norm_eps", default: float = 1e-6) -> Norm:
    return Norm(fields.number(name, default=default))


def _layer_norm(fields: Fields, *names: str, bias: bool = True) -> Norm:
    epsilon = fields.number(*(names or ("layer_norm_eps",)), default=1e-5)
    return Norm(epsilon, centered=True, bias=bias)


def _rotary(
    fields: Fields, sizes: _Sizes, theta: float = 10000.0, share: float = 1.0, kind: str = ""
) -> Rotary:
    """The rotary embedding of all blocks, or of those of one kind.

    Args:
        fields: The configuration.
        sizes: Sizes of the decoder.
        theta: Base of the frequencies where the configuration has none.
        share: Share of a head that is rotated where the configuration does not say.
        kind: Kind of attention; empty where all blocks have the same.
    """
    scaling = fields.part("rope_parameters", "rope_scaling")
    if kind and kind in scaling:
        scaling.ignore(_FULL, _SLIDING)
        scaling = scaling.part(kind)
    named_theta = fields.positive("rope_theta", "rotary_emb_base", default=theta)
    theta = scaling.positive("rope_theta", default=named_theta)
    named_share = fields.number("partial_rotary_factor", "rotary_pct", default=share)
    share = scaling.number("partial_rotary_factor", default=named_share)
    before = fields.integer("original_max_position_embeddings", default=None)
    if before is not None:
        scaling = scaling.with_default("original_max_position_embeddings", before)
    found = rotary(scaling, theta, int(sizes.head_dim * share), sizes.longest)
    scaling.check_all_read()
    return found


def _kinds(fields: Fields, layers: int, usual: Sequence[str]) -> list[str]:
    """Kind of attention of each block."""
    return fields.list_of("layer_types", (_FULL, _SLIDING), layers) or list(usual)


def _attention(sizes: _Sizes, **more: Any) -> Attention:
    return Attention(
        sizes.heads, sizes.kv_heads, sizes.head_dim,
        **{"scale": sizes.head_dim**-0.5, **more},
    )  # fmt: skip


def _before_both(norm: Norm, attention: Attention, feed_forward: FeedForward) -> Block:
    """A block that normalizes what each of its parts reads."""
    return Block(attention, feed_forward, before_attention=norm, before_feed_forward=norm)


def _decoder(fields: Fields, sizes: _Sizes, blocks: Sequence[Block], norm: Norm | None,
             *, tied: bool = False, **more: Any) -> Decoder:  # fmt: skip
    tied = fields.flag("tie_word_embeddings", default=tied)
    return Decoder(
        "", sizes.vocabulary, sizes.hidden, tuple(blocks), norm, tied=tied,
        **{"embedding": sizes.hidden, **more},
    )  # fmt: skip


def _windowed(attention: Attention, kinds: Sequence[str], window: int | None) -> list[Attention]:
    """The attention of each block, by its kind."""
    near = replace(attention, window=window)
    return [near if kind == _SLIDING else attention for kind in kinds]


def _llama(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = _attention(sizes, rotary=_rotary(fields, sizes), bias=bias, output_bias=bias)
    feed_forward = FeedForward(
        sizes.width, _activation(fields), bias=fields.flag("mlp_bias", default=False)
    )
    block = _before_both(norm, attention, feed_forward)
    return _decoder(fields, sizes, [block] * sizes.layers, norm)


def _granite(fields: Fields) -> Decoder:
    """Like Llama, with factors for the embedding, the scores, the sums and the logits."""
    residual = fields.number("residual_multiplier", default=1.0)
    scale = fields.number("attention_multiplier", default=1.0)
    plain = _llama(fields)
    attention = replace(plain.blocks[0].attention, scale=scale)
    block = replace(plain.blocks[0], attention=attention, residual_scale=residual)
    return replace(
        plain,
        blocks=(block,) * len(plain.blocks),
        embedding_scale=fields.number("embedding_multiplier", default=1.0),
        logits_scale=1.0 / fields.positive("logits_scaling", default=1.0),
    )


def _mistral(
    fields: Fields,
    experts: Experts | None = None,
    epsilon: float = 1e-6,
    theta: float = 10000.0,
    usual_window: int | None = 4096,
) -> Decoder:
    sizes, norm = _sizes(fields, kv_heads=8), _norm(fields, default=epsilon)
    attention = _attention(sizes, rotary=_rotary(fields, sizes, theta))
    usual = None if fields.given("sliding_window") else usual_window
    window = fields.integer("sliding_window", default=usual)
    kinds = _kinds(fields, sizes.layers, [_SLIDING] * sizes.layers)
    feed_forward = FeedForward(
        sizes.width, _activation(fields), joined=experts is not None, experts=experts
    )
    blocks = [_before_both(norm, each, feed_forward)
              for each in _windowed(attention, kinds, window)]  # fmt: skip
    return _decoder(fields, sizes, blocks, norm)


def _mixtral(fields: Fields) -> Decoder:
    count = fields.integer("num_local_experts", "num_experts", default=8, most=_MOST_EXPERTS)
    experts = Experts(count, fields.integer("num_experts_per_tok", default=2))
    return _mistral(fields, experts, epsilon=1e-5, theta=1e6, usual_window=None)


def _smollm3(fields: Fields) -> Decoder:
    """Like Llama; the last of every four blocks does not know positions."""
    sizes, norm = _sizes(fields, kv_heads=4), _norm(fields)
    bias = fields.flag("attention_bias", default=False)
    interval = fields.integer("no_rope_layer_interval", default=4)
    usual = [int((i + 1) % interval != 0) for i in range(sizes.layers)]
    rotated = fields.list_of("no_rope_layers", (0, 1), sizes.layers) or usual
    window, kinds = _optional_window(fields, sizes.layers, 0)
    embedding = _rotary(fields, sizes, theta=2e6)
    feed_forward = FeedForward(
        sizes.width, _activation(fields), bias=fields.flag("mlp_bias", default=False)
    )
    blocks = []
    for kind, turns in zip(kinds, rotated, strict=True):
        attention = _attention(
            sizes, rotary=embedding if turns else None, bias=bias, output_bias=bias,
            window=window if kind == _SLIDING else None,
        )  # fmt: skip
        blocks.append(_before_both(norm, attention, feed_forward))
    return _decoder(fields, sizes, blocks, norm, tied=True)


def _optional_window(fields: Fields, layers: int, first: int) -> tuple[int | None, list[str]]:
    """Window of Qwen's configurations, and the kind of attention of each block."""
    used = fields.flag("use_sliding_window", default=False)
    window = fields.integer("sliding_window", default=None) if used else None
    fields.ignore("sliding_window")
    first = fields.integer("max_window_layers", default=first) if used and first else first
    fields.ignore("max_window_layers")
    slides = [used and i >= first for i in range(layers)]
    return window, _kinds(fields, layers, [_SLIDING if each else _FULL for each in slides])


def _qwen2(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _norm(fields)
    attention = _attention(sizes, rotary=_rotary(fields, sizes), bias=True)
    window, kinds = _optional_window(fields, sizes.layers, 28)
    feed_forward = FeedForward(sizes.width, _activation(fields))
    blocks = [_before_both(norm, each, feed_forward)
              for each in _windowed(attention, kinds, window)]  # fmt: skip
    return _decoder(fields, sizes, blocks, norm)


def _qwen3(
    fields: Fields, experts: Experts | None = None, width: int = 0, head_dim: int | None = 128
) -> Decoder:
    sizes, norm = _sizes(fields, head_dim=head_dim), _norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes), bias=bias, output_bias=bias, norm=norm
    )
    window, kinds = _optional_window(fields, sizes.layers, 28)
    feed_forward = FeedForward(
        width or sizes.width, _activation(fields), joined=experts is not None, experts=experts
    )
    blocks = [_before_both(norm, each, feed_forward)
              for each in _windowed(attention, kinds, window)]  # fmt: skip
    return _decoder(fields, sizes, blocks, norm)


def _qwen3_moe(fields: Fields) -> Decoder:
    fields.only("decoder_sparse_step", 1)
    fields.only("mlp_only_layers", [])
    experts = Experts(
        fields.integer("num_experts", "num_local_experts", default=128, most=_MOST_EXPERTS),
        fields.integer("num_experts_per_tok", default=8),
        fields.flag("norm_topk_prob", default=False),
    )
    width = fields.integer("moe_intermediate_size", default=768)
    return _qwen3(fields, experts, width, head_dim=None)


def _olmoe(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _norm(fields, default=1e-5)
    fields.only("attention_bias", False)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes), norm=norm, norm_by_head=False, clip=_clip(fields)
    )
    experts = Experts(
        fields.integer("num_experts", "num_local_experts", default=64, most=_MOST_EXPERTS),
        fields.integer("num_experts_per_tok", default=8),
        fields.flag("norm_topk_prob", default=False),
    )
    feed_forward = FeedForward(sizes.width, _activation(fields), joined=True, experts=experts)
    return _decoder(
        fields, sizes, [_before_both(norm, attention, feed_forward)] * sizes.layers, norm
    )


def _clip(fields: Fields) -> float | None:
    found: float | None = fields.number("clip_qkv", default=None)
    return found


def _gemma(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields, head_dim=256), _norm(fields)
    fields.only("use_bidirectional_attention", False)
    fields.only("attention_bias", False)
    attention = _attention(sizes, rotary=_rotary(fields, sizes))
    feed_forward = FeedForward(
        sizes.width, _activation(fields, "hidden_activation", "hidden_act", default="gelu_new")
    )
    return _decoder(
        fields, sizes, [_before_both(norm, attention, feed_forward)] * sizes.layers, norm,
        tied=True, embedding_scale=math.sqrt(sizes.hidden),
    )  # fmt: skip


def _gemma_alternating(
    fields: Fields, pattern: int, *, normalized: bool, local_theta: float | None
) -> Decoder:
    """Gemma 2 and 3: every ``pattern``-th block sees all positions, others a window."""
    sizes, norm = _sizes(fields, head_dim=256), _norm(fields)
    fields.only("use_bidirectional_attention", False)
    fields.only("attention_bias", False)
    pattern = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=pattern)
    usual = [_FULL if (i + 1) % pattern == 0 else _SLIDING for i in range(sizes.layers)]
    kinds = _kinds(fields, sizes.layers, usual)
    attention = _attention(
        sizes,
        rotary=_rotary(fields, sizes, theta=1e6 if local_theta else 10000.0, kind=_FULL),
        scale=fields.positive("query_pre_attn_scalar", default=256.0) ** -0.5,
        softcap=fields.number("attn_logit_softcapping", default=0.0),
        norm=norm if normalized else None,
    )
    near = attention
    if local_theta:
        near = replace(attention, rotary=_local_rotary(fields, sizes, local_theta))
    near = replace(near, window=fields.integer("sliding_window", default=4096))
    feed_forward = FeedForward(
        sizes.width, _activation(fields, "hidden_activation", "hidden_act", default="gelu_new")
    )
    around = partial(
        Block, feed_forward=feed_forward, before_attention=norm, after_attention=norm,
        before_feed_forward=norm, after_feed_forward=norm,
    )  # fmt: skip
    return _decoder(
        fields, sizes,
        [around(near if kind == _SLIDING else attention) for kind in kinds], norm,
        tied=True, embedding_scale=math.sqrt(sizes.hidden),
        softcap=fields.number("final_logit_softcapping", default=0.0),
    )  # fmt: skip


def _local_rotary(fields: Fields, sizes: _Sizes, theta: float) -> Rotary:
    """The rotary embedding of blocks that see a window, which no scaling applies to."""
    if _SLIDING in fields.part("rope_parameters"):
        return _rotary(fields, sizes, theta, kind=_SLIDING)
    base = fields.positive("rope_local_base_freq", default=theta)
    return rotary(Fields({}, ""), base, sizes.head_dim, sizes.longest)


def _olmo(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), Norm(1e-5, centered=True, weight=False)
    bias = fields.flag("attention_bias", default=False)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes), bias=bias, output_bias=bias, clip=_clip(fields)
    )
    block = _before_both(norm, attention, FeedForward(sizes.width, _activation(fields)))
    return _decoder(fields, sizes, [block] * sizes.layers, norm)


def _olmo2(fields: Fields, pattern: int = 0) -> Decoder:
    """OLMo 2 and 3: what each part gives is normalized; of OLMo 3, most blocks see a window."""
    sizes, norm = _sizes(fields), _norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    attention = _attention(
        sizes,
        rotary=_rotary(fields, sizes, theta=500000.0 if pattern else 10000.0, kind=_FULL),
        bias=bias, output_bias=bias, norm=norm, norm_by_head=False,
    )  # fmt: skip
    attentions = [attention] * sizes.layers
    if pattern:
        near = replace(
            attention,
            rotary=_local_or_plain(fields, sizes),
            window=fields.integer("sliding_window", default=4096),
        )
        usual = [_FULL if (i + 1) % pattern == 0 else _SLIDING for i in range(sizes.layers)]
        attentions = [near if kind == _SLIDING else attention
                      for kind in _kinds(fields, sizes.layers, usual)]  # fmt: skip
    feed_forward = FeedForward(sizes.width, _activation(fields))
    after = partial(Block, feed_forward=feed_forward, after_attention=norm, after_feed_forward=norm)
    return _decoder(fields, sizes, [after(each) for each in attentions], norm)


def _local_or_plain(fields: Fields, sizes: _Sizes) -> Rotary:
    theta = fields.positive("rope_theta", default=500000.0)
    return _local_rotary(fields, sizes, theta)


def _phi(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields)
    fields.only("qk_layernorm", False)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes, share=0.5), bias=True, output_bias=True
    )
    feed_forward = FeedForward(
        sizes.width, _activation(fields, default="gelu_new"), gated=False, bias=True
    )
    block = Block(attention, feed_forward, before_attention=norm, parallel=True)
    return _decoder(fields, sizes, [block] * sizes.layers, norm, head_bias=True)


def _phi3(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _norm(fields, default=1e-5)
    fields.only("attention_bias", False)
    fields.only("interpolate_factor", 1)
    fields.only("full_attn_mod", 1)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes), joined=Joined.IN_ROW,
        window=fields.integer("sliding_window", default=None),
    )  # fmt: skip
    block = _before_both(
        norm, attention, FeedForward(sizes.width, _activation(fields), joined=True)
    )
    return _decoder(fields, sizes, [block] * sizes.layers, norm)


def _gpt2(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields, "layer_norm_epsilon")
    fields.only("scale_attn_by_inverse_layer_idx", False)
    scaled = fields.flag("scale_attn_weights", default=True)
    attention = _attention(
        sizes, joined=Joined.IN_ROW, bias=True, output_bias=True,
        scale=sizes.head_dim**-0.5 if scaled else 1.0,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, _activation(fields, "activation_function", default="gelu_new"), gated=False,
        bias=True,
    )  # fmt: skip
    block = _before_both(norm, attention, feed_forward)
    return _decoder(fields, sizes, [block] * sizes.layers, norm, tied=True, positions=sizes.longest)


_OPT_OFFSET = 2
"""Rows of OPT's learned positions before the first."""


def _opt(fields: Fields) -> Decoder:
    sizes = _sizes(fields)
    affine = fields.flag("layer_norm_elementwise_affine", default=True)
    norm = Norm(1e-5, centered=True, weight=affine, bias=affine)
    bias = fields.flag("enable_bias", default=True)
    attention = _attention(sizes, bias=bias, output_bias=bias)
    feed_forward = FeedForward(
        sizes.width, _activation(fields, "activation_function", default="relu"), gated=False,
        bias=bias,
    )  # fmt: skip
    before = fields.flag("do_layer_norm_before", default=True)
    removed = fields.flag("_remove_final_layer_norm", default=False)
    block = (
        _before_both(norm, attention, feed_forward)
        if before
        else Block(attention, feed_forward, attention_sum=norm, feed_forward_sum=norm)
    )
    return _decoder(
        fields, sizes, [block] * sizes.layers, norm if before and not removed else None, tied=True,
        embedding=fields.integer("word_embed_proj_dim", default=sizes.hidden),
        positions=sizes.longest + _OPT_OFFSET, position_offset=_OPT_OFFSET,
    )  # fmt: skip


def _bloom(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields, "layer_norm_epsilon")
    fields.only("apply_residual_connection_post_layernorm", False)
    attention = _attention(sizes, joined=Joined.BY_HEAD, bias=True, output_bias=True, alibi=True)
    feed_forward = FeedForward(sizes.width, _TANH, gated=False, bias=True)
    block = _before_both(norm, attention, feed_forward)
    return _decoder(fields, sizes, [block] * sizes.layers, norm, tied=True, embedding_norm=norm)


def _gpt_neox(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields)
    bias = fields.flag("attention_bias", default=True)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes, share=0.25), joined=Joined.BY_HEAD,
        bias=bias, output_bias=bias,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, _activation(fields, default="gelu"), gated=False, bias=True
    )
    block = replace(
        _before_both(norm, attention, feed_forward),
        parallel=fields.flag("use_parallel_residual", default=True),
    )
    return _decoder(fields, sizes, [block] * sizes.layers, norm)


def _gptj(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields, "layer_norm_epsilon")
    fields.only("rotary", True)
    fields.only("scale_attn_weights", True)
    turned = fields.integer("rotary_dim", default=64)
    turns = replace(rotary(Fields({}, ""), 10000.0, turned, sizes.longest), interleaved=True)
    feed_forward = FeedForward(
        sizes.width, _activation(fields, "activation_function", default="gelu_new"), gated=False,
        bias=True,
    )  # fmt: skip
    block = Block(_attention(sizes, rotary=turns), feed_forward, norm, parallel=True)
    return _decoder(fields, sizes, [block] * sizes.layers, norm, head_bias=True)


def _falcon(fields: Fields) -> Decoder:
    """Falcon; its cache holds each head of keys once, where transformers repeats it."""
    fields.only("alibi", False)
    fields.only("parallel_attn", True)
    grouped = fields.flag("new_decoder_architecture", default=False)
    shared = fields.flag("multi_query", default=True)
    sizes = _sizes(fields)
    kv_heads = sizes.kv_heads if grouped else 1 if shared else sizes.heads
    sizes = replace(sizes, kv_heads=kv_heads)
    norm = _layer_norm(fields, "layer_norm_epsilon")
    norms = fields.integer("num_ln_in_parallel_attn", default=2 if grouped else 1)
    bias = fields.flag("bias", default=False)
    many = Joined.BY_GROUP if grouped else Joined.BY_HEAD
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes), bias=bias, output_bias=bias,
        joined=Joined.IN_ROW if shared and not grouped else many,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, _activation(fields, "activation", default="gelu"), gated=False, bias=bias
    )
    block = Block(
        attention, feed_forward, before_attention=norm, parallel=True,
        before_feed_forward=norm if grouped and norms > 1 else None,
    )  # fmt: skip
    return _decoder(fields, sizes, [block] * sizes.layers, norm, tied=True)


def _stablelm(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields)
    fields.only("qk_layernorm", False)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes, share=0.25),
        bias=fields.flag("use_qkv_bias", default=False),
    )  # fmt: skip
    parallel = fields.flag("use_parallel_residual", default=False)
    block = Block(
        attention, FeedForward(sizes.width, _activation(fields)), before_attention=norm,
        before_feed_forward=None if parallel else norm, parallel=parallel,
    )  # fmt: skip
    return _decoder(fields, sizes, [block] * sizes.layers, norm)


def _starcoder2(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields, kv_heads=2), _layer_norm(fields, "norm_epsilon")
    fields.only("norm_type", "layer_norm")
    fields.only("scale_attn_weights", True)
    fields.only("mlp_type", "default")
    bias = fields.flag("use_bias", default=True)
    attention = _attention(
        sizes, rotary=_rotary(fields, sizes), bias=bias, output_bias=bias,
        window=fields.integer("sliding_window", default=None),
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, _activation(fields, default="gelu_pytorch_tanh"), gated=False, bias=bias
    )
    return _decoder(
        fields, sizes, [_before_both(norm, attention, feed_forward)] * sizes.layers, norm, tied=True
    )


def _cohere(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), _layer_norm(fields, bias=False)
    fields.only("use_qk_norm", False)
    bias = fields.flag("attention_bias", default=False)
    turns = replace(_rotary(fields, sizes, theta=500000.0), interleaved=True)
    attention = _attention(sizes, rotary=turns, bias=bias, output_bias=bias)
    block = Block(
        attention, FeedForward(sizes.width, _activation(fields)), before_attention=norm,
        parallel=True,
    )  # fmt: skip
    return _decoder(
        fields, sizes, [block] * sizes.layers, norm, tied=True,
        logits_scale=fields.number("logit_scale", default=0.0625),
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "gemma": _gemma,
    "gemma2": partial(_gemma_alternating, pattern=2, normalized=False, local_theta=None),
    "gemma3_text": partial(_gemma_alternating, pattern=6, normalized=True, local_theta=10000.0),
    "phi": _phi,
    "phi3": _phi3,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": partial(_olmo2, pattern=4),
    "olmoe": _olmoe,
    "smollm3": _smollm3,
    "granite": _granite,
    "starcoder2": _starcoder2,
    "stablelm": _stablelm,
    "cohere": _cohere,
    "falcon": _falcon,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "gpt2": _gpt2,
    "opt": _opt,
    "bloom": _bloom,
}
"""Families by ``model_type``."""

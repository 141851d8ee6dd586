"""Llama and its successors: root-mean-square norms before both parts, and gated layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import Experts, FeedForward, JoinedProjections, Temperature
from dlbricks_decoders.families.parts import (
    FULL,
    MOST_EXPERTS,
    SLIDING,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    kinds_of,
    optional_window,
    plain_feed_forward,
    rms_norm,
    rotary_of,
    sizes_of,
    windowed,
    with_attention,
)
from dlbricks_decoders.fields import Fields


def _llama(fields: Fields) -> Decoder:
    return _llama_with(fields)


def _llama_with(
    fields: Fields,
    epsilon: float = 1e-6,
    theta: float = 10000.0,
    usual: Mapping[str, Any] | None = None,
    **sizes_by_default: int,
) -> Decoder:
    sizes = sizes_of(fields, **sizes_by_default)
    norm = rms_norm(fields, default=epsilon)
    bias = fields.flag("attention_bias", "qkv_bias", default=False)
    turns = rotary_of(fields, sizes, theta, usual=usual)
    attention = attention_of(sizes, rotary=turns, bias=bias, output_bias=bias)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields), bias=fields.flag("mlp_bias", "bias", default=False)
    )
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def granite(fields: Fields, scale: float | None = 1.0) -> Decoder:
    """Like Llama, with factors for the embedding, the scores, the sums and the logits.

    Args:
        fields: The configuration.
        scale: Default factor of the scores; ``None`` for the usual one.
    """
    residual = fields.number("residual_multiplier", default=1.0)
    plain = _llama(fields)
    usual = plain.attentions[0].scale if scale is None else scale
    plain = with_attention(plain, scale=fields.number("attention_multiplier", default=usual))
    return replace(
        plain,
        blocks=tuple(replace(block, residual_scale=residual) for block in plain.blocks),
        embedding_scale=fields.number("embedding_multiplier", default=1.0),
        logits_scale=1.0 / fields.positive("logits_scaling", default=1.0),
    )


def _smollm3(fields: Fields) -> Decoder:
    """Like Llama; the last of every four blocks has no position embedding."""
    sizes, norm = sizes_of(fields, kv_heads=4), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    interval = fields.integer("no_rope_layer_interval", default=4)
    usual = [int((i + 1) % interval != 0) for i in range(sizes.layers)]
    rotated = fields.list_of("no_rope_layers", (0, 1), sizes.layers) or usual
    window, kinds = optional_window(fields, sizes.layers, 0, usual=None)
    embedding = rotary_of(fields, sizes, theta=2e6)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields), bias=fields.flag("mlp_bias", default=False)
    )
    blocks = []
    for kind, turns in zip(kinds, rotated, strict=True):
        attention = attention_of(
            sizes, rotary=embedding if turns else None, bias=bias, output_bias=bias,
            window=window if kind == SLIDING else None,
        )  # fmt: skip
        blocks.append(before_both(norm, attention, feed_forward))
    return decoder_with(fields, sizes, blocks, norm, tied=True)


def _mistral(
    fields: Fields,
    experts: Experts | None = None,
    epsilon: float = 1e-6,
    theta: float = 10000.0,
    usual_window: int | None = 4096,
    usual: Mapping[str, Any] | None = None,
    head_dim: int | None = None,
) -> Decoder:
    sizes = sizes_of(fields, kv_heads=8, head_dim=head_dim)
    norm = rms_norm(fields, default=epsilon)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes, theta, usual=usual))
    absent = None if fields.given("sliding_window") else usual_window
    window = fields.integer("sliding_window", default=absent)
    kinds = kinds_of(fields, sizes.layers, [SLIDING] * sizes.layers)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields), joined=experts is not None, experts=experts
    )
    blocks = [before_both(norm, each, feed_forward)
              for each in windowed(attention, kinds, window)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


def _mixtral(fields: Fields) -> Decoder:
    count = fields.integer("num_local_experts", "num_experts", default=8, most=MOST_EXPERTS)
    experts = Experts(count, fields.integer("num_experts_per_tok", default=2, most=count))
    return _mistral(fields, experts, epsilon=1e-5, theta=1e6, usual_window=None)


def _phi3(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    fields.only("attention_bias", False)
    fields.only("interpolate_factor", 1)
    fields.only("full_attn_mod", 1)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), joined=JoinedProjections.IN_ROW,
        window=fields.integer("sliding_window", default=None),
    )  # fmt: skip
    block = before_both(
        norm, attention, FeedForward(sizes.width, activation_of(fields), joined=True)
    )
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _exaone(fields: Fields) -> Decoder:
    """EXAONE 3: Llama under other names of fields."""
    return _llama_with(fields, epsilon=1e-5, theta=5e5, kv_heads=8)


def _internlm3(fields: Fields) -> Decoder:
    return _llama_with(fields, epsilon=1e-5, kv_heads=2, head_dim=128)


def _iquestcoder(fields: Fields) -> Decoder:
    fields.only("clip_qkv", None)
    fields.only("use_sliding_window", False)
    return _llama_with(fields, epsilon=1e-5, kv_heads=8, head_dim=128)


def _cwm(fields: Fields) -> Decoder:
    """Like Llama; three of four blocks attend to a window."""
    plain = _llama_with(fields, epsilon=1e-5, theta=1e6, usual=_CWM_SCALING)
    window = fields.integer("sliding_window", default=8192)
    usual = [FULL if i % 4 == 0 else SLIDING for i in range(len(plain.blocks))]
    kinds = kinds_of(fields, len(plain.blocks), usual)
    attentions = windowed(plain.attentions[0], kinds, window)
    blocks = [replace(block, attention=near)
              for block, near in zip(plain.blocks, attentions, strict=True)]  # fmt: skip
    return replace(plain, blocks=tuple(blocks))


_CWM_SCALING = {
    "rope_type": "llama3", "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
"""Scaling of a configuration of CWM that states none."""


def _seed_oss(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=128), rms_norm(fields)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes),
        bias=fields.flag("attention_bias", default=True),
        output_bias=fields.flag("attention_out_bias", default=False),
    )  # fmt: skip
    bias = fields.flag("mlp_bias", default=False)
    block = before_both(norm, attention, plain_feed_forward(fields, sizes, bias=bias))
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _hunyuan_dense(fields: Fields) -> Decoder:
    """Like Llama, with norms of queries and keys behind their rotation."""
    plain = _llama_with(fields, epsilon=1e-5)
    return with_attention(plain, norm=plain.norm, norm_after_rotary=True)


def _exaone4(fields: Fields) -> Decoder:
    """Norms after each part; positions only in blocks that attend to a window, if there are any."""
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    window = fields.integer("sliding_window", default=None)
    if window is None and not fields.given("sliding_window"):
        window = 4096
    pattern = fields.get("sliding_window_pattern") or 4
    if isinstance(pattern, str):
        pattern = len(pattern)
    usual = [SLIDING if window and (i + 1) % pattern else FULL for i in range(sizes.layers)]
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes), norm=norm)
    far = replace(attention, rotary=None) if window else attention
    near = replace(attention, window=window)
    after = partial(
        Block, feed_forward=plain_feed_forward(fields, sizes), after_attention=norm,
        after_feed_forward=norm,
    )  # fmt: skip
    kinds = kinds_of(fields, sizes.layers, usual)
    blocks = [after(near if kind == SLIDING else far) for kind in kinds]
    return decoder_with(fields, sizes, blocks, norm)


def _hyperclovax(fields: Fields) -> Decoder:
    """Like Granite, with norms after both parts and a factor of the logits."""
    plain = granite(fields, scale=None)
    after = plain.norm if fields.flag("use_post_norm", default=True) else None
    blocks = [replace(block, after_attention=after, after_feed_forward=after)
              for block in plain.blocks]  # fmt: skip
    return replace(plain, blocks=tuple(blocks), logits_scale=1.0 / plain.logits_scale)


def _ministral3(fields: Fields) -> Decoder:
    """Like Mistral, with queries that grow with their position."""
    scaling = fields.part("rope_parameters", "rope_scaling")
    rate = scaling.number("llama_4_scaling_beta", default=0.1)
    after = scaling.integer("original_max_position_embeddings", default=16384)
    plain = _mistral(fields, epsilon=1e-5, theta=1e6, usual_window=None, usual=_MINISTRAL3_SCALING,
                     head_dim=128)  # fmt: skip
    return with_attention(plain, temperature=Temperature(rate, after))


_MINISTRAL3_SCALING = {
    "rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384,
    "mscale_all_dim": 1.0, "mscale": 1.0,
}  # fmt: skip
"""Scaling of a configuration of Ministral 3 that states none."""


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "phi3": _phi3,
    "smollm3": _smollm3,
    "granite": granite,
    "exaone": _exaone,
    "internlm3": _internlm3,
    "iquestcoder": _iquestcoder,
    "cwm": _cwm,
    "seed_oss": _seed_oss,
    "hunyuan_v1_dense": _hunyuan_dense,
    "exaone4": _exaone4,
    "hyperclovax": _hyperclovax,
    "ministral": _mistral,
    "ministral3": _ministral3,
}
"""Families by ``model_type``."""

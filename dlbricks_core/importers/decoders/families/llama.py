"""Llama and its successors: root-mean-square norms before both parts, and gated layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_core.importers.decoders.architecture import (
    Decoder,
    Experts,
    FeedForward,
    Joined,
)
from dlbricks_core.importers.decoders.families.parts import (
    MOST_EXPERTS,
    SLIDING,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    kinds_of,
    optional_window,
    rms_norm,
    rotary_of,
    sizes_of,
    windowed,
)
from dlbricks_core.importers.decoders.fields import Fields


def _llama(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias)
    feed_forward = FeedForward(
        sizes.width, activation_of(fields), bias=fields.flag("mlp_bias", default=False)
    )
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


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


def _smollm3(fields: Fields) -> Decoder:
    """Like Llama; the last of every four blocks has no position embedding."""
    sizes, norm = sizes_of(fields, kv_heads=4), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    interval = fields.integer("no_rope_layer_interval", default=4)
    usual = [int((i + 1) % interval != 0) for i in range(sizes.layers)]
    rotated = fields.list_of("no_rope_layers", (0, 1), sizes.layers) or usual
    window, kinds = optional_window(fields, sizes.layers, 0)
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
) -> Decoder:
    sizes, norm = sizes_of(fields, kv_heads=8), rms_norm(fields, default=epsilon)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes, theta))
    usual = None if fields.given("sliding_window") else usual_window
    window = fields.integer("sliding_window", default=usual)
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
        sizes, rotary=rotary_of(fields, sizes), joined=Joined.IN_ROW,
        window=fields.integer("sliding_window", default=None),
    )  # fmt: skip
    block = before_both(
        norm, attention, FeedForward(sizes.width, activation_of(fields), joined=True)
    )
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "phi3": _phi3,
    "smollm3": _smollm3,
    "granite": _granite,
}
"""Families by ``model_type``."""

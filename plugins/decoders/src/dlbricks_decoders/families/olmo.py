"""OLMo: norms without weights, norms after both parts, or experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import DeltaRule, FeedForward, Norm, Rotary
from dlbricks_decoders.families.parts import (
    FULL,
    SLIDING,
    FamilySizes,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    experts_of,
    kinds_of,
    local_rotary,
    rms_norm,
    rotary_of,
    sizes_of,
)
from dlbricks_decoders.fields import Fields


def _olmo(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), Norm(1e-5, centered=True, weight=False)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias, clip=_clip(fields)
    )
    block = before_both(norm, attention, FeedForward(sizes.width, activation_of(fields)))
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _olmo2(
    fields: Fields, pattern: int = 0, epsilon: float = 1e-5, theta: float = 10000.0
) -> Decoder:
    """OLMo 2 and 3: norms after each part; in OLMo 3, most blocks attend to a window."""
    sizes, norm = sizes_of(fields), rms_norm(fields, default=epsilon)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes,
        rotary=rotary_of(fields, sizes, theta=500000.0 if pattern else theta, kind=FULL),
        bias=bias, output_bias=bias, norm=norm, norm_by_head=False,
    )  # fmt: skip
    attentions = [attention] * sizes.layers
    if pattern:
        near = replace(
            attention,
            rotary=_local_or_plain(fields, sizes),
            window=fields.integer("sliding_window", default=4096),
        )
        usual = [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(sizes.layers)]
        attentions = [near if kind == SLIDING else attention
                      for kind in kinds_of(fields, sizes.layers, usual)]  # fmt: skip
    feed_forward = FeedForward(sizes.width, activation_of(fields))
    after = partial(Block, feed_forward=feed_forward, after_attention=norm, after_feed_forward=norm)
    return decoder_with(fields, sizes, [after(each) for each in attentions], norm)


def _olmo_hybrid(fields: Fields) -> Decoder:
    """OLMo Hybrid: in three of four blocks, linear attention with norms before both parts."""
    theta = fields.get("rope_theta") or fields.part("rope_parameters").get("rope_theta")
    turns = theta is not None or not (fields.given("rope_theta") or fields.given("rope_parameters"))
    stated = fields if turns else fields.replaced("rope_parameters", None)
    plain = _olmo2(stated, epsilon=1e-6)
    (full,) = set(plain.blocks)
    norm, sizes = full.after_attention, sizes_of(fields)
    heads = fields.integer("linear_num_value_heads", default=sizes.heads)
    groups = fields.integer("linear_num_key_heads", default=sizes.heads)
    if heads % groups:
        raise fields.refusal("linear_num_key_heads", groups, f"It has to divide {heads} heads.")
    key = fields.integer("linear_key_head_dim", default=int(0.75 * sizes.hidden / groups))
    fields.only("hidden_act", "silu")
    fields.ignore("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max",
                  "linear_dt_init_floor")  # fmt: skip
    delta = DeltaRule(
        heads, groups, key, fields.integer("linear_value_head_dim", default=2 * key),
        fields.integer("linear_conv_kernel_dim", default=4), Norm(1e-5), apart=True,
        rate_scale=2.0 if fields.flag("linear_allow_neg_eigval", default=True) else 1.0,
    )  # fmt: skip
    linear = Block(None, full.feed_forward, before_attention=norm, before_feed_forward=norm,
                   delta=delta)  # fmt: skip
    if not turns and full.attention:
        full = replace(full, attention=replace(full.attention, rotary=None))
    usual = [_LINEAR if (i + 1) % 4 else FULL for i in range(sizes.layers)]
    usual = usual if FULL in usual else [*usual[:-1], FULL]
    kinds = fields.list_of("layer_types", (_LINEAR, FULL), sizes.layers) or usual
    return replace(plain, blocks=tuple(full if kind == FULL else linear for kind in kinds))


_LINEAR = "linear_attention"


def _local_or_plain(fields: Fields, sizes: FamilySizes) -> Rotary:
    theta = fields.positive("rope_theta", default=500000.0)
    return local_rotary(fields, sizes, theta)


def _olmoe(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    fields.only("attention_bias", False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), norm=norm, norm_by_head=False, clip=_clip(fields)
    )
    experts = experts_of(fields, 64)
    feed_forward = FeedForward(sizes.width, activation_of(fields), joined=True, experts=experts)
    return decoder_with(
        fields, sizes, [before_both(norm, attention, feed_forward)] * sizes.layers, norm
    )


def _flex_olmo(fields: Fields) -> Decoder:
    """FlexOlmo: like OLMo 2, with experts."""
    dense = _olmo2(fields, epsilon=1e-6, theta=500000.0)
    experts = experts_of(fields, 7, per_token=5)
    part = dense.blocks[0].feed_forward
    sparse = replace(part, joined=True, experts=experts) if part else None
    blocks = [replace(block, feed_forward=sparse) for block in dense.blocks]
    return replace(dense, blocks=tuple(blocks))


def _clip(fields: Fields) -> float | None:
    found: float | None = fields.number("clip_qkv", default=None)
    return found


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": partial(_olmo2, pattern=4),
    "olmoe": _olmoe,
    "flex_olmo": _flex_olmo,
    "olmo_hybrid": _olmo_hybrid,
}
"""Families by ``model_type``."""

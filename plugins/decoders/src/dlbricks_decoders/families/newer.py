"""Mixtures of experts whose fields no earlier family has: MiniMax 01, Hunyuan 3, DBRX, Flint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dlbricks_decoders.architecture import Block, Decoder, ReadSums
from dlbricks_decoders.block_parts import (
    Attention,
    Experts,
    FeedForward,
    JoinedProjections,
    Lightning,
    Norm,
)
from dlbricks_decoders.families.parts import (
    FULL,
    MOST_EXPERTS,
    SLIDING,
    FamilySizes,
    activation_of,
    attention_of,
    before_both,
    count_of,
    decoder_with,
    experts_of,
    kinds_of,
    plain_feed_forward,
    rms_norm,
    rotary_of,
    routed,
    sizes_of,
    sparse_or_dense,
)
from dlbricks_decoders.fields import Fields

_LINEAR = "linear_attention"


def _parts(
    fields: Fields, sizes: FamilySizes, experts: Experts, width: int, usual_dense: int
) -> list[FeedForward]:
    """The feed-forward part of each block: dense ones first, unless a list says which."""
    bias = fields.flag("mlp_bias", default=False)
    dense = plain_feed_forward(fields, sizes, bias=bias)
    shared = count_of(fields, "num_shared_experts", 1) * width
    if shared:
        experts = replace(experts, shared=replace(dense, width=shared))
    sparse = routed(fields, experts, width=width)
    first = count_of(fields, "first_k_dense_replace", usual_dense)
    usual = ["dense" if i < first else "sparse" for i in range(sizes.layers)]
    kinds = fields.list_of("mlp_layer_types", ("dense", "sparse"), sizes.layers) or usual
    return [dense if kind == "dense" else sparse for kind in kinds]


def _sigmoid(fields: Fields, usual: int, name: str, scale: float) -> Experts:
    """Experts that are weighed by sigmoids, and by one factor; ``name`` is that of the factor."""
    count = fields.integer("num_experts", "num_local_experts", default=usual, most=MOST_EXPERTS)
    return Experts(
        count, fields.integer("num_experts_per_tok", default=8, most=count),
        fields.flag("norm_topk_prob", default=True), score="Sigmoid",
        scale=fields.number(name, default=scale),
    )  # fmt: skip


def _hunyuan3(fields: Fields) -> Decoder:
    """Hunyuan 3: norms of queries and keys, and a dense first block."""
    sizes, norm = sizes_of(fields, kv_heads=8, head_dim=128), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    turns = rotary_of(fields, sizes, theta=11_158_840.0)
    attention = attention_of(sizes, rotary=turns, bias=bias, output_bias=bias, norm=norm)
    experts = _sigmoid(fields, 192, "router_scaling_factor", 2.826)
    width = fields.integer("moe_intermediate_size", default=1536)
    fields.ignore("enable_moe_fp32_combine", "num_nextn_predict_layers")
    parts = _parts(fields, sizes, experts, width, 1)
    return decoder_with(fields, sizes, [before_both(norm, attention, each) for each in parts], norm)


def _exaone_moe(fields: Fields) -> Decoder:
    """EXAONE MoE: attention of EXAONE 4, whose positions are those of blocks with a window."""
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    absent = None if fields.given("sliding_window") else 4096
    window = fields.integer("sliding_window", default=absent)
    pattern = fields.get("sliding_window_pattern") or 4
    every = len(pattern) if isinstance(pattern, str) else pattern
    usual = [SLIDING if window and (i + 1) % every else FULL for i in range(sizes.layers)]
    far = attention_of(sizes, rotary=rotary_of(fields, sizes), norm=norm)
    near = replace(far, window=window)
    far = replace(far, rotary=None) if window else far
    for name in ("n_group", "topk_group"):
        fields.only(name, 1)
    experts = _sigmoid(fields, 64, "routed_scaling_factor", 2.5)
    width = fields.integer("moe_intermediate_size", default=1024)
    fields.ignore("num_nextn_predict_layers")
    parts = _parts(fields, sizes, experts, width, 1)
    mixing = (near if kind == SLIDING else far for kind in kinds_of(fields, sizes.layers, usual))
    blocks = [before_both(norm, *both) for both in zip(mixing, parts, strict=True)]
    return decoder_with(fields, sizes, blocks, norm)


def _minimax(fields: Fields) -> Decoder:
    """MiniMax 01: lightning attention in some blocks; sums begin with what the parts read."""
    sizes, norm = sizes_of(fields, kv_heads=8), rms_norm(fields, default=1e-5)
    turned = fields.integer("rotary_dim", default=sizes.head_dim)
    turns = rotary_of(fields, sizes, theta=1e6, share=turned / sizes.head_dim)
    window = fields.integer("sliding_window", default=None)
    attention = attention_of(sizes, rotary=turns, window=window)
    fields.only("hidden_act", "silu")
    block = fields.integer("block_size", default=256)
    lightning = Lightning(sizes.heads, sizes.head_dim, block, replace(norm, epsilon=1e-6))
    experts = experts_of(fields, 8, per_token=2, normalized=True)
    fields.only("router_jitter_noise", 0.0)
    fields.ignore("output_router_logits", "router_aux_loss_coef")
    sparse = routed(fields, experts, width=sizes.width)

    def factors(part: str) -> tuple[float, float]:
        alpha = fields.number(f"{part}_alpha_factor", default=1.0)
        return alpha, fields.number(f"{part}_beta_factor", default=1.0)

    full, linear, after = (factors(part) for part in ("full_attn", "linear_attn", "mlp"))
    blocks = {
        FULL: replace(before_both(norm, attention, sparse), read_sums=ReadSums(full, after)),
        _LINEAR: Block(
            None, sparse, before_attention=norm, before_feed_forward=norm, lightning=lightning,
            read_sums=ReadSums(linear, after),
        ),
    }  # fmt: skip
    usual = [_LINEAR if i % 2 else FULL for i in range(sizes.layers)]
    kinds = fields.list_of("layer_types", (FULL, _LINEAR), sizes.layers) or usual
    return decoder_with(fields, sizes, [blocks[kind] for kind in kinds], norm)


def _dbrx(fields: Fields) -> Decoder:
    """DBRX: centered norms, limited queries, keys and values, and experts in all blocks."""
    part, feed = fields.part("attn_config"), fields.part("ffn_config")
    for each in (part, feed):
        each.ignore("model_type")
    # The published file has the base of the frequencies here, where transformers reads none.
    part.ignore("rope_theta")
    sizes = sizes_of(
        fields.with_default("num_key_value_heads", part.integer("kv_n_heads", default=1)),
        width=feed.integer("ffn_hidden_size", default=3584),
    )  # fmt: skip
    norm = Norm(1e-5, centered=True)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), joined=JoinedProjections.IN_ROW,
        clip=part.number("clip_qkv", default=None),
    )  # fmt: skip
    part.check_all_read()
    count = feed.integer("moe_num_experts", default=4, most=MOST_EXPERTS)
    feed.only("moe_normalize_expert_weights", 1)
    total = not feed.given("moe_normalize_expert_weights") or "moe_normalize_expert_weights" in feed
    experts = Experts(count, feed.integer("moe_top_k", default=1, most=count), normalized=total)
    named = feed.part("ffn_act_fn")
    activation = activation_of(named, "name")
    feed.ignore("hidden_size", "moe_jitter_eps", "moe_loss_weight", "uniform_expert_assignment")
    feed.check_all_read()
    sparse = FeedForward(sizes.width, activation, experts=experts)
    return decoder_with(fields, sizes, [before_both(norm, attention, sparse)] * sizes.layers, norm)


def _near_with_positions(fields: Fields, sizes: FamilySizes, **more: Any) -> tuple[Attention, ...]:
    """Attention to all tokens, without positions, and within a window, with them."""
    far = attention_of(sizes, norm=rms_norm(fields), **more)
    near = replace(
        far, rotary=rotary_of(fields, sizes), window=fields.integer("sliding_window", default=513)
    )
    return far, near


def _shared_width(fields: Fields, sizes: FamilySizes, usual: int) -> FeedForward:
    """A shared expert; ``usual`` is its default width."""
    width = fields.integer("shared_expert_intermediate_size", default=usual)
    return replace(plain_feed_forward(fields, sizes), width=width)


def _flint(fields: Fields) -> Decoder:
    """Flint: sinks in all blocks, windows in most, and a shared expert."""
    sizes, norm = sizes_of(fields, kv_heads=4, head_dim=128), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    far, near = _near_with_positions(fields, sizes, sinks=True, bias=bias, output_bias=bias)
    usual = [FULL if i < 2 or i % 4 == 1 or i == sizes.layers - 1 else SLIDING
             for i in range(sizes.layers)]  # fmt: skip
    experts = replace(
        _sigmoid(fields, 256, "routed_scaling_factor", 1.0),
        shared=_shared_width(fields, sizes, 1024),
    )
    sparse = routed(fields, experts, width=fields.integer("moe_intermediate_size", default=512))
    dense = plain_feed_forward(fields, sizes)
    dense_first = fields if fields.given("mlp_only_layers") else fields.replaced(
        "mlp_only_layers", [0, 1])  # fmt: skip
    parts = sparse_or_dense(dense_first, sizes.layers, dense, sparse)
    blocks = [
        before_both(norm, near if kind == SLIDING else far, each)
        for kind, each in zip(kinds_of(fields, sizes.layers, usual), parts, strict=True)
    ]
    return decoder_with(fields, sizes, blocks, norm)


def _kolibri(fields: Fields) -> Decoder:
    """Kolibri 1: windows in four of five blocks, norms around both parts, and a shared expert."""
    sizes, norm = sizes_of(fields, kv_heads=4, head_dim=128), rms_norm(fields)
    far, near = _near_with_positions(fields, sizes)
    usual = [FULL if (i + 1) % 5 == 0 else SLIDING for i in range(sizes.layers)]
    experts = replace(
        _sigmoid(fields, 384, "routed_scaling_factor", 1.0),
        normalized=fields.flag("norm_topk_prob", default=False),
        shared=_shared_width(fields, sizes, 512),
    )
    sparse = routed(fields, experts, width=fields.integer("moe_intermediate_size", default=512))
    blocks = [
        Block(near if kind == SLIDING else far, sparse, before_attention=norm, after_attention=norm,
              before_feed_forward=norm, after_feed_forward=norm)
        for kind in kinds_of(fields, sizes.layers, usual)
    ]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "minimax": _minimax,
    "hy_v3": _hunyuan3,
    "exaone_moe": _exaone_moe,
    "dbrx": _dbrx,
    "flint": _flint,
    "kolibri1": _kolibri,
}
"""Families by ``model_type``."""

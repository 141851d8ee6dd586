"""Mixtures of experts whose fields no earlier family has: MiniMax 01, Hunyuan 3, EXAONE MoE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_decoders.architecture import Block, Decoder, ReadSums
from dlbricks_decoders.block_parts import Experts, FeedForward, Lightning
from dlbricks_decoders.families.parts import (
    FULL,
    MOST_EXPERTS,
    SLIDING,
    FamilySizes,
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


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "minimax": _minimax,
    "hy_v3": _hunyuan3,
    "exaone_moe": _exaone_moe,
}
"""Families by ``model_type``."""

"""Decoders in which state spaces or short convolutions replace attention in some blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import (
    Experts,
    FeedForward,
    Gate,
    Norm,
    ShortConvolution,
    StateSpace,
)
from dlbricks_decoders.families.llama import granite
from dlbricks_decoders.families.parts import (
    FULL,
    MOST_BLOCKS,
    MOST_EXPERTS,
    SLIDING,
    FamilySizes,
    activation_of,
    attention_of,
    before_both,
    count_of,
    decoder_with,
    experts_of,
    plain_feed_forward,
    rms_norm,
    rotary_by_kind,
    rotary_of,
    routed,
    sizes_of,
)
from dlbricks_decoders.fields import Fields
from dlbricks_decoders.rotary import rotary

_STATE, _CONVOLUTION = "linear_attention", "conv"

_KINDS: Mapping[str, str] = {
    "mamba": _STATE, _STATE: _STATE, "attention": FULL, FULL: FULL, _CONVOLUTION: _CONVOLUTION,
}  # fmt: skip
"""Part that mixes the tokens of a block, by the names in configurations."""


def _kinds(fields: Fields, layers: int, usual: Sequence[str]) -> list[str]:
    listed = fields.list_of("layer_types", tuple(_KINDS), layers)
    listed = listed or fields.list_of("layers_block_type", tuple(_KINDS), layers)
    return [_KINDS[kind] for kind in listed or usual]


def _state_space(
    fields: Fields, hidden: int, heads: int = 128, state: int = 256, groups: int = 1
) -> StateSpace:
    """The state space of Bamba and Granite, which name its fields alike."""
    heads = fields.integer("mamba_n_heads", default=heads)
    inner = fields.integer("mamba_expand", default=2) * hidden
    if inner % heads:
        raise fields.refusal("mamba_n_heads", heads, f"It has to divide {inner} elements.")
    derived = fields.get("mamba_d_head") in ("auto", None)
    size = inner // heads if derived else fields.integer("mamba_d_head")
    groups = fields.integer("mamba_n_groups", default=groups)
    _check_divides(fields, "mamba_n_groups", groups, heads)
    return StateSpace(
        heads, size, fields.integer("mamba_d_state", default=state), groups,
        fields.integer("mamba_d_conv", default=4), fields.integer("mamba_chunk_size", default=256),
        rms_norm(fields, default=1e-6),
        convolution_bias=fields.flag("mamba_conv_bias", default=True),
        bias=(bias := fields.flag("mamba_proj_bias", default=False)), output_bias=bias,
    )  # fmt: skip


def _check_divides(fields: Fields, name: str, groups: int, heads: int) -> None:
    if heads % groups:
        raise fields.refusal(name, groups, f"It has to divide {heads} heads.")


_IGNORED = (
    "time_step_limit", "time_step_min", "time_step_max", "time_step_floor", "time_step_rank",
    "use_mamba_kernels", "residual_in_fp32", "rescale_prenorm_residual", "num_logits_to_keep",
    "mamba_ssm_cache_dtype", "z_loss_coefficient", "fused_add_norm", "rms_norm", "norm_before_gate",
)  # fmt: skip
"""Fields that change no layer: limits of steps are wide, and the rest is for other kernels."""


def _mamba2(fields: Fields) -> Decoder:
    """Mamba 2: state spaces only, without feed-forward parts."""
    hidden = fields.integer("hidden_size", default=4096)
    norm = Norm(fields.positive("layer_norm_epsilon", default=1e-5))
    heads, groups = fields.integer("num_heads", default=128), fields.integer("n_groups", default=8)
    _check_divides(fields, "n_groups", groups, heads)
    fields.only("hidden_act", "silu")
    fields.ignore("expand", *_IGNORED)
    part = StateSpace(
        heads, fields.integer("head_dim", default=64), fields.integer("state_size", default=128),
        groups, fields.integer("conv_kernel", default=4), fields.integer("chunk_size", default=256),
        norm, convolution_bias=fields.flag("use_conv_bias", default=True),
        bias=(bias := fields.flag("use_bias", default=False)), output_bias=bias,
    )  # fmt: skip
    block = Block(None, None, before_attention=norm, state_space=part)
    layers = fields.integer("num_hidden_layers", default=64, most=MOST_BLOCKS)
    return Decoder(
        "", fields.integer("vocab_size", default=32768), hidden, (block,) * layers, norm, hidden,
        tied=fields.flag("tie_word_embeddings", default=False),
    )  # fmt: skip


def _bamba(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, kv_heads=8), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.5), bias=bias, output_bias=bias
    )
    part = replace(_state_space(fields, sizes.hidden), norm=norm)
    fields.ignore(*_IGNORED)
    attends = fields.get("attn_layer_indices") or []
    usual = [FULL if i in attends else _STATE for i in range(sizes.layers)]
    dense = plain_feed_forward(fields, sizes, bias=fields.flag("mlp_bias", default=False))
    blocks = _mixed(Block(attention, dense, norm, before_feed_forward=norm), part,
                    _kinds(fields, sizes.layers, usual))  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


def _mixed(block: Block, part: StateSpace, kinds: Sequence[str]) -> list[Block]:
    """The block with attention, or with a state space in its place, by kind."""
    other = replace(block, attention=None, state_space=part)
    return [block if kind == FULL else other for kind in kinds]


def _granite_hybrid(fields: Fields) -> Decoder:
    """Granite 4: like Granite, with state spaces, and with a shared expert or only that one."""
    plain, sizes = granite(fields), sizes_of(fields)
    shared = FeedForward(
        fields.integer("shared_intermediate_size", default=1024), activation_of(fields), joined=True
    )
    part = shared
    if fields.get("num_local_experts") != 0:
        experts = replace(experts_of(fields, 8, per_token=2, normalized=True), shared=shared)
        part = routed(fields, experts, width=sizes.width)
    fields.ignore("num_experts_per_tok", *_IGNORED)
    turns = fields.get("position_embedding_type") == "rope"
    fields.only("position_embedding_type", "rope", "nope")
    first = replace(plain.blocks[0], feed_forward=part)
    if first.attention and not turns:
        first = replace(first, attention=replace(first.attention, rotary=None))
    kinds = _kinds(fields, sizes.layers, [_STATE] * sizes.layers)
    blocks = _mixed(first, _state_space(fields, sizes.hidden), kinds)
    return replace(plain, blocks=tuple(blocks))


_PATTERN: Mapping[str, str] = {"M": _STATE, "*": FULL, "-": "mlp", "E": "moe"}
"""Parts of NemotronH's blocks by letter."""


_NEMOTRON_IGNORED = (
    "expand", "sliding_window", "mlp_hidden_act", "mamba_hidden_act", "rope_theta",
    "rope_parameters", "partial_rotary_factor", "num_nextn_predict_layers",
    "mtp_layers_block_type", "mtp_hybrid_override_pattern", "moe_shared_expert_overlap",
    "head_dim", "num_key_value_heads", "vocab_size", "hidden_size", "num_attention_heads",
    "intermediate_size", "max_position_embeddings",
)  # fmt: skip


def _nemotron_h(fields: Fields) -> Decoder:
    """NemotronH: each block has one part, a state space, attention or a feed-forward part."""
    letters = fields.get("hybrid_override_pattern")
    if isinstance(letters, str) and set(letters) <= set(_PATTERN):
        kinds = [_PATTERN[letter] for letter in letters]
    else:
        listed = fields.get("layers_block_type", "layer_types")
        if not isinstance(listed, list) or not 0 < len(listed) <= MOST_BLOCKS:
            raise fields.refusal("hybrid_override_pattern", letters, "Supported: M, *, - and E.")
        names = (*_KINDS, *_PATTERN.values())
        for name in ("layers_block_type", "layer_types"):
            fields.list_of(name, names, len(listed))
        kinds = [_KINDS.get(kind, kind) for kind in listed]
    fields.ignore("num_hidden_layers", "layers_block_type", "layer_types")
    sizes = replace(sizes_of(fields.with_default("num_hidden_layers", len(kinds)), kv_heads=8,
                             head_dim=128, width=21504), layers=len(kinds))  # fmt: skip
    norm = Norm(fields.positive("layer_norm_epsilon", "norm_eps", default=1e-5))
    bias = fields.flag("attention_bias", default=False)
    fields.ignore(*_NEMOTRON_IGNORED, *_IGNORED)
    parts: dict[str, Block] = {
        FULL: Block(attention_of(sizes, bias=bias, output_bias=bias), None, before_attention=norm),
        _STATE: Block(None, None, before_attention=norm, state_space=_nemotron_state(fields, norm)),
        "mlp": Block(None, _squared(fields, sizes.width), before_feed_forward=norm),
    }
    if "moe" in kinds:
        sparse = _nemotron_experts(fields)
        parts["moe"] = Block(None, sparse, before_feed_forward=norm)
    return decoder_with(fields, sizes, [parts[kind] for kind in kinds], norm)


def _squared(fields: Fields, width: int) -> FeedForward:
    activation = activation_of(fields, "mlp_hidden_act", default="relu2")
    return FeedForward(width, activation, gated=False, bias=fields.flag("mlp_bias", default=False))


def _nemotron_state(fields: Fields, norm: Norm) -> StateSpace:
    heads = fields.integer("mamba_num_heads", default=128)
    groups = fields.integer("n_groups", "mamba_n_groups", default=8)
    _check_divides(fields, "n_groups", groups, heads)
    return StateSpace(
        heads, fields.integer("mamba_head_dim", default=64),
        fields.integer("ssm_state_size", default=128), groups,
        fields.integer("conv_kernel", default=4), fields.integer("chunk_size", default=128), norm,
        convolution_bias=fields.flag("use_conv_bias", default=True),
        bias=(bias := fields.flag("mamba_proj_bias", "use_bias", default=False)),
        output_bias=bias,
    )  # fmt: skip


def _nemotron_experts(fields: Fields) -> FeedForward:
    fields.only("moe_latent_size", None)
    fields.ignore("n_group", "topk_group", "n_shared_experts")
    count = fields.integer("n_routed_experts", "num_local_experts", default=8, most=MOST_EXPERTS)
    width = fields.integer("moe_shared_expert_intermediate_size", default=7688)
    experts = Experts(
        count, fields.integer("num_experts_per_tok", default=2, most=count),
        fields.flag("norm_topk_prob", default=True), score="Sigmoid",
        scale=fields.number("routed_scaling_factor", default=1.0), shared=_squared(fields, width),
    )  # fmt: skip
    part = _squared(fields, fields.integer("moe_intermediate_size", default=7688))
    return replace(part, experts=experts)


def _lfm2(fields: Fields) -> Decoder:
    """LFM2: short convolutions, and attention in some blocks."""
    blocks, sizes = _lfm2_blocks(fields, _lfm2_width(fields))
    return _lfm2_of(fields, sizes, blocks)


def _lfm2_width(fields: Fields) -> int:
    """Width of a feed-forward part, which a configuration states before it is rounded."""
    width: int = fields.integer("block_ff_dim", "intermediate_size", default=12288)
    multiple = fields.integer("block_multiple_of", default=256)
    factor = fields.number("block_ffn_dim_multiplier", default=1.0)
    if not fields.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = int(factor * int(2 * width / 3))
    rounded: int = multiple * ((width + multiple - 1) // multiple)
    return rounded


def _lfm2_blocks(fields: Fields, width: int) -> tuple[list[Block], FamilySizes]:
    sizes, norm = sizes_of(fields, kv_heads=8, width=width), rms_norm(fields, "norm_eps", 1e-5)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes, theta=1e6), norm=norm)
    convolution = ShortConvolution(
        fields.integer("conv_L_cache", default=3), fields.flag("conv_bias", default=False)
    )
    attends = fields.get("full_attn_idxs")
    attends = range(sizes.layers) if attends is None else attends
    usual = [FULL if i in attends else _CONVOLUTION for i in range(sizes.layers)]
    fields.ignore("block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
                  "block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out",
                  "conv_use_xavier_init", "use_pos_enc", "num_heads", "hidden_act")  # fmt: skip
    block = before_both(norm, attention, FeedForward(width, activation_of(fields)))
    other = replace(block, attention=None, convolution=convolution)
    kinds = _kinds(fields, sizes.layers, usual)
    return [block if kind == FULL else other for kind in kinds], sizes


def _lfm2_of(fields: Fields, sizes: FamilySizes, blocks: Sequence[Block]) -> Decoder:
    tied = fields.flag("tie_embedding", default=True)
    return decoder_with(fields, sizes, blocks, blocks[0].before_attention, tied=tied)


def _lfm2_moe(fields: Fields) -> Decoder:
    """LFM2 with experts in all but the first blocks."""
    blocks, sizes = _lfm2_blocks(fields, fields.integer("intermediate_size", default=7168))
    width = fields.integer("moe_intermediate_size", default=1792)
    experts = replace(
        experts_of(fields, 32, per_token=4, normalized=True), score="Sigmoid",
        scale=fields.number("routed_scaling_factor", default=1.0),
    )  # fmt: skip
    fields.ignore("use_expert_bias")
    dense = count_of(fields, "num_dense_layers", 2)
    sparse = routed(fields, experts, width=width)
    blocks = [block if i < dense else replace(block, feed_forward=sparse)
              for i, block in enumerate(blocks)]  # fmt: skip
    return _lfm2_of(fields, sizes, blocks)


def _lfm3(fields: Fields) -> Decoder:
    """LFM3: like LFM2, with gated attention, windows in some blocks, and norms after both parts."""
    sizes, norm = sizes_of(fields, kv_heads=4, head_dim=128), rms_norm(fields, "norm_eps", 1e-5)
    after = norm if fields.flag("use_sandwich_norm", default=True) else None
    gate = Gate(by_head=True) if fields.flag("use_attention_gate", default=True) else None
    bias = fields.flag("attention_bias", default=False)
    stated = fields.part("rope_parameters")
    far_turns = (
        rotary_by_kind(fields, sizes, FULL, 1e6)
        if FULL in stated
        else rotary(Fields({"rope_type": "proportional", "partial_rotary_factor": 0.5}, ""), 1e6,
                    sizes.head_dim, sizes.longest)
    )  # fmt: skip
    far = attention_of(sizes, rotary=far_turns, bias=bias, output_bias=bias, norm=norm, gate=gate)
    near = replace(
        far, rotary=rotary_by_kind(fields, sizes, SLIDING, 1e4),
        window=fields.integer("sliding_window", default=256),
    )  # fmt: skip
    part = FeedForward(sizes.width, activation_of(fields))
    block = replace(before_both(norm, far, part), after_attention=after, after_feed_forward=after)
    convolution = ShortConvolution(
        fields.integer("conv_L_cache", default=7), fields.flag("conv_bias", default=False)
    )
    by_kind = {
        FULL: block,
        SLIDING: replace(block, attention=near),
        _CONVOLUTION: replace(block, attention=None, convolution=convolution),
    }
    usual = [{0: SLIDING if i else _CONVOLUTION, 2: FULL}.get(i % 4, _CONVOLUTION)
             for i in range(sizes.layers)]  # fmt: skip
    kinds = fields.list_of("layer_types", tuple(by_kind), sizes.layers) or usual
    return _lfm2_of(fields, sizes, [by_kind[kind] for kind in kinds])


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "mamba2": _mamba2,
    "bamba": _bamba,
    "granitemoehybrid": _granite_hybrid,
    "nemotron_h": _nemotron_h,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2_moe,
    "lfm3": _lfm3,
}
"""Families by ``model_type``."""

"""Mamba, Falcon Mamba, Jamba and Falcon-H1: state spaces alone, between attention, or beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import FeedForward, Norm, SelectiveScan, StateSpace
from dlbricks_decoders.families.parts import (
    MOST_BLOCKS,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    experts_of,
    plain_feed_forward,
    rms_norm,
    rotary_of,
    routed,
    sizes_of,
)
from dlbricks_decoders.fields import Fields

KERNELS = (
    "time_step_limit", "time_step_min", "time_step_max", "time_step_floor", "time_step_scale",
    "time_step_init_scheme", "use_mamba_kernels", "residual_in_fp32", "rescale_prenorm_residual",
    "num_logits_to_keep", "mamba_ssm_cache_dtype", "z_loss_coefficient", "fused_add_norm",
    "rms_norm", "norm_before_gate", "use_mambapy", "use_associative_scan", "time_step_rank",
    "calc_logits_for_entire_prompt",
)  # fmt: skip
"""Fields that change no layer: limits of steps are wide, and the rest is for other kernels."""


def _rank(fields: Fields, name: str, hidden: int) -> int:
    """Elements that the step of time is projected from; a sixteenth of a state is usual."""
    usual = -(-hidden // 16)
    return usual if fields.get(name) in ("auto", None) else int(fields.integer(name))


def _mamba(fields: Fields, *, normalized: bool = False) -> Decoder:
    """Mamba: selective scans only, without feed-forward parts."""
    hidden = fields.integer("hidden_size", "d_model", default=768)
    norm = Norm(fields.positive("layer_norm_epsilon", default=1e-5))
    inner = fields.integer("intermediate_size", "d_inner",
                           default=fields.integer("expand", default=2) * hidden)  # fmt: skip
    fields.only("hidden_act", "silu")
    inside = Norm(fields.positive("mixer_rms_eps", default=1e-6), weight=False)
    part = SelectiveScan(
        inner, fields.integer("state_size", default=16), _rank(fields, "time_step_rank", hidden),
        fields.integer("conv_kernel", default=4), inside if normalized else None,
        convolution_bias=fields.flag("use_conv_bias", default=True),
        bias=fields.flag("use_bias", default=False),
    )  # fmt: skip
    # Files of the first release repeat these fields under the names of their authors' code.
    fields.ignore(*KERNELS, "n_layer", "ssm_cfg", "expand", "pad_vocab_size_multiple")
    layers = fields.integer("num_hidden_layers", default=32, most=MOST_BLOCKS)
    block = Block(None, None, before_attention=norm, selective=part)
    return Decoder(
        "", fields.integer("vocab_size", default=50280), hidden, (block,) * layers, norm, hidden,
        tied=fields.flag("tie_word_embeddings", default=True),
    )  # fmt: skip


def _jamba(fields: Fields) -> Decoder:
    """Jamba: selective scans, attention without positions, and experts, each every so many."""
    sizes, norm = sizes_of(fields, kv_heads=8, width=14336), rms_norm(fields)
    attention = attention_of(sizes)
    part = SelectiveScan(
        fields.integer("mamba_expand", default=2) * sizes.hidden,
        fields.integer("mamba_d_state", default=16), _rank(fields, "mamba_dt_rank", sizes.hidden),
        fields.integer("mamba_d_conv", default=4), norm,
        convolution_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias", default=False),
    )  # fmt: skip
    dense = plain_feed_forward(fields, sizes)
    experts = experts_of(fields, 16, per_token=2)
    sparse = routed(fields, experts, width=sizes.width) if experts.count > 1 else dense
    fields.ignore("mamba_inner_layernorms", *KERNELS)
    attends, chooses = (
        _every(fields, f"{name}_layer", period, offset, sizes.layers)
        for name, period, offset in (("attn", 8, 4), ("expert", 2, 1))
    )
    block = before_both(norm, attention, dense)
    blocks = []
    for is_attention, is_sparse in zip(attends, chooses, strict=True):
        mixing = block if is_attention else replace(block, attention=None, selective=part)
        blocks.append(replace(mixing, feed_forward=sparse if is_sparse else dense))
    return decoder_with(fields, sizes, blocks, norm)


def _every(fields: Fields, name: str, period: int, offset: int, layers: int) -> list[bool]:
    """Whether each block has a part that comes once in a period."""
    period = fields.integer(f"{name}_period", default=period)
    given = fields.get(f"{name}_offset")
    if given is not None and not (isinstance(given, int) and 0 <= given < period):
        raise fields.refusal(f"{name}_offset", given, f"Supported: 0 to {period - 1}.")
    first = offset if given is None else given
    return [i % period == first for i in range(layers)]


def _falcon_h1(fields: Fields) -> Decoder:
    """Falcon-H1: attention and a state space read the same in each block; all have factors."""
    sizes, norm = sizes_of(fields, kv_heads=8, width=14336), rms_norm(fields, default=1e-5)
    factor = partial(fields.number, default=1.0)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias,
        key_scale=factor("key_multiplier"), input_scale=factor("attention_in_multiplier"),
    )  # fmt: skip
    gate, down = (fields.list_of_numbers("mlp_multipliers", 2)
                  if "mlp_multipliers" in fields else (1.0, 1.0))  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields), bias=fields.flag("mlp_bias", default=False),
        gate_scale=gate, output_scale=down,
    )  # fmt: skip
    fields.only("layers_block_type", None)
    fields.only("attn_layer_indices", None)
    fields.ignore("mamba_use_mlp", "mlp_expansion_factor", *KERNELS)
    block = replace(
        before_both(norm, attention, feed_forward),
        attention_scale=factor("attention_out_multiplier"),
        state_space=_beside(fields, sizes.hidden, norm), state_scale=factor("ssm_out_multiplier"),
    )  # fmt: skip
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm,
        embedding_scale=factor("embedding_multiplier"),
        logits_scale=factor("lm_head_multiplier"),
    )  # fmt: skip


def _beside(fields: Fields, hidden: int, norm: Norm) -> StateSpace:
    """The state space of Falcon-H1."""
    heads = fields.integer("mamba_n_heads", default=128)
    expanded = fields.integer("mamba_expand", default=2) * hidden
    absent = expanded if fields.given("mamba_d_ssm") else 1024
    inner = fields.integer("mamba_d_ssm", default=absent)
    if inner % heads:
        raise fields.refusal("mamba_n_heads", heads, f"It has to divide {inner} elements.")
    if fields.get("mamba_d_head") not in ("auto", None, inner // heads):
        raise fields.refusal("mamba_d_head", fields.get("mamba_d_head"),
                             f"{heads} heads have {inner} elements.")  # fmt: skip
    groups = fields.integer("mamba_n_groups", default=1)
    if heads % groups:
        raise fields.refusal("mamba_n_groups", groups, f"It has to divide {heads} heads.")
    if "ssm_multipliers" in fields:
        fields.list_of_numbers("ssm_multipliers", 5)
    return StateSpace(
        heads, inner // heads, fields.integer("mamba_d_state", default=256), groups,
        fields.integer("mamba_d_conv", default=4), fields.integer("mamba_chunk_size", default=256),
        norm if fields.flag("mamba_rms_norm", default=False) else None,
        norm_first=fields.flag("mamba_norm_before_gate", default=True),
        convolution_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias", default=False),
        output_bias=fields.flag("projectors_bias", default=False),
        input_scale=fields.number("ssm_in_multiplier", default=1.0), scales=True,
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "mamba": _mamba,
    "falcon_mamba": partial(_mamba, normalized=True),
    "jamba": _jamba,
    "falcon_h1": _falcon_h1,
}
"""Families by ``model_type``."""

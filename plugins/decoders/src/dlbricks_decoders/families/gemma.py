"""Gemma: a scaled embedding; from Gemma 2 on, norms before and after, and alternating windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dlbricks_decoders.architecture import AltUp, Block, Decoder, ExpertsBeside, LayerEmbedding
from dlbricks_decoders.block_parts import (
    Activation,
    Attention,
    Experts,
    FeedForward,
    GatedRecurrence,
    Norm,
)
from dlbricks_decoders.families.defaults import SIZES
from dlbricks_decoders.families.parts import (
    ACTIVATIONS,
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
    kinds_of,
    local_rotary,
    rms_norm,
    rotary_of,
    sizes_of,
)
from dlbricks_decoders.fields import Fields
from dlbricks_decoders.rotary import rotary

_ACTIVATIONS = {**ACTIVATIONS, "gelu": ACTIVATIONS["gelu_pytorch_tanh"]}
"""Activations of Gemma: its first configurations say ``gelu`` for the approximate one."""


def _gemma(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, head_dim=256), rms_norm(fields)
    fields.only("use_bidirectional_attention", False)
    fields.only("attention_bias", False)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes))
    activation = fields.choice(
        "hidden_activation", "hidden_act", _ACTIVATIONS, default="gelu_pytorch_tanh"
    )
    feed_forward = FeedForward(sizes.width, activation)
    return decoder_with(
        fields, sizes, [before_both(norm, attention, feed_forward)] * sizes.layers, norm,
        tied=True, embedding_scale=math.sqrt(sizes.hidden),
    )  # fmt: skip


def _gemma_alternating(
    fields: Fields,
    pattern: int,
    *,
    normalized: bool,
    local_theta: float | None,
    after: bool = True,
    softcaps: tuple[float, float] = (0.0, 0.0),
) -> Decoder:
    """Gemma 2, 3 and VaultGemma: blocks attend to a window, every ``pattern``-th one to all.

    ``softcaps`` are the default bounds on scores and logits.
    """
    sizes, norm = sizes_of(fields, head_dim=256), rms_norm(fields)
    fields.only("use_bidirectional_attention", False)
    fields.only("attention_bias", False)
    pattern = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=pattern)
    usual = [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(sizes.layers)]
    kinds = kinds_of(fields, sizes.layers, usual)
    attention = attention_of(
        sizes,
        rotary=rotary_of(fields, sizes, theta=1e6 if local_theta else 10000.0, kind=FULL),
        scale=fields.positive("query_pre_attn_scalar", default=256.0) ** -0.5,
        softcap=_softcap(fields, "attn_logit_softcapping", softcaps[0]),
        norm=norm if normalized else None,
    )
    near = attention
    if local_theta:
        near = replace(attention, rotary=local_rotary(fields, sizes, local_theta))
    near = replace(near, window=fields.integer("sliding_window", default=4096))
    feed_forward = FeedForward(
        sizes.width,
        activation_of(fields, "hidden_activation", "hidden_act", default="gelu_pytorch_tanh"),
    )
    around = partial(
        Block, feed_forward=feed_forward, before_attention=norm, before_feed_forward=norm,
        after_attention=norm if after else None, after_feed_forward=norm if after else None,
    )  # fmt: skip
    return decoder_with(
        fields, sizes,
        [around(near if kind == SLIDING else attention) for kind in kinds], norm,
        tied=True, embedding_scale=math.sqrt(sizes.hidden),
        softcap=_softcap(fields, "final_logit_softcapping", softcaps[1]),
    )  # fmt: skip


def _softcap(fields: Fields, name: str, usual: float) -> float:
    """A soft bound; a field that is null stands for none."""
    found: float = fields.number(name, default=0.0 if fields.given(name) else usual)
    return found


def _gemma3n(fields: Fields) -> Decoder:
    """Gemma 3n: four states of each token, embeddings by layer, and borrowed keys and values."""
    layers = fields.integer("num_hidden_layers", default=35, most=MOST_BLOCKS)
    widths = fields.get("intermediate_size")
    if not isinstance(widths, list):
        widths = [fields.integer("intermediate_size", default=16384)] * layers
    if len(widths) != layers or not all(isinstance(each, int) and each > 0 for each in widths):
        raise fields.refusal("intermediate_size", widths, f"Supported: {layers} positive integers.")
    sizes, norm = _sizes(fields, {**SIZES["gemma3n_text"], "intermediate_size": widths[0]},
                         kv_heads=2), rms_norm(fields)  # fmt: skip
    usual = [FULL if (i + 1) % 5 == 0 else SLIDING for i in range(layers)]
    kinds = kinds_of(fields, layers, usual)
    far = attention_of(
        sizes, rotary=rotary_of(fields, sizes, theta=1e6, kind=FULL), scale=1.0, norm=norm,
        value_norm=replace(norm, weight=False),
    )  # fmt: skip
    near = replace(far, rotary=local_rotary(fields, sizes, 10000.0),
                   window=fields.integer("sliding_window", default=512))  # fmt: skip
    fields.only("attention_bias", False)
    activation = activation_of(fields, "hidden_activation", default="gelu_pytorch_tanh")
    sparse = fields.get("activation_sparsity_pattern")
    if sparse is None:
        sparse = [0.95 * (layers > 10 and i < 10) for i in range(layers)]
    if not (
        isinstance(sparse, list)
        and len(sparse) == layers
        and all(isinstance(each, int | float) and 0 <= each < 1 for each in sparse)
    ):
        raise fields.refusal("activation_sparsity_pattern", sparse, f"Supported: {layers} shares.")
    altup = AltUp(
        fields.integer("altup_num_inputs", default=4, most=64),
        count_of(fields, "altup_active_idx", 0), norm,
        fields.flag("altup_correct_scale", default=True),
    )  # fmt: skip
    if altup.active >= altup.states or altup.states < 2:
        raise fields.refusal("altup_active_idx", altup.active, f"There are {altup.states} states.")
    fields.ignore("altup_coef_clip", "rope_local_base_freq", "query_pre_attn_scalar",
                  "altup_lr_multiplier")  # fmt: skip
    block = replace(_around(norm, far, FeedForward(sizes.width, activation)), altup=altup,
                    low_rank=fields.integer("laurel_rank", default=64))  # fmt: skip
    parts = [FeedForward(width, activation, sparsity=float(share))
             for width, share in zip(widths, sparse, strict=True)]  # fmt: skip
    mixing = _lent(fields, [near if kind == SLIDING else far for kind in kinds], kinds, 15)
    blocks = [replace(block, attention=attention, feed_forward=part)
              for attention, part in zip(mixing, parts, strict=True)]  # fmt: skip
    by_layer = LayerEmbedding(
        fields.integer("vocab_size_per_layer_input", default=262144), layers,
        fields.integer("hidden_size_per_layer_input", default=256), activation, norm,
    )  # fmt: skip
    return decoder_with(
        fields, sizes, blocks, norm, tied=True, embedding_scale=math.sqrt(sizes.hidden),
        softcap=_softcap(fields, "final_logit_softcapping", 30.0), by_layer=by_layer,
    )  # fmt: skip


def _sizes(fields: Fields, usual: Mapping[str, int], **defaults: int) -> FamilySizes:
    """Sizes where configurations leave out the usual ones."""
    for name, value in usual.items():
        fields = fields.with_default(name, value)
    stated = fields.get("intermediate_size")
    if isinstance(stated, list):
        fields = fields.replaced("intermediate_size", stated[0])
    return sizes_of(fields, head_dim=256, **defaults)


def _around(norm: Norm, attention: Attention, feed_forward: FeedForward) -> Block:
    """A block that normalizes input and output of each of its parts."""
    return Block(
        attention, feed_forward, before_attention=norm, before_feed_forward=norm,
        after_attention=norm, after_feed_forward=norm,
    )  # fmt: skip


def _lent(
    fields: Fields, mixing: list[Attention], kinds: Sequence[str], usual: int
) -> list[Attention]:
    """Attention of each block, of which the last ones borrow keys and values."""
    borrowing = count_of(fields, "num_kv_shared_layers", usual)
    first = len(mixing) - borrowing
    if borrowing and set(kinds[: max(first, 0)]) != {*kinds}:
        raise fields.refusal("num_kv_shared_layers", borrowing,
                             "Blocks of each kind have to be before them.")  # fmt: skip
    return [replace(each, borrowed=i >= first) for i, each in enumerate(mixing)]


def _gemma4(fields: Fields) -> Decoder:
    """Gemma 4: larger heads in blocks that attend to all tokens, and experts beside dense parts."""
    sizes, norm = _sizes(fields, SIZES["gemma4_text"], kv_heads=4), rms_norm(fields)
    usual = [FULL if (i + 1) % 6 == 0 else SLIDING for i in range(sizes.layers)]
    kinds = [*kinds_of(fields, sizes.layers, usual)[:-1], FULL]
    bias = fields.flag("attention_bias", default=False)
    fields.only("use_bidirectional_attention", "vision")
    same = fields.flag("attention_k_eq_v", default=False)
    fields = _by_layer(fields, kinds)
    far_sizes = replace(
        sizes, head_dim=fields.integer("global_head_dim", default=512),
        kv_heads=fields.integer("num_global_key_value_heads", default=sizes.kv_heads)
        if same else sizes.kv_heads,
    )  # fmt: skip
    fields.ignore("num_global_key_value_heads", "query_pre_attn_scalar")
    stated = fields.part("rope_parameters")
    turns = (
        rotary_of(fields, far_sizes, theta=1e6, kind=FULL) if FULL in stated
        else rotary(Fields({"rope_type": "proportional", "partial_rotary_factor": 0.25}, ""), 1e6,
                    far_sizes.head_dim, sizes.longest)
    )  # fmt: skip
    common: dict[str, Any] = {"scale": 1.0, "norm": norm, "value_norm": replace(norm, weight=False),
                              "bias": bias, "output_bias": bias}  # fmt: skip
    far = attention_of(far_sizes, rotary=turns, keys_as_values=same, **common)
    near = attention_of(
        sizes, rotary=local_rotary(fields, sizes, 10000.0),
        window=fields.integer("sliding_window", default=512), **common,
    )  # fmt: skip
    activation = activation_of(fields, "hidden_activation", default="gelu_pytorch_tanh")
    mixing = _lent(fields, [near if kind == SLIDING else far for kind in kinds], kinds, 0)
    wide = 2 if fields.flag("use_double_wide_mlp", default=False) else 1
    block = replace(_around(norm, far, FeedForward(sizes.width, activation)), scaled=True)
    beside = _beside(fields, activation, norm)
    parts = (FeedForward(sizes.width * (wide if each.borrowed else 1), activation)
             for each in mixing)  # fmt: skip
    blocks = [replace(block, attention=each, beside=beside, feed_forward=part)
              for each, part in zip(mixing, parts, strict=True)]  # fmt: skip
    size = count_of(fields, "hidden_size_per_layer_input", 256)
    rows = fields.integer("vocab_size_per_layer_input", default=262144)
    borrowing = sum(each.borrowed for each in mixing)
    return decoder_with(
        fields, sizes, blocks, norm, tied=True, embedding_scale=math.sqrt(sizes.hidden),
        softcap=_softcap(fields, "final_logit_softcapping", 0.0),
        by_layer=LayerEmbedding(rows, sizes.layers, size, activation, norm) if size else None,
        last_from=sizes.layers - borrowing if borrowing else None,
    )  # fmt: skip


def _gemma4_unified(fields: Fields) -> Decoder:
    """Gemma 4 that reads sound and pictures without encoders: no embeddings by layer."""
    return _gemma4(fields.with_default("hidden_size_per_layer_input", 0))


def _by_layer(fields: Fields, kinds: Sequence[str]) -> Fields:
    """The fields with those that newer files state for each block that attends to all tokens."""
    stated = fields.get("per_layer_config")
    if stated is None:
        return fields
    far = [str(index) for index, kind in enumerate(kinds) if kind == FULL]
    given = {str(index): part for index, part in stated.items()}
    alike = sorted(given) == sorted(far) and all(part == given[far[0]] for part in given.values())
    names = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
    if not alike or not given[far[0]].keys() <= names.keys():
        raise fields.refusal("per_layer_config", stated,
                             "Supported: the same for all blocks of full attention.")  # fmt: skip
    for name, value in given[far[0]].items():
        fields = fields.with_default(names[name], value)
    return fields


_RECURRENT, _ATTENDING = "recurrent", "attention"


def _recurrent_gemma(fields: Fields) -> Decoder:
    """RecurrentGemma: two of three blocks have a linear recurrence, others attend to a window."""
    sizes, norm = sizes_of(fields, width=3 * fields.integer("hidden_size")), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.5), bias=bias, output_bias=True,
        window=fields.integer("attention_window_size", "sliding_window", default=2048),
    )  # fmt: skip
    activation = activation_of(fields, "hidden_activation", default="gelu_pytorch_tanh")
    near = before_both(norm, attention, FeedForward(sizes.width // 2, activation, bias=True))
    recurrence = GatedRecurrence(
        fields.integer("lru_width", default=sizes.hidden), sizes.heads,
        fields.integer("conv1d_width", default=4), activation,
    )  # fmt: skip
    if recurrence.width % sizes.heads:
        raise fields.refusal(
            "lru_width", recurrence.width, f"Supported: multiples of {sizes.heads}."
        )
    kinds = fields.get("block_types") or (_RECURRENT, _RECURRENT, _ATTENDING)
    fields.list_of("block_types", (_RECURRENT, _ATTENDING), len(kinds))
    blocks = [near if kinds[i % len(kinds)] == _ATTENDING
              else replace(near, attention=None, recurrence=recurrence)
              for i in range(sizes.layers)]  # fmt: skip
    fields.ignore("w_init_variance_scale", "final_w_init_variance_scale", "layers_block_type",
                  "layer_types")  # fmt: skip
    return decoder_with(
        fields, sizes, blocks, norm, tied=True, embedding_scale=math.sqrt(sizes.hidden),
        softcap=fields.number("logits_soft_cap", default=30.0),
    )  # fmt: skip


def _beside(fields: Fields, activation: Activation, norm: Norm) -> ExpertsBeside | None:
    """Experts beside the dense part of Gemma 4; ``None`` where there are none."""
    used = fields.flag("enable_moe_block", default=False)
    names = ("num_experts", "top_k_experts", "moe_intermediate_size")
    fields.ignore(*names)
    if not used:
        return None
    count = fields.integer("num_experts", most=MOST_EXPERTS)
    experts = Experts(
        count, fields.integer("top_k_experts", most=count),
        router_norm=replace(norm, weight=False), expert_scales=True,
    )  # fmt: skip
    width = fields.integer("moe_intermediate_size")
    return ExpertsBeside(FeedForward(width, activation, joined=True, experts=experts),
                         norm, norm, norm)  # fmt: skip


_CAPPED = partial(
    _gemma_alternating, pattern=2, normalized=False, local_theta=None, softcaps=(50.0, 30.0)
)

FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "gemma": _gemma,
    "gemma2": _CAPPED,
    "vaultgemma": partial(_CAPPED, after=False),
    "gemma3n_text": _gemma3n,
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4_unified,
    "recurrent_gemma": _recurrent_gemma,
    "gemma3_text": partial(_gemma_alternating, pattern=6, normalized=True, local_theta=10000.0),
}
"""Families by ``model_type``."""

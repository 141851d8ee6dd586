"""GLM, ERNIE and Helium: rotations of neighbouring elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import Experts, FeedForward, Rotary
from dlbricks_decoders.families.parts import (
    MOST_EXPERTS,
    FamilySizes,
    activation_of,
    attention_of,
    before_both,
    count_of,
    decoder_with,
    plain_feed_forward,
    rms_norm,
    rotary_of,
    routed,
    sizes_of,
    with_attention,
)
from dlbricks_decoders.fields import Fields


def _neighbours(
    fields: Fields, sizes: FamilySizes, theta: float = 10000.0, share: float = 1.0
) -> Rotary:
    return replace(rotary_of(fields, sizes, theta, share), interleaved=True)


def _glm(fields: Fields, *, head_dim: int | None = 128, share: float = 0.5) -> Decoder:
    sizes = sizes_of(fields, kv_heads=2, head_dim=head_dim)
    norm = rms_norm(fields, default=1.5625e-7)
    attention = attention_of(
        sizes, rotary=_neighbours(fields, sizes, share=share),
        bias=fields.flag("attention_bias", default=True),
    )  # fmt: skip
    feed_forward = FeedForward(sizes.width, activation_of(fields), joined=True)
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _glm4(fields: Fields, **usual: Any) -> Decoder:
    """Like GLM, with norms after both parts, too; ``usual`` are defaults of :func:`_glm`."""
    plain = _glm(fields, **usual)
    norm = plain.norm
    block = replace(plain.blocks[0], after_attention=norm, after_feed_forward=norm)
    return replace(plain, blocks=(block,) * len(plain.blocks))


def _glm_ocr(fields: Fields) -> Decoder:
    """Text part of GLM-OCR: like that of GLM 4V, without biases."""
    return with_attention(_glm4(fields, head_dim=128, share=1.0), bias=False)


def _helium(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, head_dim=128), rms_norm(fields, default=1e-8)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(sizes, rotary=_neighbours(fields, sizes, theta=1e5), bias=bias)
    feed_forward = plain_feed_forward(fields, sizes, bias=fields.flag("mlp_bias", default=False))
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _ernie(fields: Fields) -> Decoder:
    blocks, _, sizes = _ernie_blocks(fields, head_dim=128, kv_heads=2)
    return decoder_with(fields, sizes, blocks, rms_norm(fields, default=1e-5), tied=True)


def _ernie_blocks(
    fields: Fields, *, head_dim: int | None, kv_heads: int
) -> tuple[list[Block], FeedForward, FamilySizes]:
    sizes = sizes_of(fields, kv_heads=kv_heads, head_dim=head_dim)
    norm, bias = rms_norm(fields, default=1e-5), fields.flag("use_bias", default=False)
    turns = _neighbours(fields, sizes, theta=500000.0)
    attention = attention_of(sizes, rotary=turns, bias=bias, output_bias=bias)
    dense = plain_feed_forward(fields, sizes, bias=bias)
    return [before_both(norm, attention, dense)] * sizes.layers, dense, sizes


def _ernie_moe(fields: Fields) -> Decoder:
    """ERNIE with experts in all blocks of a range, or in every so many of them."""
    blocks, dense, sizes = _ernie_blocks(fields, head_dim=None, kv_heads=4)
    width = fields.integer("moe_intermediate_size", default=1536)
    count = fields.integer("moe_num_experts", "num_experts", default=64, most=MOST_EXPERTS)
    shared = count_of(fields, "moe_num_shared_experts", 2)
    experts = Experts(
        count,
        fields.integer("moe_k", "num_experts_per_tok", default=6, most=count),
        shared=replace(dense, width=width * shared) if shared else None,
    )
    sparse = routed(fields, experts, width=width)
    first = count_of(fields, "moe_layer_start_index", 1)
    last = fields.get("moe_layer_end_index")
    every = fields.integer("moe_layer_interval", default=1)
    last = sizes.layers - 1 if last in (None, -1) else last
    fields.ignore("moe_norm_min", "moe_capacity", "moe_use_aux_free")
    parts = [
        sparse if (i + 1) % every == 0 and first <= i <= last else dense
        for i in range(sizes.layers)
    ]
    blocks = [replace(block, feed_forward=part) for block, part in zip(blocks, parts, strict=True)]
    return decoder_with(fields, sizes, blocks, rms_norm(fields, default=1e-5), tied=True)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "glm": _glm,
    "glm4": _glm4,
    "glm4v_text": partial(_glm4, head_dim=None, share=1.0),
    "glm_ocr_text": _glm_ocr,
    "helium": _helium,
    "ernie4_5": _ernie,
    "ernie4_5_moe": _ernie_moe,
}
"""Families by ``model_type``."""

"""Qwen: like Llama, with biases or norms of queries and keys, and a window for later blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.importers.decoders.architecture import (
    Decoder,
    Experts,
    FeedForward,
)
from dlbricks_core.importers.decoders.families.parts import (
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    experts_of,
    optional_window,
    rms_norm,
    rotary_of,
    sizes_of,
    windowed,
)
from dlbricks_core.importers.decoders.fields import Fields


def _qwen2(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes), bias=True)
    window, kinds = optional_window(fields, sizes.layers, 28)
    feed_forward = FeedForward(sizes.width, activation_of(fields))
    blocks = [before_both(norm, each, feed_forward)
              for each in windowed(attention, kinds, window)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


def _qwen3(
    fields: Fields, experts: Experts | None = None, width: int = 0, head_dim: int | None = 128
) -> Decoder:
    sizes, norm = sizes_of(fields, head_dim=head_dim), rms_norm(fields)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes), bias=bias, output_bias=bias, norm=norm
    )
    window, kinds = optional_window(fields, sizes.layers, 28)
    feed_forward = FeedForward(
        width or sizes.width, activation_of(fields), joined=experts is not None, experts=experts
    )
    blocks = [before_both(norm, each, feed_forward)
              for each in windowed(attention, kinds, window)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, norm)


def _qwen3_moe(fields: Fields) -> Decoder:
    fields.only("decoder_sparse_step", 1)
    fields.only("mlp_only_layers", [])
    experts = experts_of(fields, 128)
    width = fields.integer("moe_intermediate_size", default=768)
    return _qwen3(fields, experts, width, head_dim=None)


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
}
"""Families by ``model_type``."""

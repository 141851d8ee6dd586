"""Families with plain feed-forward layers whose activation squares: Arcee, Nemotron and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_decoders.architecture import Decoder
from dlbricks_decoders.block_parts import FeedForward, JoinedProjections, Norm
from dlbricks_decoders.families.parts import (
    FamilySizes,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    layer_norm,
    rms_norm,
    rotary_of,
    sizes_of,
)
from dlbricks_decoders.fields import Fields


def _plain(
    fields: Fields, sizes: FamilySizes, norm: Norm, *, bias: bool = False, share: float = 1.0
) -> Decoder:
    """Norms before both parts; ``bias`` is the default of the projections' biases."""
    attention_bias = fields.flag("attention_bias", default=bias)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=share), bias=attention_bias,
        output_bias=attention_bias,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, default="relu2"), gated=False,
        bias=fields.flag("mlp_bias", default=bias),
    )  # fmt: skip
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _arcee(fields: Fields) -> Decoder:
    return _plain(fields, sizes_of(fields), rms_norm(fields, default=1e-5))


def _jais2(fields: Fields) -> Decoder:
    return _plain(fields, sizes_of(fields), layer_norm(fields), bias=True)


def _nemotron(fields: Fields) -> Decoder:
    """Nemotron; its files hold the factor of a norm minus 1."""
    return _plain(fields, sizes_of(fields), layer_norm(fields, "norm_eps"), share=0.5)


def _apertus(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    turns = rotary_of(fields, sizes, theta=12e6, usual=_APERTUS_SCALING)
    attention = attention_of(sizes, rotary=turns, bias=bias, output_bias=bias, norm=norm)
    feed_forward = FeedForward(sizes.width, activation_of(fields, default="xielu"), gated=False)
    fields.only("qk_norm", True)
    fields.only("post_norm", False)
    fields.only("mlp_bias", False)
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


_APERTUS_SCALING = {
    "rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
"""Scaling of a configuration of Apertus that states none."""


def _persimmon(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields), layer_norm(fields)
    normalizes = fields.flag("qk_layernorm", default=True)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, share=0.5), joined=JoinedProjections.BY_HEAD,
        bias=True, output_bias=True, norm=norm if normalizes else None,
    )  # fmt: skip
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, default="relu2"), gated=False, bias=True
    )
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _bitnet(fields: Fields) -> Decoder:
    """BitNet: norms before the last projection of both parts; its weights are read as 32 bits."""
    sizes, norm = sizes_of(fields), rms_norm(fields, default=1e-5)
    bias = fields.flag("attention_bias", default=False)
    attention = attention_of(
        sizes, rotary=rotary_of(fields, sizes, theta=5e5), bias=bias, output_bias=bias,
        output_norm=norm,
    )  # fmt: skip
    feed_forward = FeedForward(sizes.width, activation_of(fields, default="relu2"), inner_norm=norm)
    block = before_both(norm, attention, feed_forward)
    return decoder_with(fields, sizes, [block] * sizes.layers, norm)


def _nanochat(fields: Fields) -> Decoder:
    """Norms without weights, also of the embedding; rotations turn in the other direction."""
    sizes, norm = sizes_of(fields), replace(rms_norm(fields), weight=False)
    bias = fields.flag("attention_bias", default=False)
    turns = rotary_of(fields, sizes)
    turns = replace(turns, frequencies=tuple(-each for each in turns.frequencies))
    attention = attention_of(
        sizes, rotary=turns, bias=bias, output_bias=bias, norm=norm, norm_after_rotary=True
    )
    feed_forward = FeedForward(sizes.width, activation_of(fields, default="relu2"), gated=False)
    block = before_both(norm, attention, feed_forward)
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm, embedding_norm=norm,
        softcap=fields.number("final_logit_softcapping", default=15.0),
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "arcee": _arcee,
    "jais2": _jais2,
    "nemotron": _nemotron,
    "apertus": _apertus,
    "persimmon": _persimmon,
    "bitnet": _bitnet,
    "nanochat": _nanochat,
}
"""Families by ``model_type``."""

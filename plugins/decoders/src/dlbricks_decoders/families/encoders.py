"""Models whose decoder attends to what an encoder made: T5, BART and its relatives, Whisper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from dlbricks_decoders.architecture import Block, Decoder, Encoder, Spectrogram
from dlbricks_decoders.block_parts import Attention, Distances, FeedForward, Norm
from dlbricks_decoders.families.parts import ACTIVATIONS, MOST_BLOCKS, activation_of
from dlbricks_decoders.fields import Fields


def _t5(
    fields: Fields, *, kind: str = "relu", by_block: bool = False, scaled: bool = True
) -> Decoder:
    """T5: biases by distance.

    Args:
        fields: The configuration.
        kind: Default kind of the feed-forward part.
        by_block: Whether each block has biases of its own, as in UMT5.
        scaled: Whether logits have a factor unless embedding and head are apart.
    """
    hidden, heads = fields.integer("d_model", default=512), fields.integer("num_heads", default=8)
    size, norm = (
        fields.integer("d_kv", default=64),
        Norm(fields.positive("layer_norm_epsilon", default=1e-6)),
    )
    layers = fields.integer("num_layers", default=6, most=MOST_BLOCKS)
    further = fields.integer("num_decoder_layers", default=layers, most=MOST_BLOCKS)
    kind = fields.get("feed_forward_proj") or kind
    activation = "gelu_new" if kind == "gated-gelu" else str(kind).removeprefix("gated-")
    if activation not in ACTIVATIONS:
        raise fields.refusal("feed_forward_proj", kind, "Supported: relu, gated-gelu, gated-silu.")
    part = FeedForward(
        fields.integer("d_ff", default=2048), ACTIVATIONS[activation],
        gated=str(kind).startswith("gated-"),
    )  # fmt: skip
    distances = Distances(
        fields.integer("relative_attention_num_buckets", default=32),
        fields.integer("relative_attention_max_distance", default=128),
        by_block=by_block,
    )
    if distances.buckets < 4 or distances.buckets % 4 or distances.furthest <= distances.buckets:
        raise fields.refusal("relative_attention_num_buckets", distances.buckets,
                             "Supported: multiples of 4 below the largest distance.")  # fmt: skip
    alone = Attention(heads, heads, size, 1.0, distances=distances)
    read = replace(alone, causal=False, distances=replace(distances, both_ways=True))
    block = Block(alone, part, norm, before_feed_forward=norm, before_cross=norm,
                  cross=Attention(heads, heads, size, 1.0, causal=False))  # fmt: skip
    encoder = Encoder(hidden, (Block(read, part, norm, before_feed_forward=norm),) * layers, norm)
    tied = fields.flag("tie_word_embeddings", default=True)
    fields.ignore("n_positions", "dense_act_fn", "is_gated_act", "dropout_rate", "output_past",
                  "initializer_factor", "use_cache", "num_hidden_layers", "max_position_embeddings",
                  "scalable_attention")  # fmt: skip
    scale = hidden**-0.5 if scaled and fields.flag("scale_decoder_outputs", default=tied) else 1.0
    return Decoder(
        "", fields.integer("vocab_size", default=32128), hidden, (block,) * further, norm, hidden,
        tied=True, encoder=encoder, logits_scale=scale,
    )  # fmt: skip


@dataclass(frozen=True)
class _Style:
    """Differences among relatives of BART.

    Attributes:
        first: Whether norms come before parts, and after the last block.
        embedding_norm: Whether the embedding is normalized.
        offset: Row of the first position.
        bias: Whether logits have a bias.
        scaled: Whether the embedding has a factor by default.
    """

    first: bool
    embedding_norm: bool
    offset: int = 0
    bias: bool = True
    scaled: bool = False


_UNUSED = (
    "num_hidden_layers", "classif_dropout", "classifier_dropout", "add_bias_logits",
    "add_final_layer_norm", "normalize_before", "normalize_embedding", "static_position_embeddings",
    "extra_pos_embeddings", "encoder_layerdrop", "decoder_layerdrop",
    "force_bos_token_to_be_generated",
    "num_attention_heads", "hidden_size", "share_encoder_decoder_embeddings", "decoder_vocab_size",
    "forced_decoder_ids", "median_filter_width", "use_weighted_layer_sum", "classifier_proj_size",
    "apply_spec_augment", "mask_time_prob", "mask_time_length", "mask_time_min_masks",
    "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks", "lang_ids",
    "alignment_heads", "return_timestamps", "layernorm_variant", "max_new_tokens",
    "do_blenderbot_90_layernorm", "encoder_no_repeat_ngram_size", "tie_word_embeddings",
)  # fmt: skip
"""Fields that change no layer, or repeat one."""


def _sides(fields: Fields, style: _Style, key_bias: bool) -> tuple[list[Block], list[Block]]:
    """Blocks of the encoder and of the decoder."""
    hidden, norm = fields.integer("d_model", default=1024), Norm(1e-5, centered=True, bias=True)
    activation = activation_of(fields, "activation_function", default="gelu")
    sides = []
    for side in ("encoder", "decoder"):
        heads = fields.integer(f"{side}_attention_heads", default=16)
        if hidden % heads:
            raise fields.refusal(f"{side}_attention_heads", heads,
                                 f"It has to divide {hidden} elements.")  # fmt: skip
        attention = Attention(
            heads, heads, hidden // heads, (hidden // heads) ** -0.5, bias=True, output_bias=True,
            key_bias=key_bias, causal=side == "decoder",
        )  # fmt: skip
        part = FeedForward(
            fields.integer(f"{side}_ffn_dim", default=4096), activation, gated=False, bias=True
        )
        cross = replace(attention, causal=False) if side == "decoder" else None
        block = (
            Block(attention, part, norm, before_feed_forward=norm, cross=cross, before_cross=norm)
            if style.first
            else Block(attention, part, attention_sum=norm, feed_forward_sum=norm, cross=cross,
                       cross_sum=norm)
        )  # fmt: skip
        layers = fields.integer(f"{side}_layers", default=12, most=MOST_BLOCKS)
        sides.append([block] * layers)
    return sides[0], sides[1]


def _bart(fields: Fields, style: _Style) -> Decoder:
    """BART and those after it, which learn or compute positions of the encoder and the decoder."""
    read, written = _sides(fields, style, key_bias=True)
    hidden, norm = fields.integer("d_model", default=1024), Norm(1e-5, centered=True, bias=True)
    scale = math.sqrt(hidden) if fields.flag("scale_embedding", default=style.scaled) else 1.0
    positions = fields.integer("max_position_embeddings", default=1024) + style.offset
    common = {
        "embedding_scale": scale, "embedding_norm": norm if style.embedding_norm else None,
        "positions": positions, "position_offset": style.offset,
    }  # fmt: skip
    last = norm if style.first else None
    fields.ignore(*_UNUSED)
    return Decoder(
        "", fields.integer("vocab_size"), hidden, tuple(written), last, hidden, tied=True,
        head_bias=style.bias, encoder=Encoder(hidden, tuple(read), last, **common), **common,
    )  # fmt: skip


def _whisper(fields: Fields) -> Decoder:
    """Whisper: an encoder of sound, always 30 seconds long."""
    read, written = _sides(fields, _Style(first=True, embedding_norm=False), key_bias=False)
    hidden, norm = fields.integer("d_model"), Norm(1e-5, centered=True, bias=True)
    scale = math.sqrt(hidden) if fields.flag("scale_embedding", default=False) else 1.0
    length = fields.integer("max_source_positions", default=1500)
    sound = Spectrogram(fields.integer("num_mel_bins", default=80), 2 * length)
    fields.ignore(*_UNUSED)
    return Decoder(
        "", fields.integer("vocab_size", default=51865), hidden, tuple(written), norm, hidden,
        tied=True, embedding_scale=scale,
        positions=fields.integer("max_target_positions", default=448),
        encoder=Encoder(hidden, tuple(read), norm, sound=sound, positions=length),
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "t5": _t5,
    "mt5": partial(_t5, kind="gated-gelu", scaled=False),
    "umt5": partial(_t5, kind="gated-gelu", by_block=True),
    "bart": partial(_bart, style=_Style(first=False, embedding_norm=True, offset=2)),
    "mbart": partial(_bart, style=_Style(first=True, embedding_norm=True, offset=2)),
    "pegasus": partial(_bart, style=_Style(first=True, embedding_norm=False)),
    "blenderbot": partial(_bart, style=_Style(first=True, embedding_norm=False)),
    "marian": partial(_bart, style=_Style(first=False, embedding_norm=False)),
    "m2m_100": partial(
        _bart, style=_Style(first=True, embedding_norm=False, offset=2, bias=False, scaled=True)
    ),
    "whisper": _whisper,
}
"""Families by ``model_type``."""

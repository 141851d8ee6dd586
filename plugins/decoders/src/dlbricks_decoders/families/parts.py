"""Parts that several families read from their configurations in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import Activation, Attention, Experts, FeedForward, Norm, Rotary
from dlbricks_decoders.fields import Fields
from dlbricks_decoders.rotary import rotary

NEW_GELU, FAST_GELU = Activation("NewGelu"), Activation("FastGelu")
"""GELU approximated by tanh, in the operators of two programs."""

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": Activation("Swish"),
    "swish": Activation("Swish"),
    "gelu": Activation("Gelu", "none"),
    "gelu_python": Activation("Gelu", "none"),
    "gelu_new": NEW_GELU,
    "gelu_fast": FAST_GELU,
    "gelu_pytorch_tanh": Activation("Gelu", "tanh"),
    "relu": Activation("Relu"),
    "relu2": Activation("SquaredRelu"),
    "xielu": Activation("XIELU"),
}
"""Activation functions by the names that configurations use."""

MOST_BLOCKS, MOST_EXPERTS = 1024, 1024
"""Maximum numbers that a configuration may have."""

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class FamilySizes:
    """Sizes that every family has."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    longest: int
    width: int


def sizes_of(fields: Fields, **defaults: Any) -> FamilySizes:
    """Sizes of a decoder, under the field names and with the defaults of its family."""
    hidden = fields.integer("hidden_size", "n_embed", "n_embd", "d_model")
    heads = fields.integer("num_attention_heads", "n_head", "num_heads", "n_heads")
    usual = heads if fields.given("num_key_value_heads") else defaults.get("kv_heads", heads)
    kv_heads = fields.integer("num_key_value_heads", "num_kv_heads", default=usual)
    if heads % kv_heads:
        raise fields.refusal("num_key_value_heads", kv_heads, f"It has to divide {heads} heads.")
    head_dim = fields.integer("head_dim", default=defaults.get("head_dim"))
    if head_dim is None and hidden % heads:
        raise fields.refusal("num_attention_heads", heads, f"It has to divide {hidden} elements.")
    return FamilySizes(
        fields.integer("vocab_size"),
        hidden,
        fields.integer("num_hidden_layers", "n_layer", "num_layers", "n_layers", most=MOST_BLOCKS),
        heads,
        kv_heads,
        head_dim or hidden // heads,
        fields.integer("max_position_embeddings", "n_positions", "max_seq_len", default=2048),
        fields.integer("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size",
                       default=defaults.get("width", 4 * hidden)),
    )  # fmt: skip


def renamed(fields: Fields, **names: str) -> Fields:
    """The fields with usual names for those of a publication, given as ``theirs="usual"``."""
    for theirs, usual in names.items():
        value = fields.get(theirs)
        fields = fields if value is None else fields.with_default(usual, value)
    return fields


def activation_of(fields: Fields, *names: str, default: str = "silu") -> Activation:
    """The activation function of feed-forward layers; ``hidden_act`` unless a family renames it."""
    found: Activation = fields.choice(
        *(names or ("hidden_act", "activation_function")), ACTIVATIONS, default=default
    )
    return found


def plain_feed_forward(fields: Fields, sizes: FamilySizes, **more: Any) -> FeedForward:
    """A gated feed-forward part with separate projections; ``more`` are fields of it."""
    return FeedForward(sizes.width, activation_of(fields), **more)


def rms_norm(fields: Fields, name: str = "rms_norm_eps", default: float = 1e-6) -> Norm:
    """A norm by the root mean square; the name and the default are those of its epsilon."""
    return Norm(fields.positive(name, "layer_norm_epsilon", default=default))


def layer_norm(fields: Fields, *names: str, bias: bool = True) -> Norm:
    """A norm by mean and variance; names are those of its epsilon."""
    epsilon = fields.positive(*(names or ("layer_norm_eps",)), default=1e-5)
    return Norm(epsilon, centered=True, bias=bias)


def rotary_of(
    fields: Fields,
    sizes: FamilySizes,
    theta: float = 10000.0,
    share: float = 1.0,
    kind: str = "",
    usual: Mapping[str, Any] | None = None,
) -> Rotary:
    """The rotary embedding of all blocks, or of blocks of one kind.

    Args:
        fields: The configuration.
        sizes: Sizes of the decoder.
        theta: Default base of the frequencies.
        share: Default share of a head that is rotated.
        kind: Kind of attention; empty where all blocks have the same.
        usual: Scaling of a configuration that states none.
    """
    scaling = fields.part("rope_parameters", "rope_scaling")
    if usual and not ("rope_parameters" in fields or "rope_scaling" in fields):
        scaling = Fields(usual, "")
    if kind and kind in scaling:
        scaling.ignore(FULL, SLIDING)
        scaling = scaling.part(kind)
    named_theta = fields.positive("rope_theta", "rotary_emb_base", default=theta)
    theta = scaling.positive("rope_theta", default=named_theta)
    named_share = fields.number("partial_rotary_factor", "rotary_pct", default=share)
    share = scaling.number("partial_rotary_factor", default=named_share)
    if scaling.get("rope_type") == "proportional":
        share = 1.0  # the share is that of frequencies above 0
    before = fields.integer("original_max_position_embeddings", default=None)
    if before is not None:
        scaling = scaling.with_default("original_max_position_embeddings", before)
    found = rotary(
        scaling, theta, in_pairs(fields, sizes, int(sizes.head_dim * share)), sizes.longest
    )
    scaling.check_all_read()
    return found


def local_rotary(fields: Fields, sizes: FamilySizes, theta: float) -> Rotary:
    """The rotary embedding of blocks that attend to a window, without scaling."""
    base = fields.positive("rope_local_base_freq", default=theta)
    return rotary_by_kind(fields, sizes, SLIDING, base)


def rotary_by_kind(
    fields: Fields, sizes: FamilySizes, kind: str, theta: float, share: float = 1.0
) -> Rotary:
    """The rotary embedding of one kind of blocks; a configuration states it for all or for none."""
    if kind in fields.part("rope_parameters"):
        return rotary_of(fields, sizes, theta, share, kind=kind)
    turned = in_pairs(fields, sizes, int(sizes.head_dim * share))
    return rotary(Fields({}, ""), theta, turned, sizes.longest)


def in_pairs(fields: Fields, sizes: FamilySizes, dimensions: int) -> int:
    """Number of rotated dimensions of a head, which a rotation takes in pairs."""
    if dimensions < 2 or dimensions % 2:
        raise fields.refusal("rotated dimensions", dimensions, "They have to be pairs.")
    if dimensions > sizes.head_dim:
        raise fields.refusal("rotated dimensions", dimensions, f"A head has {sizes.head_dim}.")
    return dimensions


def kinds_of(fields: Fields, layers: int, usual: Sequence[str]) -> list[str]:
    """Kind of attention of each block."""
    return fields.list_of("layer_types", (FULL, SLIDING), layers) or list(usual)


def windowed(attention: Attention, kinds: Sequence[str], window: int | None) -> list[Attention]:
    """The attention of each block, by its kind."""
    near = replace(attention, window=window)
    return [near if kind == SLIDING else attention for kind in kinds]


def optional_window(
    fields: Fields, layers: int, first: int, usual: int | None = 4096
) -> tuple[int | None, list[str]]:
    """Window of Qwen's configurations, and the kind of attention of each block.

    ``usual`` is the window of a configuration that states none.
    """
    used = fields.flag("use_sliding_window", default=False)
    absent = None if fields.given("sliding_window") else usual
    window = fields.integer("sliding_window", default=absent) if used else None
    fields.ignore("sliding_window")
    first = fields.integer("max_window_layers", default=first) if used and first else first
    fields.ignore("max_window_layers")
    slides = [used and i >= first for i in range(layers)]
    return window, kinds_of(fields, layers, [SLIDING if each else FULL for each in slides])


def attention_of(sizes: FamilySizes, **more: Any) -> Attention:
    """Attention with the usual scale of scores; ``more`` are fields of :class:`Attention`."""
    return Attention(
        sizes.heads, sizes.kv_heads, sizes.head_dim,
        **{"scale": sizes.head_dim**-0.5, **more},
    )  # fmt: skip


def count_of(fields: Fields, name: str, default: int) -> int:
    """A number of something, which may be 0."""
    count: int = 0 if fields.get(name) == 0 else fields.integer(name, default=default)
    return count


def with_attention(decoder: Decoder, **changes: Any) -> Decoder:
    """The decoder with some fields of its attention changed, in all blocks that have any."""
    blocks = [replace(block, attention=block.attention and replace(block.attention, **changes))
              for block in decoder.blocks]  # fmt: skip
    return replace(decoder, blocks=tuple(blocks))


def experts_of(
    fields: Fields, count: int, *, per_token: int = 8, normalized: bool = False
) -> Experts:
    """Experts of a mixture, with default numbers and a default for the sum of their weights."""
    count = fields.integer("num_experts", "num_local_experts", default=count, most=MOST_EXPERTS)
    return Experts(
        count,
        fields.integer("num_experts_per_tok", default=per_token, most=count),
        fields.flag("norm_topk_prob", default=normalized),
    )


def sparse_or_dense(
    fields: Fields, layers: int, dense: FeedForward, sparse: FeedForward
) -> list[FeedForward]:
    """The feed-forward part of each block in Qwen's configurations: every so many have experts."""
    step = fields.integer("decoder_sparse_step", default=1)
    without = fields.get("mlp_only_layers") or []
    if not isinstance(without, list) or not all(isinstance(each, int) for each in without):
        raise fields.refusal("mlp_only_layers", without, "Supported: a list of block numbers.")
    return [dense if i in without or (i + 1) % step else sparse for i in range(layers)]


def routed(fields: Fields, experts: Experts, *, width: int, **more: Any) -> FeedForward:
    """A mixture of gated experts with joined projections; ``more`` are fields of the part."""
    return FeedForward(width, activation_of(fields), joined=True, experts=experts, **more)


def before_both(norm: Norm, attention: Attention, feed_forward: FeedForward) -> Block:
    """A block that normalizes the input of each of its parts."""
    return Block(attention, feed_forward, before_attention=norm, before_feed_forward=norm)


def decoder_with(fields: Fields, sizes: FamilySizes, blocks: Sequence[Block], norm: Norm | None,
             *, tied: bool = False, **more: Any) -> Decoder:  # fmt: skip
    """The decoder of these blocks, with a norm after the last.

    Args:
        fields: The configuration.
        sizes: Sizes of the decoder.
        blocks: Its blocks.
        norm: The last norm, if there is one.
        tied: Default for whether embedding and head share weights.
        more: Further fields of :class:`Decoder`.
    """
    tied = fields.flag("tie_word_embeddings", default=tied)
    return Decoder(
        "", sizes.vocabulary, sizes.hidden, tuple(blocks), norm, tied=tied,
        **{"embedding": sizes.hidden, **more},
    )  # fmt: skip

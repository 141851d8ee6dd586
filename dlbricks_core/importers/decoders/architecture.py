"""Description of a decoder: the properties in which families of language models differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Norm:
    """A normalization over the last axis.

    Attributes:
        epsilon: Number that is added to the variance.
        centered: Whether the mean is subtracted (LayerNorm), or not (RMSNorm).
        weight: Whether there is a learned scale.
        bias: Whether there is a learned offset.
    """

    epsilon: float
    centered: bool = False
    weight: bool = True
    bias: bool = False


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding (Su et al., RoFormer, 2021) of the first dimensions of a head.

    Attributes:
        frequencies: Angle by position of each pair of dimensions, in radians.
        scale: Factor of sines and cosines.
        long_frequencies: Frequencies for sequences that are longer than ``long_after``; none if the
            length does not matter.
        long_after: Longest sequence that ``frequencies`` are for.
        interleaved: Whether neighbours are a pair, or elements of both halves.
    """

    frequencies: tuple[float, ...]
    scale: float = 1.0
    long_frequencies: tuple[float, ...] = ()
    long_after: int = 0
    interleaved: bool = False


class Joined(Enum):
    """Arrangement of the projections to queries, keys and values in one weight."""

    APART = "three weights"
    IN_ROW = "all queries, then all keys, then all values"
    BY_HEAD = "query, key and value of the first head, then those of the second"
    BY_GROUP = "queries, key and value of the first group of heads, then those of the second"


@dataclass(frozen=True)
class Attention:
    """Attention of a block.

    Attributes:
        heads: Number of heads of queries.
        kv_heads: Number of heads of keys and values.
        head_dim: Elements of a head.
        scale: Factor of the scores.
        joined: Arrangement of the projections to queries, keys and values.
        bias: Whether those projections have a bias.
        output_bias: Whether the projection of the result has a bias.
        rotary: Rotary position embedding.
        alibi: Whether scores fall with the distance (Press et al., ALiBi, 2021).
        window: Number of positions that a query attends to, including its own; ``None`` for all.
        softcap: Soft upper bound on scores; 0 for none.
        clip: Largest magnitude of queries, keys and values; ``None`` for no limit.
        norm: Normalization of queries and keys.
        norm_by_head: Whether the normalization applies to each head separately.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    joined: Joined = Joined.APART
    bias: bool = False
    output_bias: bool = False
    rotary: Rotary | None = None
    alibi: bool = False
    window: int | None = None
    softcap: float = 0.0
    clip: float | None = None
    norm: Norm | None = None
    norm_by_head: bool = True


@dataclass(frozen=True)
class Activation:
    """An activation function: an ONNX operator and how it approximates."""

    op: str
    approximate: str = ""


@dataclass(frozen=True)
class Experts:
    """Experts among which a router chooses for each token.

    Attributes:
        count: Number of experts.
        per_token: Number of experts that work on a token.
        normalized: Whether the weights of a token's experts add up to 1.
    """

    count: int
    per_token: int
    normalized: bool = True


@dataclass(frozen=True)
class FeedForward:
    """Feed-forward part of a block.

    Attributes:
        width: Number of elements between its projections.
        activation: Activation function.
        gated: Whether a second projection is multiplied by the activation's result.
        joined: Whether both projections lie in one weight.
        bias: Whether projections have a bias.
        experts: Experts, each of which is such a part; ``None`` without a mixture of experts.
    """

    width: int
    activation: Activation
    gated: bool = True
    joined: bool = False
    bias: bool = False
    experts: Experts | None = None


@dataclass(frozen=True)
class Block:
    """A block: attention, a feed-forward part, and normalizations around them.

    Attributes:
        attention: Attention of the block.
        feed_forward: Feed-forward part of the block.
        before_attention: Normalization of attention's input.
        after_attention: Normalization of attention's output.
        attention_sum: Normalization of the sum of input and output.
        before_feed_forward: Normalization of the feed-forward part's input. Without it, a part that
            works in parallel shares attention's input.
        after_feed_forward: Normalization of the feed-forward part's output.
        feed_forward_sum: Normalization of the sum of input and output.
        parallel: Whether both parts read the block's input.
        residual_scale: Factor of each part's output.
    """

    attention: Attention
    feed_forward: FeedForward
    before_attention: Norm | None = None
    after_attention: Norm | None = None
    attention_sum: Norm | None = None
    before_feed_forward: Norm | None = None
    after_feed_forward: Norm | None = None
    feed_forward_sum: Norm | None = None
    parallel: bool = False
    residual_scale: float = 1.0


@dataclass(frozen=True)
class Decoder:
    """A language model that predicts the next token.

    Attributes:
        family: Name of its family, ``model_type`` in configurations.
        vocabulary: Number of tokens.
        hidden: Elements of a token's state between blocks.
        blocks: Blocks from the first to the last.
        norm: Normalization after the last block.
        embedding: Elements of a token's embedding, which is projected if they differ from
            ``hidden``.
        embedding_scale: Factor of the embedding.
        embedding_norm: Normalization of the embedding.
        positions: Number of learned positions; 0 for none.
        position_offset: Row of the first position among the learned ones.
        tied: Whether the embedding is the last projection, too.
        head_bias: Whether the last projection has a bias.
        logits_scale: Factor of the logits.
        softcap: Soft upper bound on logits; 0 for none.
    """

    family: str
    vocabulary: int
    hidden: int
    blocks: tuple[Block, ...]
    norm: Norm | None
    embedding: int
    embedding_scale: float = 1.0
    embedding_norm: Norm | None = None
    positions: int = 0
    position_offset: int = 0
    tied: bool = False
    head_bias: bool = False
    logits_scale: float = 1.0
    softcap: float = 0.0

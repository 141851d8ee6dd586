"""Descriptions of the parts of a block: normalizations, attention, feed-forward, recurrences."""

from __future__ import annotations

from collections.abc import Mapping
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


class JoinedProjections(Enum):
    """Arrangement of the projections to queries, keys and values in one weight."""

    APART = "three weights"
    IN_ROW = "all queries, then all keys, then all values"
    BY_HEAD = "query, key and value of the first head, then those of the second"
    BY_GROUP = "queries, key and value of the first group of heads, then those of the second"
    IN_QUARTERS = "queries, values and keys of the first quarter of the heads, then of the second"


@dataclass(frozen=True)
class Indexer:
    """Choice of the tokens that latent attention attends to (DeepSeek-V3.2, 2025).

    Attributes:
        heads: Number of heads that score the tokens.
        size: Elements of a head, and of the key that the cache holds of each token.
        most: Largest number of chosen tokens.
        norm: Normalization of keys.
        interleaved: Whether neighbours are a pair that is rotated.
        last: Whether the last elements of a head are rotated, not the first.
        shared: Whether the block uses the choice of an earlier one.
    """

    heads: int
    size: int
    most: int
    norm: Norm
    interleaved: bool = False
    last: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Latent:
    """Latent attention (DeepSeek-V2, 2024): the cache holds a compressed state of each token.

    Keys and values of all heads are projected from that state whenever a token attends to them.

    Attributes:
        state: Elements of the compressed state.
        norm: Normalization of compressed states.
        rotary: Position embedding of the elements that have one.
        query: Elements of the compressed query; 0 where queries are projected in one step.
        plain: Elements of a head's query and key without a position embedding.
        turned: Elements of them with one; the key's are shared by all heads.
        value: Elements of a head's value.
        indexer: Choice of tokens; ``None`` if a token attends to all earlier tokens.
        query_scale: Factor of the queries.
        state_scale: Factor of the compressed state of keys and values.
    """

    state: int
    norm: Norm
    rotary: Rotary
    query: int
    plain: int
    turned: int
    value: int
    indexer: Indexer | None = None
    query_scale: float = 1.0
    state_scale: float = 1.0


@dataclass(frozen=True)
class Temperature:
    """Scale of queries that grows with the position.

    It is ``1 + rate * log(1 + (position + first) // after)``.

    Attributes:
        rate: Growth.
        after: Number of positions until the first growth.
        first: Number of the first position.
    """

    rate: float
    after: int
    first: int = 0


@dataclass(frozen=True)
class Gate:
    """Gate of attention's result, which is a projection of what attention reads.

    Attributes:
        op: ONNX operator that makes factors of the projection.
        by_head: Whether a head has one factor, not one for each of its elements.
        joined: Whether each head's gate follows its query in one weight.
    """

    op: str = "Sigmoid"
    by_head: bool = False
    joined: bool = False


@dataclass(frozen=True)
class Distances:
    """Learned bias of scores by the distance of a key (Raffel et al., T5, 2020).

    Attributes:
        buckets: Number of ranges of distances, each with a bias for each head.
        furthest: Distance from which on all share the last range.
        both_ways: Whether keys before and after a token have ranges of their own.
        by_block: Whether each block has its own biases.
    """

    buckets: int
    furthest: int
    both_ways: bool = False
    by_block: bool = False


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
        chunk: Number of positions of a chunk, outside of which a query attends to none; ``None``
            for no chunks.
        softcap: Soft upper bound on scores; 0 for none.
        clip: Largest magnitude of queries, keys and values; ``None`` for no limit.
        norm: Normalization of queries and keys.
        norm_by_head: Whether the normalization applies to each head separately.
        norm_after_rotary: Whether the normalization follows the position embedding.
        temperature: Scale of queries by their position.
        sinks: Whether each head has a learned score that no key belongs to (Xiao et al.,
            StreamingLLM, 2023).
        output_norm: Normalization of the result before its projection.
        gate: Gate of the result before its projection.
        value: Elements of a head's value; 0 for as many as its key has.
        value_scale: Factor of the values.
        key_scale: Factor of the keys.
        input_scale: Factor of what the projections read.
        value_norm: Normalization of the values of each head.
        keys_as_values: Whether values are the projection to keys, before its normalization.
        key_bias: Whether the projection to keys has a bias where the others have one.
        causal: Whether a token attends to itself and earlier ones, which the cache holds; not so in
            encoders.
        distances: Bias of the scores by distance.
        borrowed: Whether keys and values are those of the last block before it that has its own and
            the same window; the cache then holds none of this block.
        latent: Compression of keys and values; ``None`` where the cache holds them as they are.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    joined: JoinedProjections = JoinedProjections.APART
    bias: bool = False
    output_bias: bool = False
    rotary: Rotary | None = None
    alibi: bool = False
    window: int | None = None
    chunk: int | None = None
    softcap: float = 0.0
    clip: float | None = None
    norm: Norm | None = None
    norm_by_head: bool = True
    norm_after_rotary: bool = False
    temperature: Temperature | None = None
    sinks: bool = False
    output_norm: Norm | None = None
    gate: Gate | None = None
    value: int = 0
    value_scale: float = 1.0
    key_scale: float = 1.0
    input_scale: float = 1.0
    value_norm: Norm | None = None
    keys_as_values: bool = False
    key_bias: bool = True
    causal: bool = True
    distances: Distances | None = None
    borrowed: bool = False
    latent: Latent | None = None

    @property
    def value_dim(self) -> int:
        """Elements of a head's value."""
        return self.latent.value if self.latent else self.value or self.head_dim

    @property
    def cached(self) -> Mapping[str, tuple[int, int]]:
        """Heads and elements of a head in each part of the cache."""
        if self.borrowed or not self.causal:
            return {}
        if self.latent is None:
            return {
                "key": (self.kv_heads, self.head_dim),
                "value": (self.kv_heads, self.value_dim),
            }
        indexer = self.latent.indexer
        chosen = {"indexer": (1, indexer.size)} if indexer and not indexer.shared else {}
        return {"key": (1, self.latent.state), "value": (1, self.latent.turned), **chosen}


@dataclass(frozen=True)
class Activation:
    """An activation function.

    Attributes:
        op: ONNX operator, or a function of several, see :mod:`activations`.
        approximate: How the operator approximates.
        limit: Largest magnitude of what it reads; 0 for no limit.
        raised: Whether 1 is added to the other projection of a limited gate.
    """

    op: str
    approximate: str = ""
    limit: float = 0.0
    raised: bool = False


@dataclass(frozen=True)
class Experts:
    """Experts among which a router chooses for each token.

    Attributes:
        count: Number of experts.
        per_token: Number of experts that work on a token.
        normalized: Whether the weights of a token's experts add up to 1.
        score: ONNX operator that makes weights of the router's results.
        scale: Factor of the weights.
        router_bias: Whether the router has a bias.
        shared: Expert that works on every token, too; ``None`` without one.
        shared_gate: Whether a gate weighs the shared expert.
        weighs_input: Whether the weights are factors of what experts read, not of their results.
        softcap: Soft upper bound on the router's results; 0 for none.
        jitter: Relative distance of results that count as near where the best two choose among
            those near theirs (Liu et al., GRIN, 2024); ``None`` for other routers.
        router_norm: Normalization of what the router reads, which is then the block's sum instead
            of what experts read, and has a learned factor.
        expert_scales: Whether each expert has a learned factor of its weight.
        idle: Number of the experts, the last ones, that return what they read.
    """

    count: int
    per_token: int
    normalized: bool = True
    score: str = "Softmax"
    scale: float = 1.0
    router_bias: bool = False
    shared: FeedForward | None = None
    shared_gate: bool = False
    weighs_input: bool = False
    softcap: float = 0.0
    jitter: float | None = None
    router_norm: Norm | None = None
    expert_scales: bool = False
    idle: int = 0


@dataclass(frozen=True)
class FeedForward:
    """Feed-forward part of a block.

    Attributes:
        width: Number of elements between its projections.
        activation: Activation function.
        gated: Whether a second projection is multiplied by the activation's result.
        joined: Whether both projections are in one weight.
        interleaved: Whether elements of both projections alternate in that weight.
        bias: Whether projections have a bias.
        experts: Experts, each a feed-forward part; ``None`` without a mixture of experts.
        inner_norm: Normalization before the last projection.
        gate_scale: Factor of what the activation reads.
        output_scale: Factor of the result.
        sparsity: Share of the gate's elements that become 0: those below a cutoff that follows from
            their mean and deviation.
    """

    width: int
    activation: Activation
    gated: bool = True
    joined: bool = False
    interleaved: bool = False
    bias: bool = False
    experts: Experts | None = None
    inner_norm: Norm | None = None
    gate_scale: float = 1.0
    output_scale: float = 1.0
    sparsity: float = 0.0


@dataclass(frozen=True)
class ShortConvolution:
    """A convolution over the last tokens between two gates (LFM2, 2025).

    Attributes:
        kernel: Number of tokens that it reads.
        bias: Whether its layers have a bias.
    """

    kernel: int
    bias: bool = False


@dataclass(frozen=True)
class StateSpace:
    """A selective state space (Dao and Gu, Mamba 2, 2024), which replaces attention.

    Attributes:
        heads: Number of heads.
        head_dim: Elements of a head.
        state: Elements of the state of each element of a head.
        groups: Number of groups of heads that share what is read from and added to the state.
        kernel: Number of tokens that the convolution before it reads.
        chunk: Number of tokens that are computed together.
        norm: Normalization of the gated result, by group; ``None`` without one.
        norm_first: Whether the normalization comes before the gate.
        convolution_bias: Whether the convolution has a bias.
        bias: Whether the first projection has a bias.
        output_bias: Whether the last projection has a bias.
        limits: Least and greatest step of time.
        input_scale: Factor of what the first projection reads.
        scales: Whether each element of the first projection's result has a factor.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int
    chunk: int
    norm: Norm | None
    norm_first: bool = False
    convolution_bias: bool = True
    bias: bool = False
    output_bias: bool = False
    limits: tuple[float, float] | None = None
    input_scale: float = 1.0
    scales: bool = False


@dataclass(frozen=True)
class SelectiveScan:
    """A selective state space with a decay of its own for each element (Gu and Dao, Mamba, 2023).

    Attributes:
        inner: Elements of a token between its projections.
        state: Elements of the state of each of them.
        rank: Elements that the step of time is projected from.
        kernel: Number of tokens that the convolution before it reads.
        norm: Normalization of what steps are projected from, and of what is read from and added to
            the state.
        convolution_bias: Whether the convolution has a bias.
        bias: Whether the first and last projections have a bias.
    """

    inner: int
    state: int
    rank: int
    kernel: int
    norm: Norm | None = None
    convolution_bias: bool = True
    bias: bool = False


@dataclass(frozen=True)
class DeltaRule:
    """Linear attention by the gated delta rule (Yang et al., Gated DeltaNet, 2024).

    Attributes:
        heads: Number of heads of values.
        key_heads: Number of heads of queries and keys.
        key: Elements of a head's query and key.
        value: Elements of a head's value.
        kernel: Number of tokens that the convolution before it reads.
        norm: Normalization of each head's result.
        joined: Whether two weights make all parts of a group of heads, not four weights.
        apart: Whether each part has a weight of its own.
        rate_scale: Factor of the rate of corrections.
    """

    heads: int
    key_heads: int
    key: int
    value: int
    kernel: int
    norm: Norm
    joined: bool = False
    apart: bool = False
    rate_scale: float = 1.0

    @property
    def channels(self) -> int:
        """Elements that the convolution reads of a token."""
        return 2 * self.key_heads * self.key + self.heads * self.value


@dataclass(frozen=True)
class GatedRecurrence:
    """A linear recurrence whose decay and input have gates (De et al., Griffin, 2024).

    Attributes:
        width: Elements of the state.
        heads: Number of groups of elements, each with projections to its gates.
        kernel: Number of tokens that the convolution before it reads.
        activation: Activation function of the gate of the result.
    """

    width: int
    heads: int
    kernel: int
    activation: Activation


@dataclass(frozen=True)
class Lightning:
    """Linear attention whose state decays at a fixed rate (MiniMax 01, 2025).

    Attributes:
        heads: Number of heads.
        head_dim: Elements of a head's query, key and value.
        block: Largest number of tokens that are computed together.
        norm: Normalization of the result, over all heads.
    """

    heads: int
    head_dim: int
    block: int
    norm: Norm

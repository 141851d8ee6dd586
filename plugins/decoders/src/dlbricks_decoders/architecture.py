"""Description of a decoder: the properties in which families of language models differ."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_decoders.block_parts import (
    Activation,
    Attention,
    DeltaRule,
    FeedForward,
    GatedRecurrence,
    Lightning,
    Norm,
    SelectiveScan,
    ShortConvolution,
    StateSpace,
)


@dataclass(frozen=True)
class ExpertsBeside:
    """Experts beside a dense feed-forward part, whose results are added (Gemma 4, 2026).

    Attributes:
        part: The experts.
        before: Normalization of what they read.
        after: Normalization of their result.
        after_dense: Normalization of the dense part's result.
    """

    part: FeedForward
    before: Norm
    after: Norm
    after_dense: Norm


@dataclass(frozen=True)
class AltUp:
    """Several states of each token, of which a block computes one (Baykal et al., AltUp, 2023).

    The other states are predicted before the block and corrected after it.

    Attributes:
        states: Number of states.
        active: Number of the state that blocks compute.
        norm: Normalization of what the coefficients are projected from.
        scaled: Whether the computed state has a learned factor.
    """

    states: int
    active: int
    norm: Norm
    scaled: bool


@dataclass(frozen=True)
class LayerEmbedding:
    """An embedding of tokens for each block (Gemma 3n, 2025).

    Attributes:
        vocabulary: Number of tokens.
        layers: Number of blocks.
        size: Elements of a token's embedding for one block.
        activation: Activation function of the gate.
        norm: Normalization of embeddings, and of what a block adds of them.
    """

    vocabulary: int
    layers: int
    size: int
    activation: Activation
    norm: Norm


@dataclass(frozen=True)
class Streams:
    """Several states of each token, which parts read and write together (Hyper-Connections, 2024).

    A part reads a weighted sum of them, and its result is added to each with a factor. Weights and
    factors are computed from all states.

    Attributes:
        count: Number of states.
        epsilon: Number that is added to the states' mean square.
        least: Number that is added to weights and factors.
        most: Largest factor of a part's result.
    """

    count: int
    epsilon: float
    least: float
    most: float


@dataclass(frozen=True)
class ReadSums:
    """Sums of a part's result and what the part read, after its normalization (MiniMax 01, 2025).

    Attributes:
        attention: Factors of what the part that mixes tokens read, and of its result.
        feed_forward: The same of the feed-forward part.
    """

    attention: tuple[float, float]
    feed_forward: tuple[float, float]


@dataclass(frozen=True)
class Block:
    """A block: a part that mixes tokens, a feed-forward part, and normalizations around them.

    Where a block has both attention and a state space, they read the same, and their results are
    added.

    Attributes:
        attention: Attention of the block; ``None`` where another part mixes tokens, or none does.
        feed_forward: Feed-forward part of the block; ``None`` without one.
        before_attention: Normalization of attention's input.
        after_attention: Normalization of attention's output.
        attention_sum: Normalization of the sum of input and output.
        before_feed_forward: Normalization of the feed-forward part's input. Without it, a part that
            works in parallel shares attention's input.
        after_feed_forward: Normalization of the feed-forward part's output.
        feed_forward_sum: Normalization of the sum of input and output.
        cross: Attention to what an encoder made, between both parts; ``None`` without an encoder.
        before_cross: Normalization of its input.
        cross_sum: Normalization of the sum of its input and output.
        parallel: Whether both parts read the block's input.
        residual_scale: Factor of each part's output.
        attention_scale: Further factor of attention's output.
        state_space: State space in place of attention, or beside it.
        state_scale: Factor of its output beside attention.
        selective: Selective scan in place of attention.
        convolution: Convolution in place of attention.
        delta: Linear attention in place of attention.
        lightning: Linear attention with a fixed decay in place of attention.
        recurrence: Linear recurrence with gates in place of attention.
        read_sums: Sums that begin with what parts read; ``None`` where they begin with what the
            normalizations read.
        beside: Experts beside the feed-forward part.
        low_rank: Elements between the projections of a further part that reads what attention reads
            (LAuReL, Menghani et al., 2024); 0 without one.
        altup: Further states of each token.
        scaled: Whether the block's result has a learned factor.
        shortcut: Experts that read what the feed-forward part reads, and whose result is added
            after the next block (ScMoE, 2024).
        streams: Several states of each token in place of one.
    """

    attention: Attention | None
    feed_forward: FeedForward | None
    before_attention: Norm | None = None
    after_attention: Norm | None = None
    attention_sum: Norm | None = None
    before_feed_forward: Norm | None = None
    after_feed_forward: Norm | None = None
    feed_forward_sum: Norm | None = None
    cross: Attention | None = None
    before_cross: Norm | None = None
    cross_sum: Norm | None = None
    parallel: bool = False
    residual_scale: float = 1.0
    attention_scale: float = 1.0
    state_space: StateSpace | None = None
    state_scale: float = 1.0
    selective: SelectiveScan | None = None
    convolution: ShortConvolution | None = None
    delta: DeltaRule | None = None
    lightning: Lightning | None = None
    recurrence: GatedRecurrence | None = None
    read_sums: ReadSums | None = None
    beside: ExpertsBeside | None = None
    low_rank: int = 0
    altup: AltUp | None = None
    scaled: bool = False
    shortcut: FeedForward | None = None
    streams: Streams | None = None


@dataclass(frozen=True)
class Spectrogram:
    """Sound that an encoder reads through two convolutions, the second of which halves its length.

    Attributes:
        bands: Bands of frequencies.
        frames: Number of frames, always the same.
    """

    bands: int
    frames: int


@dataclass(frozen=True)
class Encoder:
    """Part that reads a whole text, or sound, before the decoder begins.

    Attributes:
        hidden: Elements of a token's state between blocks.
        blocks: Blocks from the first to the last.
        norm: Normalization after the last block.
        sound: What it reads in place of tokens; ``None`` for tokens, whose embedding is the
            decoder's.
        embedding_scale: Factor of the embedding.
        embedding_norm: Normalization of the embedding.
        positions: Number of learned positions; 0 for none.
        position_offset: Row of the first position among the learned ones.
    """

    hidden: int
    blocks: tuple[Block, ...]
    norm: Norm | None
    sound: Spectrogram | None = None
    embedding_scale: float = 1.0
    embedding_norm: Norm | None = None
    positions: int = 0
    position_offset: int = 0

    @property
    def length(self) -> int | str:
        """Number of states that the decoder attends to, or the name of their dimension."""
        return self.sound.frames // 2 if self.sound else "encoder_sequence"


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
        encoder: Encoder whose results the blocks attend to.
        by_layer: Embedding of tokens for each block.
        last_from: First block that computes the last token alone, since it and those after it
            borrow all keys and values; ``None`` for no such block.
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
    encoder: Encoder | None = None
    by_layer: LayerEmbedding | None = None
    last_from: int | None = None

    @property
    def attentions(self) -> tuple[Attention, ...]:
        """Attention of each block that has any."""
        return tuple(block.attention for block in self.blocks if block.attention)

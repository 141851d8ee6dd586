"""Writes one block of a decoder or an encoder."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_decoders.architecture import (
    AltUp,
    Block,
    ExpertsBeside,
    LayerEmbedding,
    ReadSums,
)
from dlbricks_decoders.attention import AttentionWriter
from dlbricks_decoders.augmented import AltUpWriter, gated_by_layer, low_rank
from dlbricks_decoders.block_parts import Attention, Norm, StateSpace
from dlbricks_decoders.delta import DeltaRuleWriter
from dlbricks_decoders.feed_forward import feed_forward
from dlbricks_decoders.gated_recurrence import GatedRecurrenceWriter
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import normalized, scaled
from dlbricks_decoders.lightning import LightningWriter
from dlbricks_decoders.positions import Positions
from dlbricks_decoders.recurrent import StateSpaceWriter, short_convolution
from dlbricks_decoders.selective import SelectiveScanWriter
from dlbricks_decoders.streams import StreamsWriter


@dataclass(frozen=True)
class BlockWriter:
    """Writer of one block.

    Attributes:
        graph: Graph of the decoder.
        positions: Positions of the decoder's tokens.
        index: Number of the block.
        hidden: Elements of a token's state.
        embedding: Description of the embedding for each block.
        by_layer: Embeddings of the tokens for all blocks; empty where there are none.
        prefix: Beginning of the names of all tensors.
    """

    graph: Graph
    positions: Positions
    index: int
    hidden: int
    embedding: LayerEmbedding | None = None
    by_layer: str = ""
    prefix: str = ""

    def write(self, block: Block, x: str) -> str:
        """The block's layers, from a token's state to its next one."""
        if block.altup:
            return self._with_states(block, block.altup, x)
        if block.streams:
            return self._with_streams(
                block, StreamsWriter(self.graph, block.streams, self.hidden), x
            )
        carried, self.positions.carried = self.positions.carried, None
        x = self._mixed_and_fed(block, x)
        x = self._sum(x, carried, "shortcut_sum") if carried else x
        if self.embedding:
            x = self._sum(x, self._of_layer(self.embedding, x), "per_layer_sum")
        if block.scaled:
            factor = self.graph.weight(self._at("layer_scalar"), 1)
            x = self.graph.add("Mul", x, factor, out=self._at("scaled"))
        return x

    def _with_states(self, block: Block, altup: AltUp, states: str) -> str:
        """The next states of a token, of which the block computes one."""
        graph, at = self.graph, self._at("altup")
        writer = AltUpWriter(graph, altup, self.hidden)
        predictions = writer.predicted(states, at)
        x = writer.active(predictions, f"{at}.computed")
        read = self._norm(block.before_attention, x, "input_layernorm")
        other = low_rank(graph, read, self.hidden, block.low_rank, block.before_attention,
                         self._at("laurel"))  # fmt: skip
        y = self._norm(block.after_attention, self._mixed(block, read), "attention_layernorm")
        y = self._sum(self._sum(x, y, "attention_sum"), other, "laurel_sum")
        y = scaled(graph, y, 2.0**-0.5, self._at("laurel_sum.scaled"))
        states = writer.corrected(predictions, self._fed(block, y, y), at)
        if self.embedding is None:
            return states
        return writer.added(states, self._of_layer(self.embedding, writer.output(states, at)), at)

    def _with_streams(self, block: Block, writer: StreamsWriter, states: str) -> str:
        """The next states of a token, from which both parts read a sum."""
        read, factors = writer.read(states, self._at("attn_hc"))
        y = self._mixed(block, self._norm(block.before_attention, read, "input_layernorm"))
        states = writer.added(states, y, factors, self._at("attn_hc"))
        read, factors = writer.read(states, self._at("ffn_hc"))
        return writer.added(states, self._part(block, read), factors, self._at("ffn_hc"))

    def _of_layer(self, embedding: LayerEmbedding, x: str) -> str:
        return gated_by_layer(self.graph, embedding, self.by_layer, x, self.hidden, self.index)

    def _mixed_and_fed(self, block: Block, x: str) -> str:
        """The sum with both parts."""
        if block.read_sums:
            return self._with_read(block, block.read_sums, x)
        if not self._mixes(block):
            return self._fed(block, x, x)
        read = self._norm(block.before_attention, x, "input_layernorm")
        y = self._mixed(block, read)
        y = self._norm(block.after_attention, y, "attention_layernorm")
        y = self._scaled(block, y, "self_attn.scaled")
        if block.parallel:
            z = self._part(block, x if block.before_feed_forward else read)
            return self._sum(x, self._sum(y, z, "parallel_sum"), "feed_forward_sum")
        x = self._sum(x, y, "attention_sum")
        x = self._norm(block.attention_sum, x, "attention_sum_layernorm")
        if block.cross:
            x = self._crossed(block, block.cross, x)
        return self._fed(block, x, x)

    def _with_read(self, block: Block, factors: ReadSums, x: str) -> str:
        """The sums of what both parts read and of their results."""
        read = self._norm(block.before_attention, x, "input_layernorm")
        y = self._mixed(block, read)
        x = self._weighed(read, y, factors.attention, "attention_sum")
        assert block.feed_forward is not None
        read = self._norm(block.before_feed_forward, x, "post_attention_layernorm")
        y = feed_forward(self.graph, block.feed_forward, read, self.hidden, self.positions.tokens,
                         self._at("mlp"))  # fmt: skip
        return self._weighed(read, y, factors.feed_forward, "feed_forward_sum")

    def _weighed(self, x: str, y: str, factors: tuple[float, float], name: str) -> str:
        x = scaled(self.graph, x, factors[0], self._at(f"{name}.read"))
        return self._sum(x, scaled(self.graph, y, factors[1], self._at(f"{name}.result")), name)

    def cross_states(self, block: Block, states: str, hidden: int) -> tuple[str, str]:
        """Keys and values of an encoder's results that the block attends to."""
        assert block.cross is not None
        return self._cross_writer.cross_states(block.cross, states, hidden)

    @property
    def _cross_writer(self) -> AttentionWriter:
        return AttentionWriter(
            self.graph, self.positions, self.index, self.hidden, self._at("encoder_attn")
        )

    def _crossed(self, block: Block, cross: Attention, x: str) -> str:
        """The sum with attention to what an encoder made."""
        read = self._norm(block.before_cross, x, "cross_layernorm")
        keys, values = (f"present.{self.index}.encoder.{name}" for name in ("key", "value"))
        x = self._sum(x, self._cross_writer.cross(cross, read, keys, values), "cross_sum")
        return self._norm(block.cross_sum, x, "cross_sum_layernorm")

    @staticmethod
    def _mixes(block: Block) -> bool:
        return any((block.attention, block.state_space, block.selective, block.convolution,
                    block.delta, block.lightning, block.recurrence))  # fmt: skip

    def _fed(self, block: Block, x: str, read: str) -> str:
        """The sum with the feed-forward part, if the block has one."""
        if block.feed_forward is None:
            return x
        x = self._sum(x, self._part(block, read), "feed_forward_sum")
        return self._norm(block.feed_forward_sum, x, "feed_forward_sum_layernorm")

    def _part(self, block: Block, x: str) -> str:
        """The feed-forward part with the normalizations around it."""
        if block.feed_forward is None:
            raise ValueError("a block with parallel parts has a feed-forward part")
        z = self._norm(block.before_feed_forward, x, "post_attention_layernorm")
        if block.shortcut:
            self.positions.carried = feed_forward(
                self.graph, block.shortcut, z, self.hidden, self.positions.tokens,
                self._at("shortcut"),
            )  # fmt: skip
        z = feed_forward(self.graph, block.feed_forward, z, self.hidden, self.positions.tokens,
                         self._at("mlp"))  # fmt: skip
        if block.beside:
            z = self._with_experts(block.beside, x, z)
        z = self._norm(block.after_feed_forward, z, "feed_forward_layernorm")
        return self._scaled(block, z, "mlp.scaled")

    def _with_experts(self, beside: ExpertsBeside, x: str, z: str) -> str:
        """The sum of the dense part's result ``z`` and that of experts."""
        z = self._norm(beside.after_dense, z, "feed_forward_layernorm_1")
        y = self._norm(beside.before, x, "feed_forward_input_layernorm_2")
        y = feed_forward(self.graph, beside.part, y, self.hidden, self.positions.tokens,
                         self._at("experts"), routed_by=x)  # fmt: skip
        return self._sum(z, self._norm(beside.after, y, "feed_forward_layernorm_2"), "beside_sum")

    def _mixed(self, block: Block, x: str) -> str:
        """The result of the part that mixes tokens."""
        graph, positions, index, hidden = self.graph, self.positions, self.index, self.hidden
        if block.attention:
            at = self._at("self_attn")
            y = AttentionWriter(graph, positions, index, hidden, at).write(block.attention, x)
            y = scaled(graph, y, block.attention_scale, f"{at}.weighed")
            if block.state_space is None:
                return y
            z = scaled(graph, self._state(block.state_space, x), block.state_scale,
                       self._at("mamba.weighed"))  # fmt: skip
            return self._sum(y, z, "mixed")
        if block.state_space:
            return self._state(block.state_space, x)
        if block.selective:
            at = self._at("mamba")
            return SelectiveScanWriter(graph, positions, index, hidden, at).write(
                block.selective, x
            )
        if block.convolution:
            return short_convolution(graph, block.convolution, x, hidden, index, self._at("conv"))
        if block.delta:
            at = self._at("linear_attn")
            return DeltaRuleWriter(graph, positions, index, hidden, at).write(block.delta, x)
        if block.lightning:
            at = self._at("self_attn")
            return LightningWriter(graph, positions, index, hidden, at).write(block.lightning, x)
        if block.recurrence:
            at = self._at("recurrent")
            return GatedRecurrenceWriter(graph, positions, index, hidden, at).write(
                block.recurrence, x
            )
        raise ValueError("a block without a part that mixes tokens")

    def _state(self, part: StateSpace, x: str) -> str:
        at = self._at("mamba")
        return StateSpaceWriter(self.graph, self.positions, self.index, self.hidden, at).write(
            part, x
        )

    def _at(self, name: str) -> str:
        return f"{self.prefix}layers.{self.index}.{name}"

    def _norm(self, norm: Norm | None, x: str, name: str) -> str:
        return normalized(self.graph, norm, x, self.hidden, self._at(name))

    def _sum(self, x: str, y: str, name: str) -> str:
        return self.graph.add("Add", x, y, out=self._at(name))

    def _scaled(self, block: Block, x: str, name: str) -> str:
        return scaled(self.graph, x, block.residual_scale, self._at(name))

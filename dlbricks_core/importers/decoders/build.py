"""Writes decoders in ONNX operators, as exporters write them from PyTorch.

Attention, rotary embeddings and RMSNorm are operators of opset 23. ONNX Runtime has kernels for
them, and the PyTorch plugin turns attention into ``scaled_dot_product_attention``, which
transformers calls, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dlbricks_core.importers.decoders.architecture import (
    Activation,
    Attention,
    Block,
    Decoder,
    FeedForward,
    Joined,
    Norm,
)
from dlbricks_core.importers.decoders.graph import Graph
from dlbricks_core.importers.decoders.mixture import mixture
from dlbricks_core.importers.decoders.positions import Positions
from dlbricks_core.ir import Layer, RawModel

_END = 2**63 - 1


def build(decoder: Decoder, name: str, source: str) -> RawModel:
    """The decoder as a raw model with the open dimensions batch, sequence and past.

    The inputs are token numbers, and the cache of keys and values of each block. The outputs are
    the logits of the last position, and the cache with the new positions.

    Args:
        decoder: Description of the decoder.
        name: Name of the model.
        source: Name by which users refer to the model.
    """
    graph = Graph()
    tokens = graph.input("input_ids", "int64", "batch", "sequence")
    graph.output("logits", "batch", 1, decoder.vocabulary)
    for index, block in enumerate(decoder.blocks):
        heads, size = block.attention.kv_heads, block.attention.head_dim
        for part in ("key", "value"):
            graph.input(f"past_key_values.{index}.{part}", "float32", "batch", heads, "past", size)
            graph.output(f"present.{index}.{part}", "batch", heads, "past + sequence", size)
    positions = Positions(graph, tokens, "past_key_values.0.key")
    x = _embedding(graph, decoder, tokens, positions)
    for index, block in enumerate(decoder.blocks):
        x = _Block(graph, positions, index, decoder.hidden).write(block, x)
    _head(graph, decoder, x)
    return graph.model(name, source)


def _embedding(graph: Graph, decoder: Decoder, tokens: str, positions: Positions) -> str:
    table = graph.weight("embed_tokens.weight", decoder.vocabulary, decoder.embedding)
    x = graph.add("Gather", table, tokens, out="embed_tokens")
    if decoder.embedding != decoder.hidden:
        x = linear(graph, x, decoder.embedding, decoder.hidden, "project_in")
    x = _scaled(graph, x, decoder.embedding_scale, "embed_scale")
    if decoder.positions:
        places = positions.new
        if decoder.position_offset:
            offset = graph.integer(decoder.position_offset)
            places = graph.add("Add", places, offset, out="embed_positions.rows")
        learned = graph.weight("embed_positions.weight", decoder.positions, decoder.hidden)
        at = graph.add("Gather", learned, places, out="embed_positions")
        x = graph.add("Add", x, at, out="embed_sum")
    return normalized(graph, decoder.embedding_norm, x, decoder.hidden, "embed_norm")


def _head(graph: Graph, decoder: Decoder, x: str) -> None:
    """Logits of the last position."""
    x = normalized(graph, decoder.norm, x, decoder.hidden, "norm")
    last, axis = graph.integers(-1), graph.integers(1)
    x = graph.add("Slice", x, last, graph.integers(_END), axis, out="last_position")
    if decoder.embedding != decoder.hidden:
        x = linear(graph, x, decoder.hidden, decoder.embedding, "project_out")
    bias = [graph.weight("lm_head.bias", decoder.vocabulary)] if decoder.head_bias else []
    if decoder.tied:  # Gemm reads the embedding as it lies, so that there is one such weight
        x = graph.add("Squeeze", x, axis, out="last_rows")
        x = graph.add("Gemm", x, "embed_tokens.weight", *bias, out="lm_head.rows", transB=1)
        x = graph.add("Unsqueeze", x, axis, out="lm_head")
    else:
        x = linear(graph, x, decoder.embedding, decoder.vocabulary, "lm_head",
                   bias=decoder.head_bias)  # fmt: skip
    x = _scaled(graph, x, decoder.logits_scale, "lm_head.scaled")
    if decoder.softcap:
        cap = graph.number(decoder.softcap)
        x = graph.add("Div", x, cap, out="lm_head.divided")
        x = graph.add("Tanh", x, out="lm_head.tanh")
        x = graph.add("Mul", x, cap, out="lm_head.capped")
    graph.add("Identity", x, out="logits")


def linear(graph: Graph, x: str, inner: int, outer: int, at: str, *, bias: bool = False) -> str:
    """A projection of the last axis."""
    weight = graph.weight(f"{at}.weight", inner, outer)
    if not bias:
        return graph.add("MatMul", x, weight, out=at)
    y = graph.add("MatMul", x, weight, out=f"{at}.product")
    return graph.add("Add", y, graph.weight(f"{at}.bias", outer), out=at)


def normalized(graph: Graph, norm: Norm | None, x: str, size: int, at: str) -> str:
    """The normalization of the last axis; nothing where there is none.

    The weight of an RMSNorm is the factor itself. Gemma's files hold the factor minus 1.
    """
    if norm is None:
        return x
    ones = (
        graph.constant(np.ones(size, np.float32))
        if not norm.weight
        else graph.weight(f"{at}.weight", size)
    )
    if not norm.centered:
        return graph.add("RMSNormalization", x, ones, out=at, axis=-1, epsilon=norm.epsilon)
    bias = [graph.weight(f"{at}.bias", size)] if norm.bias else []
    return graph.add("LayerNormalization", x, ones, *bias, out=at, axis=-1, epsilon=norm.epsilon)


def activated(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """An activation function."""
    if activation.approximate:
        return graph.add(activation.op, x, out=at, approximate=activation.approximate)
    return graph.add(activation.op, x, out=at)


def feed_forward(graph: Graph, part: FeedForward, x: str, hidden: int, at: str) -> str:
    """A feed-forward part, or one expert of it; its input has the shape ``[..., hidden]``."""
    width = part.width
    if part.gated and part.joined:
        both = linear(graph, x, hidden, 2 * width, f"{at}.gate_up_proj", bias=part.bias)
        gate, up = graph.add_many(
            "Split", both, graph.integers(width, width), out=(f"{at}.gate", f"{at}.up"), axis=-1
        )
    elif part.gated:
        gate = linear(graph, x, hidden, width, f"{at}.gate_proj", bias=part.bias)
        up = linear(graph, x, hidden, width, f"{at}.up_proj", bias=part.bias)
    else:
        gate, up = linear(graph, x, hidden, width, f"{at}.up_proj", bias=part.bias), ""
    y = activated(graph, part.activation, gate, f"{at}.act")
    if up:
        y = graph.add("Mul", y, up, out=f"{at}.product")
    return linear(graph, y, width, hidden, f"{at}.down_proj", bias=part.bias)


def _scaled(graph: Graph, x: str, factor: float, at: str) -> str:
    return x if factor == 1.0 else graph.add("Mul", x, graph.number(factor), out=at)


@dataclass(frozen=True)
class _Block:
    """Writer of one block.

    Attributes:
        graph: Graph of the decoder.
        positions: Positions of the decoder's tokens.
        index: Number of the block.
        hidden: Elements of a token's state.
    """

    graph: Graph
    positions: Positions
    index: int
    hidden: int

    def write(self, block: Block, x: str) -> str:
        """The block's layers, from a token's state to its next one."""
        read = self._norm(block.before_attention, x, "input_layernorm")
        y = self._attention(block.attention, read)
        y = self._norm(block.after_attention, y, "attention_layernorm")
        y = self._scaled(block, y, "self_attn.scaled")
        if not block.parallel:
            x = self._sum(x, y, "attention_sum")
            x = self._norm(block.attention_sum, x, "attention_sum_layernorm")
            read = x
        elif block.before_feed_forward:
            read = x
        z = self._norm(block.before_feed_forward, read, "post_attention_layernorm")
        z = self._feed_forward(block.feed_forward, z)
        z = self._norm(block.after_feed_forward, z, "feed_forward_layernorm")
        z = self._scaled(block, z, "mlp.scaled")
        if block.parallel:
            z = self._sum(y, z, "parallel_sum")
        x = self._sum(x, z, "feed_forward_sum")
        return self._norm(block.feed_forward_sum, x, "feed_forward_sum_layernorm")

    def _at(self, name: str) -> str:
        return f"layers.{self.index}.{name}"

    def _norm(self, norm: Norm | None, x: str, name: str) -> str:
        return normalized(self.graph, norm, x, self.hidden, self._at(name))

    def _sum(self, x: str, y: str, name: str) -> str:
        return self.graph.add("Add", x, y, out=self._at(name))

    def _scaled(self, block: Block, x: str, name: str) -> str:
        return _scaled(self.graph, x, block.residual_scale, self._at(name))

    def _feed_forward(self, part: FeedForward, x: str) -> str:
        at = self._at("mlp")
        if part.experts is None:
            return feed_forward(self.graph, part, x, self.hidden, at)
        one = part
        return mixture(
            self.graph, part.experts, x, self.hidden, self.positions.tokens, at,
            lambda rows, place: feed_forward(self.graph, one, rows, self.hidden, place),
        )  # fmt: skip

    def _attention(self, part: Attention, x: str) -> str:
        query, key, value = self._projections(part, x)
        query = self._turned(part, query, part.heads, "q")
        key = self._turned(part, key, part.kv_heads, "k")
        value = self._clipped(part, value)
        attend = self._with_alibi if part.alibi else self._fused
        y = attend(part, query, key, value)
        return linear(
            self.graph, y, part.heads * part.head_dim, self.hidden,
            self._at("self_attn.o_proj"), bias=part.output_bias,
        )  # fmt: skip

    def _projections(self, part: Attention, x: str) -> tuple[str, ...]:
        """Queries, keys and values, each ``[batch, sequence, heads of it * head_dim]``."""
        at, size = self._at("self_attn"), part.head_dim
        counts = (part.heads, part.kv_heads, part.kv_heads)
        widths = [count * size for count in counts]
        if part.joined is Joined.APART:
            return tuple(
                linear(self.graph, x, self.hidden, width, f"{at}.{name}_proj", bias=part.bias)
                for name, width in zip("qkv", widths, strict=True)
            )
        joined = linear(self.graph, x, self.hidden, sum(widths), f"{at}.qkv_proj", bias=part.bias)
        names = tuple(f"{at}.{name}" for name in "qkv")
        if part.joined is Joined.IN_ROW:
            sizes = self.graph.integers(*widths)
            return self.graph.add_many("Split", joined, sizes, out=names, axis=-1)
        return self._ungrouped(part, joined, names, counts)

    def _ungrouped(
        self, part: Attention, joined: str, names: tuple[str, ...], counts: tuple[int, ...]
    ) -> tuple[str, ...]:
        """Queries, keys and values that are interleaved by head or by group of heads."""
        graph, size = self.graph, part.head_dim
        together = part.heads // part.kv_heads
        shape = graph.integers(0, 0, part.kv_heads, together + 2, size)
        grouped = graph.add("Reshape", joined, shape, out=f"{names[0]}kv.grouped")
        parts = graph.add_many(
            "Split", grouped, graph.integers(together, 1, 1),
            out=tuple(f"{name}.grouped" for name in names), axis=3,
        )  # fmt: skip
        return tuple(
            graph.add("Reshape", each, graph.integers(0, 0, count * size), out=name)
            for each, name, count in zip(parts, names, counts, strict=True)
        )

    def _clipped(self, part: Attention, x: str) -> str:
        if part.clip is None:
            return x
        low, high = self.graph.number(-part.clip), self.graph.number(part.clip)
        return self.graph.add("Clip", x, low, high, out=f"{x}.clipped")

    def _turned(self, part: Attention, x: str, heads: int, name: str) -> str:
        """Queries or keys, normalized and rotated if the block does so."""
        graph, at, width = self.graph, self._at("self_attn"), heads * part.head_dim
        if part.norm and part.norm_by_head:
            by_head = graph.integers(0, 0, heads, part.head_dim)
            x = graph.add("Reshape", x, by_head, out=f"{at}.{name}_norm.heads")
            x = normalized(graph, part.norm, x, part.head_dim, f"{at}.{name}_norm")
            x = graph.add("Reshape", x, graph.integers(0, 0, width), out=f"{at}.{name}_norm.rows")
        elif part.norm:
            x = normalized(graph, part.norm, x, width, f"{at}.{name}_norm")
        x = self._clipped(part, x)
        if part.rotary is None:
            return x
        cos, sin = self.positions.angles(part.rotary)
        turned = 2 * len(part.rotary.frequencies)
        return graph.add(
            "RotaryEmbedding", x, cos, sin, out=f"{at}.{name}_rotary", num_heads=heads,
            interleaved=int(part.rotary.interleaved),
            rotary_embedding_dim=0 if turned == part.head_dim else turned,
        )  # fmt: skip

    @property
    def _cache(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Names of keys and values before the block and after it."""
        past, present = (
            (f"{name}.{self.index}.key", f"{name}.{self.index}.value")
            for name in ("past_key_values", "present")
        )
        return past, present

    def _fused(self, part: Attention, query: str, key: str, value: str) -> str:
        """Attention as one layer, with a mask only where a window hides positions."""
        past, present = self._cache
        out = (self._at("self_attn"), *present)
        attributes = {"q_num_heads": part.heads, "kv_num_heads": part.kv_heads,
                      "scale": part.scale}  # fmt: skip
        if part.softcap:
            attributes["softcap"] = part.softcap
        causal = Layer(
            "Attention", (query, key, value, "", *past), out, {**attributes, "is_causal": 1},
            name=out[0],
        )  # fmt: skip
        if part.window is None:
            return self.graph.append(causal)[0]
        mask, hides = self.positions.window(part.window)
        masked = Layer("Attention", (query, key, value, mask, *past), out, attributes, name=out[0])
        return self.graph.either(hides, masked, causal)[0]

    def _with_alibi(self, part: Attention, query: str, key: str, value: str) -> str:
        """Attention with biased scores, as the separate layers of transformers."""
        graph, at = self.graph, self._at("self_attn")
        past, present = self._cache
        heads = graph.integers(0, 0, part.heads, part.head_dim)

        def by_head(x: str, name: str, *axes: int) -> str:
            y = graph.add("Reshape", x, heads, out=f"{at}.{name}.heads")
            return graph.add("Transpose", y, out=f"{at}.{name}.by_head", perm=axes)

        query = by_head(query, "q", 0, 2, 1, 3)
        for x, before, after in zip((key, value), past, present, strict=True):
            new = by_head(x, after.rpartition(".")[2], 0, 2, 1, 3)
            graph.add("Concat", before, new, out=after, axis=2)
        keys = graph.add("Transpose", present[0], out=f"{at}.keys", perm=(0, 1, 3, 2))
        scores = graph.add("MatMul", query, keys, out=f"{at}.scores")
        scores = graph.add("Mul", scores, graph.number(part.scale), out=f"{at}.scaled_scores")
        bias = self.positions.alibi(part.heads)
        scores = graph.add("Add", scores, bias, out=f"{at}.biased")
        scores = graph.add("Add", scores, self.positions.added_mask(), out=f"{at}.masked")
        shares = graph.add("Softmax", scores, out=f"{at}.shares", axis=-1)
        y = graph.add("MatMul", shares, present[1], out=f"{at}.by_head")
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1, 3))
        width = part.heads * part.head_dim
        return graph.add("Reshape", y, graph.integers(0, 0, width), out=at)

"""Writes decoders as the model builder of onnxruntime-genai writes them for CPUs.

One product makes queries, keys and values, one operator rotates them and attends, and sums are
part of the normalizations behind them. All tokens of a prompt get logits. The cache has room for
the new tokens, which are written into it; that of a block with a window has room for little more
than the window, whose positions move on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from dlbricks_contrib.domain import DOMAIN

from dlbricks_core.ir import Attribute, Layer, RawModel
from dlbricks_decoders.activations import activated
from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.block_parts import (
    Activation,
    Attention,
    FeedForward,
    JoinedProjections,
    Norm,
    Rotary,
)
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import capped, linear, scaled

FORM = "onnxruntime-genai"
"""Name of the form, as backends ask for it."""

FAMILIES = frozenset({
    "ernie4_5", "gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "nemotron", "phi",
    "phi3", "qwen2", "qwen3",
})  # fmt: skip
"""Families of which the builder's files have the operators of this form."""

_WITHOUT_WINDOWS = frozenset({"mistral", "phi3"})
"""Families whose window the builder leaves out: their configurations list no kinds of blocks."""

BITS: Mapping[str | None, int] = {None: 32, "float32": 32, "int4": 4, "int8": 8}
"""Bits of the weights of products by conversion: the builder's types."""

_BLOCK = 32
"""Elements of a row of short weights that share a scale."""

_ACCURACY_LEVEL = 4
"""Activations are quantized to eight bits too."""

_TURNED = 16
"""Divisor of the elements of a head, and of those that are rotated, in ONNX Runtime."""

_TOTAL = "past + sequence"
"""Dimension of all tokens, earlier and new ones."""

_SLACK = 16
"""Positions that a cache of a block with a window has beyond the window, on CPUs.

The loop of onnxruntime-genai 0.18 makes caches of 24, 26 and 49 positions for windows of 8, 10 and
33, whatever the length of the prompt."""

_TANH = Activation("Gelu", "tanh")
_JOINED: Mapping[str, Activation] = {"NewGelu": _TANH, "FastGelu": _TANH}
"""One operator for functions that transformers writes with several."""

_PLAIN_ATTENTION = Attention(heads=1, kv_heads=1, head_dim=1, scale=1.0)
_VARIED = frozenset({"heads", "kv_heads", "head_dim", "scale", "joined", "bias", "output_bias",
                     "rotary", "window", "softcap", "norm"})  # fmt: skip
"""Properties of attention that the form has any value of."""


def has_form(decoder: Decoder) -> bool:
    """Whether the builder writes decoders like that: its families, and nothing that it lacks."""
    return decoder.family in FAMILIES and all(_has_form(block) for block in decoder.blocks)


def _has_form(block: Block) -> bool:
    part, feed = block.attention, block.feed_forward
    if part is None or feed is None or feed.experts is not None:
        return False
    known = replace(part, **{name: getattr(_PLAIN_ATTENTION, name) for name in _VARIED})
    joined = part.joined in (JoinedProjections.APART, JoinedProjections.IN_ROW)
    turns = part.rotary is None or (
        part.head_dim % _TURNED == 0 and 2 * len(part.rotary.frequencies) % _TURNED == 0
    )
    return known == _PLAIN_ATTENTION and joined and turns


def build_genai(decoder: Decoder, name: str, source: str, *, bits: int = 32) -> RawModel:
    """The decoder as a raw model with the open dimensions batch, sequence and past.

    Args:
        decoder: A decoder that the form suits (:func:`has_form`).
        name: Name of the model.
        source: Name by which users refer to the model.
        bits: Bits of the weights of products. Four bits come from a conversion that follows, and
            only a tied embedding depends on them here.
    """
    graph = Graph()
    tokens = graph.input("input_ids", "int64", "batch", "sequence")
    graph.input("attention_mask", "int64", "batch", _TOTAL)
    graph.output("logits", "batch", "sequence", decoder.vocabulary)
    writer = _Writer(graph, decoder, bits)
    writer.embed(tokens)
    for index, block in enumerate(decoder.blocks):
        writer.block(block, index)
    writer.head()
    model = graph.model(name, source)
    return replace(model, opsets={**model.opsets, DOMAIN: 1})


class _Writer:
    """Writer of one decoder, block by block.

    Attributes:
        root: Sum of all parts so far, without the last one.
        skip: Result of the last part, which the next normalization adds.
    """

    def __init__(self, graph: Graph, decoder: Decoder, bits: int) -> None:
        self._graph = graph
        self._decoder = decoder
        self._bits = bits
        self._tables: dict[Rotary, tuple[str, str]] = {}
        self.root = self.skip = ""
        one = graph.integers(1)
        used = graph.add("ReduceSum", "attention_mask", one, out="mask.used", keepdims=0)
        used = graph.add("Sub", used, one, out="mask.last")
        self._lengths = graph.cast(used, "int32", out="mask.lengths")
        self._total = graph.add("Shape", "attention_mask", out="mask.size", start=1, end=2)
        total = graph.add("Squeeze", self._total, graph.integers(0), out="mask.steps")
        self._steps = graph.cast(total, "int32", out="mask.total")
        self._keys = graph.add("Range", graph.integer(0), total, graph.integer(1), out="positions")

    def embed(self, tokens: str) -> None:
        """The embedding; a tied one reads the last projection's weight."""
        graph, decoder = self._graph, self._decoder
        x = "embed_tokens"
        if decoder.tied and self._bits == 4:
            self._from_blocks(tokens, x)
        elif decoder.tied and self._bits == 32:
            head = graph.weight("lm_head.weight", decoder.hidden, decoder.vocabulary)
            table = graph.add("Transpose", head, out=f"{x}.table", perm=(1, 0))
            graph.add("Gather", table, tokens, out=x)
        else:
            table = graph.weight(f"{x}.weight", decoder.vocabulary, decoder.hidden)
            graph.add("Gather", table, tokens, out=x)
        self.root = scaled(graph, x, decoder.embedding_scale, "embed_scale")

    def _from_blocks(self, tokens: str, out: str) -> None:
        """Rows of a table of four-bit weights, whole blocks of them, as floats."""
        graph, decoder = self._graph, self._decoder
        rows, blocks = decoder.vocabulary, -(-decoder.hidden // _BLOCK)
        codes = graph.weight(f"{out}.codes", rows, blocks * _BLOCK // 2, dtype="uint8")
        scales = graph.weight(f"{out}.scales", rows, blocks)
        padded = decoder.hidden % _BLOCK > 0
        found = f"{out}.padded" if padded else out
        self._own("GatherBlockQuantized", (codes, tokens, scales), (found,), bits=self._bits,
                  block_size=_BLOCK, gather_axis=0, quantize_axis=1)  # fmt: skip
        if padded:
            first, end, last = (graph.integers(n) for n in (0, decoder.hidden, -1))
            graph.add("Slice", found, first, end, last, out=out)

    def block(self, block: Block, index: int) -> None:
        """Adds a block apart from its last sum, which the next normalization includes."""
        at, part, feed = f"layers.{index}", block.attention, block.feed_forward
        assert part is not None
        assert feed is not None
        x = self._summed(block.before_attention, f"{at}.input_layernorm")
        y = self._attention(part, x, index)
        if block.parallel:
            z = self._feed_forward(feed, x, f"{at}.mlp")
            self.skip = self._graph.add("Add", y, z, out=f"{at}.parallel_sum")
            return
        y = scaled(self._graph, y, block.residual_scale, f"{at}.self_attn.scaled")
        self.skip = self._normalized(block.after_attention, y, f"{at}.attention_layernorm")
        x = self._summed(block.before_feed_forward, f"{at}.post_attention_layernorm")
        y = self._feed_forward(feed, x, f"{at}.mlp")
        y = scaled(self._graph, y, block.residual_scale, f"{at}.mlp.scaled")
        self.skip = self._normalized(block.after_feed_forward, y, f"{at}.feed_forward_layernorm")

    def head(self) -> None:
        """Logits of all tokens."""
        graph, decoder = self._graph, self._decoder
        x = self._summed(decoder.norm, "norm", last=True)
        x = self._linear(x, decoder.hidden, decoder.vocabulary, "lm_head", bias=decoder.head_bias)
        x = scaled(graph, x, decoder.logits_scale, "lm_head.scaled")
        x = capped(graph, x, decoder.softcap, "lm_head")
        graph.add("Identity", x, out="logits")

    def _summed(self, norm: Norm | None, at: str, *, last: bool = False) -> str:
        """The normalized sum of all parts so far, which becomes the root."""
        if not self.skip:
            return self._normalized(norm, self.root, at)
        assert norm is not None
        op = "SkipLayerNormalization" if norm.centered else "SkipSimplifiedLayerNormalization"
        out = (at,) if last else (at, "", "", f"{at}.sum")
        read = (self.root, self.skip, *self._weights(norm, self._decoder.hidden, at))
        self._own(op, read, out, epsilon=norm.epsilon)
        self.root = out[-1]
        return at

    def _normalized(self, norm: Norm | None, x: str, at: str) -> str:
        return x if norm is None else self._norm(norm, x, self._decoder.hidden, at)

    def _norm(self, norm: Norm, x: str, size: int, at: str) -> str:
        op = "LayerNormalization" if norm.centered else "SimplifiedLayerNormalization"
        return self._graph.add(op, x, *self._weights(norm, size, at), out=at, axis=-1,
                               epsilon=norm.epsilon, stash_type=1)  # fmt: skip

    def _weights(self, norm: Norm, size: int, at: str) -> tuple[str, ...]:
        """Scale and offset, written even where they are 1 and 0."""
        graph = self._graph
        scale = (
            graph.weight(f"{at}.weight", size)
            if norm.weight
            else graph.constant(np.ones(size, np.float32))
        )
        if not norm.centered:
            return (scale,)
        if norm.bias:
            return scale, graph.weight(f"{at}.bias", size)
        return scale, graph.constant(np.zeros(size, np.float32))

    def _attention(self, part: Attention, x: str, index: int) -> str:
        """Attention of one block, from normalized states to the projected result."""
        graph, at, hidden = self._graph, f"layers.{index}.self_attn", self._decoder.hidden
        widths = [heads * part.head_dim for heads in (part.heads, part.kv_heads, part.kv_heads)]
        joined = self._linear(x, hidden, sum(widths), f"{at}.qkv_proj", bias=part.bias)
        read: tuple[str, ...] = (joined, "", "")
        if part.norm:
            names = tuple(f"{at}.{name}" for name in "qkv")
            read = graph.add_many("Split", joined, graph.integers(*widths), out=names, axis=-1)
            query, key = (
                self._of_heads(part.norm, each, part.head_dim, width, f"{at}.{name}_norm")
                for each, width, name in zip(read, widths, "qk", strict=False)
            )
            read = query, key, read[2]
        past, present = ([f"{name}.{index}.{kind}" for kind in ("key", "value")]
                         for name in ("past_key_values", "present"))  # fmt: skip
        window = self._window(part)
        room = _TOTAL if window < 0 else f"min({_TOTAL}, {window + _SLACK})"
        shape = ("batch", part.kv_heads, room, part.head_dim)
        for before, after in zip(past, present, strict=True):
            graph.input(before, "float32", *shape)
            graph.output(after, *shape)
        tables = self._turns(part.rotary) if part.rotary else ()
        attributes: dict[str, Attribute] = {
            "num_heads": part.heads, "kv_num_heads": part.kv_heads, "scale": part.scale,
            "softcap": part.softcap, "local_window_size": window,
            "sliding_window_cache": int(window >= 0),
            "do_rotary": int(part.rotary is not None),
            "rotary_interleaved": int(part.rotary is not None and part.rotary.interleaved),
        }  # fmt: skip
        self._own("GroupQueryAttention", (*read, *past, self._lengths, self._steps, *tables),
                  (at, *present), **attributes)  # fmt: skip
        return self._linear(at, widths[0], hidden, f"{at}.o_proj", bias=part.output_bias)

    def _window(self, part: Attention) -> int:
        """Number of positions that a query attends to; -1 for all."""
        if part.window is None or self._decoder.family in _WITHOUT_WINDOWS:
            return -1
        return part.window

    def _of_heads(self, norm: Norm, x: str, size: int, width: int, at: str) -> str:
        """The normalization of each head."""
        graph = self._graph
        x = graph.add("Reshape", x, graph.integers(0, -1, size), out=f"{at}.heads")
        x = self._norm(norm, x, size, at)
        return graph.add("Reshape", x, graph.integers(0, -1, width), out=f"{at}.rows")

    def _turns(self, rotary: Rotary) -> tuple[str, str]:
        """Cosines and sines of all positions, ``[total, pairs]``."""
        if rotary not in self._tables:
            graph, at = self._graph, f"rotary{len(self._tables)}"
            frequencies = graph.numbers(rotary.frequencies)
            if rotary.long_frequencies:
                beyond = graph.add("Greater", self._total, graph.integers(rotary.long_after),
                                   out=f"{at}.beyond")  # fmt: skip
                longer = graph.numbers(rotary.long_frequencies)
                frequencies = graph.add("Where", beyond, longer, frequencies,
                                        out=f"{at}.frequencies")  # fmt: skip
            places = graph.cast(self._keys, "float32", out=f"{at}.places")
            rows = graph.add("Unsqueeze", places, graph.integers(1), out=f"{at}.rows")
            angles = graph.add("Mul", rows, frequencies, out=f"{at}.angles")
            cos, sin = (
                scaled(graph, graph.add(op, angles, out=f"{at}.{op.lower()}"), rotary.scale,
                       f"{at}.{op.lower()}.scaled")
                for op in ("Cos", "Sin")
            )  # fmt: skip
            self._tables[rotary] = cos, sin
        return self._tables[rotary]

    def _feed_forward(self, part: FeedForward, x: str, at: str) -> str:
        graph, hidden, width = self._graph, self._decoder.hidden, part.width
        if part.gated:
            gate, up = (self._linear(x, hidden, width, f"{at}.{name}_proj", bias=part.bias)
                        for name in ("gate", "up"))  # fmt: skip
            y = graph.add("Mul", self._activated(part.activation, gate, f"{at}.act"), up,
                          out=f"{at}.product")  # fmt: skip
        else:
            y = self._linear(x, hidden, width, f"{at}.up_proj", bias=part.bias)
            y = self._activated(part.activation, y, f"{at}.act")
        return self._linear(y, width, hidden, f"{at}.down_proj", bias=part.bias)

    def _linear(self, x: str, inner: int, outer: int, at: str, *, bias: bool = False) -> str:
        """A projection of the last axis."""
        graph = self._graph
        if self._bits != 8:
            return linear(graph, x, inner, outer, at, bias=bias)
        blocks = -(-inner // _BLOCK)
        codes = graph.weight(f"{at}.codes", outer, blocks, _BLOCK, dtype="uint8")
        scales = graph.weight(f"{at}.scales", outer, blocks)
        out = f"{at}.product" if bias else at
        self._own("MatMulNBits", (x, codes, scales), (out,), K=inner, N=outer, bits=self._bits,
                  block_size=_BLOCK, accuracy_level=_ACCURACY_LEVEL)  # fmt: skip
        return graph.add("Add", out, graph.weight(f"{at}.bias", outer), out=at) if bias else at

    def _activated(self, activation: Activation, x: str, at: str) -> str:
        graph = self._graph
        if activation.op == "SquaredRelu":
            y = graph.add("Relu", x, out=f"{at}.relu")
            return graph.add("Pow", y, graph.constant(np.array([2], np.int32)), out=at)
        if activation.op != "Swish":
            return activated(graph, _JOINED.get(activation.op, activation), x, at)
        y = graph.add("Sigmoid", x, out=f"{at}.sigmoid")
        return graph.add("Mul", x, y, out=at)

    def _own(
        self, op: str, read: tuple[str, ...], out: tuple[str, ...], **attributes: Attribute
    ) -> None:
        """Adds a layer of an operator of ONNX Runtime's own."""
        self._graph.append(Layer(op, read, out, attributes, DOMAIN, name=out[0]))

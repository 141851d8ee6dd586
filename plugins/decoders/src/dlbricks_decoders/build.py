"""Writes decoders in ONNX operators, as exporters write them from PyTorch.

Attention, rotary embeddings and RMSNorm are operators of opset 23. ONNX Runtime has kernels for
them, and the PyTorch plugin turns attention into ``scaled_dot_product_attention``, which
transformers calls, too.
"""

from __future__ import annotations

from dlbricks_core.ir import RawModel
from dlbricks_decoders.architecture import Block, Decoder, Encoder
from dlbricks_decoders.augmented import AltUpWriter, embedded_by_layer
from dlbricks_decoders.blocks import BlockWriter
from dlbricks_decoders.encoder import encoded
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import capped, embedded, linear, normalized, scaled
from dlbricks_decoders.positions import Positions
from dlbricks_decoders.recurrent import remembered
from dlbricks_decoders.streams import StreamsWriter

_END = 2**63 - 1
"""End of an axis of any size, for slices."""


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
        _cache(graph, block, index, decoder.hidden, decoder.encoder)
    keys = [f"past_key_values.{index}.key" for index, block in enumerate(decoder.blocks)
            if block.attention]  # fmt: skip
    positions = Positions(graph, tokens, keys[0] if keys else None)
    if decoder.encoder:
        encoded(graph, decoder, decoder.encoder, positions)
    x = _embedding(graph, decoder, tokens, positions)
    by_layer = decoder.by_layer and embedded_by_layer(graph, decoder.by_layer, tokens, x,
                                                      decoder.hidden)  # fmt: skip
    altup = decoder.blocks[0].altup and AltUpWriter(graph, decoder.blocks[0].altup, decoder.hidden)
    streams = decoder.blocks[0].streams and StreamsWriter(graph, decoder.blocks[0].streams,
                                                          decoder.hidden)  # fmt: skip
    several = altup or streams
    x = several.begin(x) if several else x
    for index, block in enumerate(decoder.blocks):
        if index == decoder.last_from:
            positions, x = positions.last(), _last(graph, x, "last_states")
            by_layer = by_layer and _last(graph, by_layer, "last_by_layer")
        x = BlockWriter(
            graph, positions, index, decoder.hidden, decoder.by_layer, by_layer or ""
        ).write(block, x)
    _head(graph, decoder, several.end(x) if several else x)
    return graph.model(name, source)


def _cache(graph: Graph, block: Block, index: int, hidden: int, encoder: Encoder | None) -> None:
    """Inputs and outputs that keep what a block remembers of earlier tokens."""
    if block.attention:
        for part, (heads, size) in block.attention.cached.items():
            graph.input(f"past_key_values.{index}.{part}", "float32", "batch", heads, "past", size)
            graph.output(f"present.{index}.{part}", "batch", heads, "past + sequence", size)
    if block.cross and encoder:
        for part in ("key", "value"):
            graph.input(f"past_key_values.{index}.encoder.{part}", "float32", "batch",
                        block.cross.kv_heads, encoder.length, block.cross.head_dim)  # fmt: skip
    for part, shape in remembered(block, hidden).items():
        graph.input(f"past_{part}.{index}", "float32", "batch", *shape)
        graph.output(f"present_{part}.{index}", "batch", *shape)


def _embedding(graph: Graph, decoder: Decoder, tokens: str, positions: Positions) -> str:
    table = graph.weight("embed_tokens.weight", decoder.vocabulary, decoder.embedding)
    x = graph.add("Gather", table, tokens, out="embed_tokens")
    if decoder.embedding != decoder.hidden:
        x = linear(graph, x, decoder.embedding, decoder.hidden, "project_in")
    x = scaled(graph, x, decoder.embedding_scale, "embed_scale")
    x = embedded(graph, x, positions.new, decoder.positions, decoder.position_offset,
                 decoder.hidden, "embed_positions")  # fmt: skip
    return normalized(graph, decoder.embedding_norm, x, decoder.hidden, "embed_norm")


def _last(graph: Graph, x: str, out: str) -> str:
    """The last token of each text."""
    return graph.add("Slice", x, graph.integers(-1), graph.integers(_END), graph.integers(1),
                     out=out)  # fmt: skip


def _head(graph: Graph, decoder: Decoder, x: str) -> None:
    """Logits of the last position."""
    x = normalized(graph, decoder.norm, x, decoder.hidden, "norm")
    axis = graph.integers(1)
    x = _last(graph, x, "last_position")
    if decoder.embedding != decoder.hidden:
        x = linear(graph, x, decoder.hidden, decoder.embedding, "project_out")
    bias = [graph.weight("lm_head.bias", decoder.vocabulary)] if decoder.head_bias else []
    if decoder.tied:  # Gemm needs no transposed copy of the embedding
        x = graph.add("Squeeze", x, axis, out="last_rows")
        x = graph.add("Gemm", x, "embed_tokens.weight", *bias, out="lm_head.rows", transB=1)
        x = graph.add("Unsqueeze", x, axis, out="lm_head")
    else:
        x = linear(graph, x, decoder.embedding, decoder.vocabulary, "lm_head",
                   bias=decoder.head_bias)  # fmt: skip
    x = scaled(graph, x, decoder.logits_scale, "lm_head.scaled")
    x = capped(graph, x, decoder.softcap, "lm_head")
    graph.add("Identity", x, out="logits")

"""Writes the encoder of a model that reads a whole text, or sound, before its decoder begins.

Its results are computed once, while the decoder's cache is empty. Afterwards the cache holds keys
and values of them for each block.
"""

from __future__ import annotations

from dlbricks_decoders.architecture import Decoder, Encoder, Spectrogram
from dlbricks_decoders.blocks import BlockWriter
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import embedded, normalized, scaled
from dlbricks_decoders.positions import Positions

_AT = "encoder."
"""Beginning of the names of the encoder's tensors."""


def encoded(graph: Graph, decoder: Decoder, encoder: Encoder, positions: Positions) -> None:
    """Adds the keys and values that the decoder's blocks attend to.

    Args:
        graph: Graph of the decoder.
        decoder: Description of the decoder.
        encoder: Description of its encoder.
        positions: Positions of the decoder's tokens.
    """
    crossing = [index for index, block in enumerate(decoder.blocks) if block.cross]
    names = [f"{index}.encoder.{part}" for index in crossing for part in ("key", "value")]
    read = _read(graph, encoder)

    def first() -> tuple[str, ...]:
        states = _states(graph, decoder, encoder, read)
        writers = (BlockWriter(graph, positions, index, decoder.hidden) for index in crossing)
        return tuple(
            name
            for index, writer in zip(crossing, writers, strict=True)
            for name in writer.cross_states(decoder.blocks[index], states, encoder.hidden)
        )

    def later() -> tuple[str, ...]:
        return tuple(graph.add("Identity", f"past_key_values.{name}", out=f"kept.{name}")
                     for name in names)  # fmt: skip

    graph.either(positions.is_begun, graph.apart(later), graph.apart(first),
                 tuple(f"present.{name}" for name in names))  # fmt: skip


def _read(graph: Graph, encoder: Encoder) -> str:
    """Inputs of the encoder."""
    sound = encoder.sound
    if sound:
        return graph.input("input_features", "float32", "batch", sound.bands, sound.frames)
    return graph.input("encoder_input_ids", "int64", "batch", "encoder_sequence")


def _states(graph: Graph, decoder: Decoder, encoder: Encoder, read: str) -> str:
    """The encoder's results, ``[batch, tokens, hidden]``."""
    at, hidden = f"{_AT}embed_positions", encoder.hidden
    if encoder.sound:
        x = _heard(graph, encoder.sound, read, hidden)
        learned = graph.weight(f"{at}.weight", encoder.positions, hidden)
        x = graph.add("Add", x, learned, out=f"{_AT}embed_sum")
        places = Positions(graph, x, None, _AT)
    else:
        places = Positions(graph, read, None, _AT)
        table = graph.weight("embed_tokens.weight", decoder.vocabulary, decoder.embedding)
        x = graph.add("Gather", table, read, out=f"{_AT}embed_tokens")
        x = scaled(graph, x, encoder.embedding_scale, f"{_AT}embed_scale")
        x = embedded(graph, x, places.new, encoder.positions, encoder.position_offset, hidden, at)
    x = normalized(graph, encoder.embedding_norm, x, hidden, f"{_AT}embed_norm")
    for index, block in enumerate(encoder.blocks):
        x = BlockWriter(graph, places, index, hidden, prefix=_AT).write(block, x)
    return normalized(graph, encoder.norm, x, hidden, f"{_AT}norm")


def _heard(graph: Graph, sound: Spectrogram, x: str, hidden: int) -> str:
    """Sound after two convolutions, ``[batch, frames / 2, hidden]``."""
    for name, inner, stride in (("conv1", sound.bands, 1), ("conv2", hidden, 2)):
        weight = graph.weight(f"{_AT}{name}.weight", hidden, inner, 3)
        bias = graph.weight(f"{_AT}{name}.bias", hidden)
        x = graph.add("Conv", x, weight, bias, out=f"{_AT}{name}", kernel_shape=(3,), pads=(1, 1),
                      strides=(stride,))  # fmt: skip
        x = graph.add("Gelu", x, out=f"{_AT}{name}.act")
    return graph.add("Transpose", x, out=f"{_AT}frames", perm=(0, 2, 1))

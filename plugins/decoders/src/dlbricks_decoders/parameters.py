"""Numbers of parameters and layers of a decoder, before all of it is built."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import MAX_LAYERS, RawModel
from dlbricks_decoders.architecture import Block, Decoder
from dlbricks_decoders.build import build


def parameters(decoder: Decoder) -> int:
    """Number of weights; one that is used twice counts once.

    Only one block of each kind is built for this.
    """
    return _added_up(decoder, _learned)


def check_layers(decoder: Decoder, source: str) -> None:
    """Refuses a decoder of more layers than a model may have; it is not built for this.

    Args:
        decoder: Description of the decoder.
        source: Name of the configuration for messages.

    Raises:
        ModelError: If it has more than :data:`~dlbricks_core.ir.MAX_LAYERS`.
    """
    parts = [block.feed_forward and block.feed_forward.experts for block in decoder.blocks]
    if sum(each.count if each else 1 for each in parts) * _MOST_OF_A_PART < MAX_LAYERS:
        return
    layers = _added_up(decoder, lambda model: len(model.layers))
    if layers > MAX_LAYERS:
        raise ModelError(
            f"{source}: {len(parts)} blocks would be {layers:,} layers, more than {MAX_LAYERS:,}",
            hint="Check the numbers of blocks and of experts in the configuration.",
        )


_MOST_OF_A_PART = 200
"""More layers than a block without experts has, or an expert with its share of a block."""


def _added_up(decoder: Decoder, count: Callable[[RawModel], int]) -> int:
    """Number of something in a decoder, from its number in decoders of one or two blocks."""
    kinds = Counter(decoder.blocks)
    lenders = {block.attention.window: block for block in decoder.blocks
               if block.attention and not block.attention.borrowed}  # fmt: skip
    first = decoder.blocks[0]
    outside = 2 * count(_built(decoder, (first,))) - count(_built(decoder, (first, first)))
    total = outside
    for kind, number in kinds.items():
        borrowed = kind.attention is not None and kind.attention.borrowed
        before = (lenders[kind.attention.window],) if borrowed and kind.attention else ()
        without = count(_built(decoder, before)) if before else outside
        total += number * (count(_built(decoder, (*before, kind))) - without)
    return total


def _built(decoder: Decoder, blocks: tuple[Block, ...]) -> RawModel:
    return build(replace(decoder, blocks=blocks), "", "")


def _learned(model: RawModel) -> int:
    """Number of weights of a model."""
    learned = model.weights - model.constants.keys()
    shapes = (model.tensors[name].shape or () for name in learned)
    return sum(math.prod(size for size in shape if isinstance(size, int)) for shape in shapes)

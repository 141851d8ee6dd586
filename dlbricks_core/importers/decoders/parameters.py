"""Number of parameters of a decoder."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from dlbricks_core.importers.decoders.architecture import Block, Decoder
from dlbricks_core.importers.decoders.build import build


def parameters(decoder: Decoder) -> int:
    """Number of weights; one that is used twice counts once.

    Only one block of each kind is built for this.
    """
    kinds = Counter(decoder.blocks)
    alone = {kind: _built(decoder, (kind,)) for kind in kinds}
    first, *_ = kinds
    each = _built(decoder, (first, first)) - alone[first]
    outside = alone[first] - each
    return outside + sum(count * (alone[kind] - outside) for kind, count in kinds.items())


def _built(decoder: Decoder, blocks: tuple[Block, ...]) -> int:
    model = build(replace(decoder, blocks=blocks), "", "")
    learned = model.weights - model.constants.keys()
    shapes = (model.tensors[name].shape or () for name in learned)
    return sum(math.prod(size for size in shape if isinstance(size, int)) for shape in shapes)

"""Caches of decoders that new tokens are written into."""

from __future__ import annotations

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.operators.table import operator


def caches_with_room(model: CanonicalModel) -> dict[str, str]:
    """Cache before attention, by the cache after it, where both are the same memory.

    A cache has room if it is as large before attention as after it. A program then hands over one
    buffer for both, and attention writes the new tokens into it. Where the buffers differ,
    attention copies the cache.
    """
    found = {}
    for layer in model.layers:
        for before, after in operator(layer.qualified_op).caches:
            names = (layer.inputs[before : before + 1], layer.outputs[after : after + 1])
            (past,), (present,) = (each or ("",) for each in names)
            if past and present and model.tensors[past] == model.tensors[present]:
                found[present] = past
    return found

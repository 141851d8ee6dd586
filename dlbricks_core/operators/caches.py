"""Caches of decoders that new tokens are written into."""

from __future__ import annotations

from dlbricks_core.ir import CanonicalModel

_GROUPED = "com.microsoft.GroupQueryAttention"
_BEFORE, _AFTER = (3, 4), (1, 2)
"""Positions of keys and values among its inputs and its outputs."""


def caches_with_room(model: CanonicalModel) -> dict[str, str]:
    """Cache before attention, by the cache after it, where both are the same memory.

    A cache has room if it is as large before attention as after it. A program then hands over one
    buffer for both, and attention writes the new tokens into it. Where the buffers differ,
    attention copies the cache.
    """
    found = {}
    for layer in model.layers:
        if layer.qualified_op != _GROUPED:
            continue
        for before, after in zip(_BEFORE, _AFTER, strict=True):
            names = (layer.inputs[before : before + 1], layer.outputs[after : after + 1])
            (past,), (present,) = (each or ("",) for each in names)
            if past and present and model.tensors[past] == model.tensors[present]:
                found[present] = past
    return found

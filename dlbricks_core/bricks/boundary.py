"""Tensors at the ends of a layer sequence: what it reads, and what others read of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel


def live_outputs(model: CanonicalModel, indices: Sequence[int]) -> tuple[str, ...]:
    """Results of the sequence that are read outside of it, in the order of their production.

    If nobody reads any result of a layer, all of them count as read: the layer is computed all
    the same. If somebody reads only some of them (parts of a Split), the others do not count: as
    results they would keep frameworks from merging or dropping them.
    """
    inside = set(indices)
    live = []
    for index in indices:
        names = [name for name in model.layers[index].outputs if name]
        read = [name for name in names if name in model.consumers or name in model.output_names]
        live += [
            name
            for name in read or names
            if name in model.output_names
            or not model.consumers.get(name)
            or not inside.issuperset(model.consumers[name])
        ]
    return tuple(live)


def outer_inputs(model: CanonicalModel, indices: Sequence[int]) -> tuple[str, ...]:
    """Activations that the sequence reads but does not produce, in order of first use."""
    produced: set[str] = set()
    inputs: dict[str, None] = {}
    for index in indices:
        layer = model.layers[index]
        inputs.update((n, None) for n in model.activations(layer) if n not in produced)
        produced.update(layer.outputs)
    return tuple(inputs)

"""Tensors at the ends of a layer sequence: its inputs, and its results that other layers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel


def live_outputs(model: CanonicalModel, indices: Sequence[int]) -> tuple[str, ...]:
    """Results of the sequence that are read outside of it, in the order of their production.

    If no result of a layer is read, all of its results count as read, because the layer is computed
    anyway. If only some results are read (parts of a Split), the unread results are left out: as
    outputs they would keep frameworks from merging or dropping them.
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

"""Where a layer sequence touches the rest of its model."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.ir import Model


def live_outputs(model: Model, indices: Sequence[int]) -> tuple[str, ...]:
    """Results of the sequence that something outside reads, in order of production.

    A result that nobody reads counts as read: the layer computes it all the same.
    """
    inside = set(indices)
    live = []
    for index in indices:
        for name in model.layers[index].outputs:
            if not name:
                continue
            readers = model.consumers.get(name, ())
            if not readers or not inside.issuperset(readers) or name in model.output_names:
                live.append(name)
    return tuple(live)


def outer_inputs(model: Model, indices: Sequence[int]) -> tuple[str, ...]:
    """Activations that the sequence reads but does not produce, in order of first use."""
    produced: set[str] = set()
    inputs: dict[str, None] = {}
    for index in indices:
        layer = model.layers[index]
        inputs.update((n, None) for n in model.activations(layer) if n not in produced)
        produced.update(layer.outputs)
    return tuple(inputs)

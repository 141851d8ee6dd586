"""Segments: cuts where little of a model's state crosses from one side to the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from dlbricks_core.ir import Layer, Model

_MIN_WEIGHTS = 256
"""Elements from which on a weight is one that a layer computes with, not a parameter."""


def segments(model: Model, granularity: int) -> list[tuple[int, ...]]:
    """Consecutive layers between places where one tensor alone is handed on.

    Residual units, dense layers, Inception modules and transformer blocks lie between such
    places; they repeat as a whole, and inside of them a framework finds what it fuses,
    which memory it reuses and in which layout. A segment that holds no layer with weights
    belongs to the one before it: what follows a convolution reads what that just wrote.

    Tensors that live longer than ``granularity`` layers (long skips, attention masks) do
    not keep a segment together: they are inputs of it. Unlike the paper's chains, a segment
    may read more than one tensor.

    Args:
        model: Its layers in the order in which they run.
        granularity: The most layers that a segment may hold.
    """
    found: list[range] = []
    anchored = alone = False
    for begin, end in pairwise(_boundaries(model, granularity)):
        layers = model.layers[begin:end]
        opaque = any(layer.opaque for layer in layers)
        has_weights = any(_computes_with_weights(model, layer) for layer in layers)
        start = begin
        if found and not (alone or opaque or (has_weights and anchored)):
            start = found.pop().start
        anchored = (anchored and not alone) or has_weights
        alone = opaque
        found.append(range(start, end))
    return [
        tuple(part[i : i + granularity]) for part in found for i in range(0, len(part), granularity)
    ]


def _boundaries(model: Model, granularity: int) -> list[int]:
    """Positions between layers that at most one tensor crosses, and both ends."""
    count = len(model.layers)
    changes = [0] * (count + 1)
    for name, producer in model.producers.items():
        last = model.consumers.get(name, (producer,))[-1]
        if producer < last <= producer + granularity:
            changes[producer + 1] += 1
            changes[last + 1] -= 1
    crossing: Sequence[int] = list(accumulate(changes))
    opaque = {p for i, layer in enumerate(model.layers) if layer.opaque for p in (i, i + 1)}
    return [p for p in range(count) if not p or crossing[p] <= 1 or p in opaque] + [count]


def _computes_with_weights(model: Model, layer: Layer) -> bool:
    return any(
        name in model.weights
        and sum(size > 1 for size in model.tensors[name].sizes) > 1
        and model.tensors[name].elements >= _MIN_WEIGHTS
        for name in layer.inputs
    )

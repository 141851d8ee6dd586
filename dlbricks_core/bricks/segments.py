"""Segments: cuts where little of a model's state crosses from one side to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from dlbricks_core.ir import CanonicalModel, Layer

MIN_BYTES = 2_500_000
"""What those layers of a segment that compute with weights read and write at least. Starting a
brick costs what no layer in the middle of a model pays, and what crosses a cut lies in memory of
its own, where in the model layers take turns with a few buffers; a brick that moves so much
takes many times as long. Other layers do not count, as they are no work of their own where a
framework fuses them: its bricks are as long as another's that does not."""

SHORT_BYTES = 1_000_000
"""The same for short segments, of which more are alike."""

_MIN_WEIGHTS = 256
"""Elements from which on a weight is one that a layer computes with, not a parameter."""


def segments(
    model: CanonicalModel, granularity: int, min_bytes: int = MIN_BYTES
) -> list[tuple[int, ...]]:
    """Consecutive layers between places where one tensor alone is handed on.

    Residual units, dense layers, Inception modules and transformer blocks lie between such
    places; they repeat as a whole, and inside of them a framework finds what it fuses,
    which memory it reuses and in which layout. A segment that holds no layer with weights
    belongs to the one before it: what follows a convolution reads what that just wrote.
    Segments that are too short to be timed well are joined with the next.

    Tensors that live longer than ``granularity`` layers (long skips, attention masks) do
    not keep a segment together: they are inputs of it. Unlike the paper's chains, a segment
    may read more than one tensor.

    Args:
        model: Its layers in the order in which they run.
        granularity: The most layers that a segment may hold.
        min_bytes: What its layers with weights read and write at least.
    """
    parts = [_part(model, *ends) for ends in pairwise(_boundaries(model, granularity))]
    parts = _joined(parts, lambda last, part: not (part.weights and last.weights))
    parts = _joined(
        parts,
        lambda last, part: last.nbytes < min_bytes and part.end - last.begin <= granularity,
    )
    return [
        tuple(range(begin, min(begin + granularity, part.end)))
        for part in parts
        for begin in range(part.begin, part.end, granularity)
    ]


def short_segments(model: CanonicalModel, granularity: int) -> list[tuple[int, ...]]:
    """Segments that may be less than half as large: more cuts, and more that are alike.

    Args:
        model: Its layers in the order in which they run.
        granularity: The most layers that a segment may hold.
    """
    return segments(model, granularity, SHORT_BYTES)


@dataclass(frozen=True)
class _Part:
    """Consecutive layers.

    Attributes:
        begin: The first.
        end: After the last.
        weights: Whether one of them computes with weights.
        opaque: Whether it is a layer that nobody can look into.
        nbytes: What those of them read and write that compute with weights.
    """

    begin: int
    end: int
    weights: bool
    opaque: bool
    nbytes: int


def _part(model: CanonicalModel, begin: int, end: int) -> _Part:
    layers = model.layers[begin:end]
    heavy = [layer for layer in layers if _computes_with_weights(model, layer)]
    return _Part(
        begin,
        end,
        bool(heavy),
        any(layer.opaque for layer in layers),
        sum(_nbytes(model, layer) for layer in heavy if not layer.opaque),
    )


def _joined(parts: Iterable[_Part], belong: Callable[[_Part, _Part], bool]) -> list[_Part]:
    """Joins each part with the one before where they belong together."""
    joined: list[_Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last and not (last.opaque or part.opaque) and belong(last, part):
            joined[-1] = _Part(
                last.begin, part.end, last.weights or part.weights, False, last.nbytes + part.nbytes
            )
        else:
            joined.append(part)
    return joined


def _boundaries(model: CanonicalModel, granularity: int) -> list[int]:
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


def _nbytes(model: CanonicalModel, layer: Layer) -> int:
    return sum(model.tensors[n].nbytes for n in (*layer.reads, *layer.outputs) if n)


def _computes_with_weights(model: CanonicalModel, layer: Layer) -> bool:
    return any(
        name in model.weights
        and sum(size > 1 for size in model.tensors[name].sizes) > 1
        and model.tensors[name].elements >= _MIN_WEIGHTS
        for name in layer.inputs
    )

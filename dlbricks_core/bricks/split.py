"""Split strategies: ways to cut a model into layer sequences that cover every layer once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel, Layer


# Segments: layer sequences between places of a model where a single tensor is handed on.

MIN_BYTES = 2_500_000
"""Minimum bytes that a segment's layers with weights read and write.

A brick has costs that a layer in the middle of a model lacks: its start, and separate buffers for
the tensors at its ends. A brick of this size takes many times as long as that. Layers without
weights do not count, because some frameworks fuse them: bricks then are equally long for all
frameworks."""

SHORT_BYTES = 1_000_000
"""Minimum bytes that a short segment moves; shorter segments are more often alike."""

_MIN_WEIGHTS = 256
"""Minimum elements of a weight that a layer computes with; a smaller one is a parameter."""


def segments(
    model: CanonicalModel, granularity: int, min_bytes: int = MIN_BYTES
) -> list[tuple[int, ...]]:
    """Cuts a model where a single tensor is handed on.

    Such places enclose residual units, dense layers, Inception modules and transformer blocks. They
    repeat as a whole. Within them a framework finds the layers that it fuses and the buffers that
    it reuses. Layers without weights belong to the segment before them, because they read a result
    that a convolution has just written. A segment that is too short to be timed well is joined with
    the next.

    A tensor that lives longer than ``granularity`` layers (a long skip, an attention mask) does
    not keep a segment together: it becomes an input. Unlike the paper's chains, a segment may
    read more than one tensor.

    Args:
        model: Model in canonical form; its layers in the order in which they run.
        granularity: Maximum number of layers in a segment.
        min_bytes: Minimum bytes that the layers with weights of a segment read and write.

    Returns:
        Layer indices of each segment.
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
    """Cuts a model into shorter segments: there are more of them, and more are alike.

    Returns:
        Layer indices of each segment.
    """
    return segments(model, granularity, SHORT_BYTES)


@dataclass(frozen=True)
class _Part:
    """Consecutive layers.

    Attributes:
        begin: Index of the first layer.
        end: Index after the last layer.
        weights: Whether one of the layers computes with weights.
        opaque: Whether the part is an opaque layer.
        nbytes: Bytes that the layers with weights read and write.
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
        sum(
            model.tensors[name].nbytes
            for layer in heavy
            if not layer.opaque
            for name in (*layer.reads, *layer.outputs)
            if name
        ),
    )


def _joined(parts: Iterable[_Part], belong: Callable[[_Part, _Part], bool]) -> list[_Part]:
    """Joins each part with the previous part if they belong together."""
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


def _computes_with_weights(model: CanonicalModel, layer: Layer) -> bool:
    return any(
        name in model.weights
        and sum(size > 1 for size in model.tensors[name].sizes) > 1
        and model.tensors[name].elements >= _MIN_WEIGHTS
        for name in layer.inputs
    )


LayerSequence = tuple[int, ...]
"""Indices of consecutive layers, in the order in which they run."""

SplitStrategy = Callable[[CanonicalModel, int], Sequence[LayerSequence]]
"""Cuts a model at a granularity: the maximum number of layers in a sequence."""


def chain(model: CanonicalModel, granularity: int) -> list[LayerSequence]:
    """The paper's algorithms 1 and 2, with exact cover.

    A window of ``granularity`` layers moves over the topological order. Where the
    window is a runnable chain, it becomes a sequence and the window moves past it;
    otherwise its first layer becomes a sequence of its own and the window moves on by
    one. (Read literally, the paper's recursion may also emit what the next window
    starts with, and then layers count twice.)

    Source: Li et al., "DLBricks: Composable Benchmark Generation to Reduce Deep
    Learning Benchmarking Effort on CPUs", ICPE 2020, algorithms 1 and 2.
    """
    sequences: list[LayerSequence] = []
    begin, count = 0, len(model.layers)
    while begin < count:
        last = min(begin + granularity, count)
        end = _end_of_chain(model, begin, last)
        if end == last:
            sequences.append(tuple(range(begin, end)))
        else:  # windows that begin in between hold the layer that breaks this one
            sequences += [(index,) for index in range(begin, end)]
        begin = end
    return sequences


def _end_of_chain(model: CanonicalModel, begin: int, last: int) -> int:
    """Index after the layers of a window that feed each other and need nothing else.

    Only the first layer may read tensors from outside of the window, weights apart:
    a ``Concat`` whose other inputs come from elsewhere cannot be run by the window alone.
    """
    previous = model.layers[begin]
    if previous.opaque:
        return begin + 1
    inside: set[str] = set(previous.outputs)
    for index in range(begin + 1, last):
        layer = model.layers[index]
        activations = model.activations(layer)
        if (
            layer.opaque
            or not inside.issuperset(activations)
            or set(activations).isdisjoint(previous.outputs)
        ):
            return index
        inside.update(layer.outputs)
        previous = layer
    return last


#: Strategies by name.
STRATEGIES: dict[str, SplitStrategy] = {
    "chain": chain,
    "segments": segments,
    "short-segments": short_segments,
}


def split(
    model: CanonicalModel, granularity: int, strategy: str = "chain"
) -> tuple[LayerSequence, ...]:
    """Cuts a model with a named strategy, and checks the strategy's guarantees.

    Args:
        model: Model in canonical form.
        granularity: Maximum number of layers in a sequence, at least 1.
        strategy: A key of ``STRATEGIES``.

    Raises:
        DLBricksError: If an argument is out of range, or if the strategy did not put
            every layer into exactly one sequence of at most ``granularity`` layers.
    """
    if granularity < 1:
        raise DLBricksError(
            f"granularity {granularity} is not a number of layers", hint="Use 1 or more."
        )
    if strategy not in STRATEGIES:
        raise DLBricksError(
            f"unknown split strategy {strategy!r}", hint=f"Known: {', '.join(STRATEGIES)}."
        )
    sequences = tuple(STRATEGIES[strategy](model, granularity))
    covered = sorted(index for sequence in sequences for index in sequence)
    if covered != list(range(len(model.layers))) or any(
        len(sequence) > granularity for sequence in sequences
    ):
        raise DLBricksError(f"strategy {strategy!r} did not cover {model.name} exactly")
    return sequences

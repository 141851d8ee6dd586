"""Split strategies: ways to cut a model into layer sequences that cover every layer once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlbricks_core.bricks.segments import segments, short_segments
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel

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

"""Attack by the way of cutting: finds sequences that the suite's strategy never cuts.

A suite states how its models were cut. A segment that is too short is joined with the next, and one
that is long enough ends at the first place where it may. Cutting a brick again therefore shows
whether it can be a brick of the suite. No decoy may fail where the true brick passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from dlbricks_core.bricks import STRATEGIES, CutModel
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

_WEIGHT = TensorSpec("float32", (1024, 1024))
"""A weight that suffices for a segment of its own."""

_BEFORE, _AFTER, _WEIGHTS = "frame/before", "frame/after", "frame/weights"


@dataclass(frozen=True)
class Cutting:
    """Way of cutting models."""

    strategy: str  #: Name of the split strategy.
    granularity: int  #: Maximum number of layers in a sequence.
    first: frozenset[TensorSpec]  #: Specifications of the inputs of the models.
    last: frozenset[TensorSpec]  #: Specifications of the outputs of the models.

    @classmethod
    def of(cls, cuts: Iterable[CutModel], strategy: str, granularity: int) -> Self:
        """Way in which models were cut."""
        graphs = [cut.graph for cut in cuts]
        return cls(
            strategy,
            granularity,
            frozenset(graph.tensors[name] for graph in graphs for name in graph.inputs),
            frozenset(graph.tensors[name] for graph in graphs for name in graph.outputs),
        )

    def allows(self, sequence: CanonicalModel) -> bool:
        """Whether a model that holds this sequence is cut at its ends, and not within it.

        A sequence of several inputs or outputs is always allowed, because the rest of its model
        decides where it is cut. So is any sequence of a chain: chains are cut by number of layers.
        """
        several = len(sequence.inputs) != 1 or len(sequence.outputs) != 1
        if several or self.strategy == "chain":
            return True
        begins = sequence.tensors[sequence.inputs[0]] in self.first
        framed = _framed(sequence, begins, sequence.tensors[sequence.outputs[0]] in self.last)
        offset = 0 if begins else 1
        whole = tuple(range(offset, offset + len(sequence.layers)))
        return whole in STRATEGIES[self.strategy](framed, self.granularity)


def _framed(sequence: CanonicalModel, begins: bool, ends: bool) -> CanonicalModel:
    """A sequence between two layers with weights, unless its model begins or ends with it."""
    read, written = sequence.inputs[0], sequence.outputs[0]
    layers: Sequence[Layer] = sequence.layers
    if not begins:
        layers = [Layer("MatMul", (_BEFORE, _WEIGHTS), (read,)), *layers]
    if not ends:
        layers = [*layers, Layer("MatMul", (written, _WEIGHTS), (_AFTER,))]
    return replace(
        sequence,
        layers=tuple(layers),
        inputs=(read if begins else _BEFORE,),
        outputs=(written if ends else _AFTER,),
        tensors={
            **sequence.tensors,
            _BEFORE: sequence.tensors[read],
            _AFTER: sequence.tensors[written],
            _WEIGHTS: _WEIGHT,
        },
        weights=sequence.weights | {_WEIGHTS},
    )

"""Demands of layers on their inputs: arguments in a domain, indices in range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_core.operators.ranges.interval import EVERYTHING, Domain, Range
from dlbricks_core.operators.table import operator


@dataclass(frozen=True, eq=False)
class Demand:
    """Demand of a layer on one of its inputs.

    Attributes:
        layer: Index of the layer.
        tensor: Name of the input.
        domains: Domains, each of which is valid.
        index: Whether the values are indices, which are spread over the whole valid range.
    """

    layer: int
    tensor: str
    domains: tuple[Domain, ...]
    index: bool = False

    def met(self, held: Range) -> bool:
        """Whether the values of a range are valid."""
        return any(held.inside(each.valid) for each in self.domains)

    def choice(self, held: Range, asked: Range) -> Range:
        """Valid values to choose: within the requested range, and near the present range."""
        possible = [each.choice for each in self.domains if not each.choice.meet(asked).empty]
        if not possible:
            return self.domains[0].choice
        return possible[-1 if held.negative.all() else 0]


def demands(model: CanonicalModel, known: Mapping[str, Array]) -> Iterator[Demand]:
    """All demands of a model's layers.

    Args:
        model: Model in canonical form, without opaque layers.
        known: Known values of tensors.
    """
    for index, layer in enumerate(model.layers):
        row = operator(layer.qualified_op)
        values = [known.get(name) for name in layer.inputs]
        for name, each in zip(layer.inputs, row.inputs, strict=False):
            if name and each.valid and (domains := each.valid(values)):
                yield Demand(index, name, domains)
        for position in row.indices:
            if position < len(layer.inputs) and (name := layer.inputs[position]):
                valid = index_range(model, layer, position)
                if valid is not EVERYTHING:
                    yield Demand(index, name, (Domain(valid, valid),), index=True)


def index_range(model: CanonicalModel, layer: Layer, position: int) -> Range:
    """Range of valid values of an input of indices, lengths or shifts."""
    specs = model.specs(layer.inputs), model.specs(layer.outputs)
    facts = operator(layer.qualified_op).input(position)
    if facts.length is not None:
        length = facts.length(layer, *specs, _whole_numbers(model, layer))
        if length is None:
            return EVERYTHING
        only = np.asarray(length, dtype=np.float64)
        if only.ndim:
            only = np.broadcast_to(only, model.tensors[layer.inputs[position]].sizes)
        return Range.of(only, only)
    assert facts.below is not None
    most = np.maximum(np.asarray(facts.below(layer, *specs), dtype=np.float64) - 1, 0)
    if most.ndim:
        most = np.broadcast_to(most, model.tensors[layer.inputs[position]].sizes)
    return Range.of(np.zeros_like(most), most)


def _whole_numbers(model: CanonicalModel, layer: Layer) -> dict[int, int]:
    """Known inputs of one whole number, by position."""
    found = ((at, model.constants.get(name)) for at, name in enumerate(layer.inputs))
    return {
        at: int(value.reshape(()))
        for at, value in found
        if value is not None and value.size == 1 and value.dtype.kind in "iu"
    }

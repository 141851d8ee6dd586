"""Demands of layers on their inputs: arguments in a domain, indices in range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_core.ir.parameters import INDEX_INPUTS, LENGTH_INPUTS, index_positions
from dlbricks_core.values.ranges.arithmetic import NEGATIVE, POSITIVE
from dlbricks_core.values.ranges.interval import EVERYTHING, TINY, Range


@dataclass(frozen=True)
class Domain:
    """Arguments for which a function is defined.

    Attributes:
        valid: Range of all of them.
        choice: Range to choose from, at some distance from the ends.
    """

    valid: Range
    choice: Range


_POSITIVE = Domain(Range.of(TINY, np.inf), POSITIVE)
_NEGATIVE = Domain(Range.of(-np.inf, -TINY), NEGATIVE)
_NOT_NEGATIVE = Domain(Range.of(0, np.inf), POSITIVE)
_COSINE = Domain(Range.of(-1, 1), Range.of(-0.9, 0.9))
_INSIDE_UNIT = Domain(Range.of(TINY - 1, 1 - 1e-7), Range.of(-0.9, 0.9))
_ABOVE_ONE = Domain(Range.of(1, np.inf), Range.of(1.1, np.inf))

#: Operator -> input position -> domains, each of which is valid.
_DOMAINS: Mapping[str, Mapping[int, tuple[Domain, ...]]] = {
    "Acos": {0: (_COSINE,)},
    "Acosh": {0: (_ABOVE_ONE,)},
    "Asin": {0: (_COSINE,)},
    "Atanh": {0: (_INSIDE_UNIT,)},
    "Div": {1: (_POSITIVE, _NEGATIVE)},
    "Log": {0: (_POSITIVE,)},
    "Mod": {1: (_POSITIVE, _NEGATIVE)},
    "Reciprocal": {0: (_POSITIVE, _NEGATIVE)},
    "ReduceLogSum": {0: (_POSITIVE,)},
    "Sqrt": {0: (_NOT_NEGATIVE,)},
}


def _of_base(exponent: Array | None) -> tuple[Domain, ...]:
    """Domains of the base of a power, by the exponent; empty if every base is valid."""
    if exponent is None:
        return (_POSITIVE,)
    whole = bool((exponent == np.round(exponent)).all())
    if (exponent >= 0).all():
        return () if whole else (_NOT_NEGATIVE,)
    return (_POSITIVE, _NEGATIVE) if whole else (_POSITIVE,)


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
        """Valid values to choose: within the asked range, and near to the range that is held."""
        possible = [each.choice for each in self.domains if not each.choice.meet(asked).empty]
        if not possible:
            return self.domains[0].choice
        return possible[-1 if held.negative.all() else 0]


def demands(model: CanonicalModel, known: Mapping[str, Array]) -> Iterator[Demand]:
    """All demands of a model's layers.

    Args:
        model: In canonical form, without opaque layers.
        known: Known values of tensors.
    """
    for index, layer in enumerate(model.layers):
        if layer.qualified_op == "Pow":
            yield from _named(index, layer, {0: _of_base(known.get(layer.inputs[1]))})
        yield from _named(index, layer, _DOMAINS.get(layer.qualified_op, {}))
        for position in index_positions(layer.qualified_op):
            if position < len(layer.inputs) and (name := layer.inputs[position]):
                valid = index_range(model, layer, position)
                if valid is not EVERYTHING:
                    yield Demand(index, name, (Domain(valid, valid),), index=True)


def index_range(model: CanonicalModel, layer: Layer, position: int) -> Range:
    """Range of valid values of an input of indices, lengths or shifts."""
    specs = model.specs(layer.inputs), model.specs(layer.outputs)
    lengths = LENGTH_INPUTS.get(layer.qualified_op, {})
    if position in lengths:
        length = lengths[position](layer, *specs, _whole_numbers(model, layer))
        if length is None:
            return EVERYTHING
        only = np.asarray(length, dtype=np.float64)
        if only.ndim:
            only = np.broadcast_to(only, model.tensors[layer.inputs[position]].sizes)
        return Range.of(only, only)
    above = INDEX_INPUTS[layer.qualified_op][position](layer, *specs)
    most = np.maximum(np.asarray(above, dtype=np.float64) - 1, 0)
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


def _named(index: int, layer: Layer, domains: Mapping[int, tuple[Domain, ...]]) -> Iterator[Demand]:
    for position, each in domains.items():
        if each and position < len(layer.inputs) and layer.inputs[position]:
            yield Demand(index, layer.inputs[position], each)

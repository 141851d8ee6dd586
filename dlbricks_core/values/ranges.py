"""Finds ranges of inputs and weights from which all layers read valid values.

Inputs, and weights without values, start with default ranges. The forward pass computes the range
of each layer's inputs. Where that is not valid, the backward pass carries the valid range against
the order of the layers and narrows the ranges of inputs and weights. Each pass visits every layer
once. A demand that intervals cannot meet changes nothing: a variance, for example, is never
negative, but intervals do not show that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.errors import WRONG_SIZES, ModelError
from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_core.operators.operator import Lacks
from dlbricks_core.operators.ranges.interval import (
    EVERYTHING,
    Domain,
    Range,
    RangeStep,
    Rule,
    held,
    is_whole,
    limits,
    representable,
)
from dlbricks_core.operators.table import operator

# Demands of layers on their inputs: arguments in a domain, indices in range.


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
    """All demands of a model's layers."""
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
    try:
        below = facts.below(layer, *specs)
    except IndexError as error:  # ONNX infers the results of GatherElements without its axis
        why = f"{layer.op} does not fit its inputs: its data lack an axis that it names"
        raise ModelError(why, hint=WRONG_SIZES) from error
    most = np.maximum(np.asarray(below, dtype=np.float64) - 1, 0)
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


_ROUNDS = 4
"""Maximum forward and backward passes; each pass may leave the ranges that the last relied on."""

_ATTEMPTS = 4
"""Maximum times that unmet demands are left out and the rest is tried again."""

_ELEMENTS = 2**26
"""Maximum elements with ranges of their own, over all layers: these take about a second."""

_Ranges = Mapping[str, Range]
_NO_RULE = Rule(lambda step: [EVERYTHING] * len(step.outputs))


def _rule(layer: Layer) -> Rule:
    """Rule of a layer's operator. Results of one without a rule may be anything."""
    rule = operator(layer.qualified_op).ranges
    return _NO_RULE if isinstance(rule, Lacks) else rule


def valid_ranges(
    model: CanonicalModel, defaults: Callable[[str], Range], known: Mapping[str, Array]
) -> dict[str, Range]:
    """Ranges of inputs and weights that make all values valid where layers use them.

    Args:
        model: Model in canonical form, without opaque layers.
        defaults: Range of an input, or of a weight without a value, if no layer demands another.
        known: Known values of tensors.

    Returns:
        Ranges of those inputs and weights whose range is not the default.
    """
    wanted = tuple(demands(model, known))
    if not wanted:
        return {}
    with np.errstate(all="ignore"):
        return Propagation(model, defaults, known, wanted).settled()


class Propagation:
    """Propagation of ranges through the layers that lead to a demand."""

    def __init__(
        self,
        model: CanonicalModel,
        defaults: Callable[[str], Range],
        known: Mapping[str, Array],
        wanted: Collection[Demand],
    ) -> None:
        self._model = model
        self._layers = _leading_to(wanted, model)
        self._certain = {
            name: Range.of(value, value).simplest()
            for name, value in known.items()
            if value.dtype.kind in "biuf" and value.size
        }
        self._known = known
        read = {name for index in self._layers for name in model.layers[index].inputs if name}
        sources = (model.weights | set(model.inputs)) - known.keys()
        self._defaults = {name: defaults(name) for name in sorted(sources & read)}
        self._free = set(self._defaults)
        self._fed = self._free & set(model.inputs)
        for index in self._layers:
            layer = model.layers[index]
            if _rule(layer).passes:
                for reached in self._free, self._fed:
                    if not reached.isdisjoint(layer.reads):
                        reached.update(name for name in layer.outputs if name)
        self._most = _ELEMENTS // max(len(self._layers), 1)
        #: Ranges that drawn values decide.
        self.demands = [demand for demand in wanted if demand.tensor in self._free]
        self._deciding = _leading_to(self.demands, model)

    def settled(self) -> dict[str, Range]:
        """Ranges of inputs and weights that differ from their default."""
        considered = self.demands
        for _ in range(_ATTEMPTS):
            start = self._with_indices([each for each in considered if each.index])
            current, unmet = self._narrowed(start, considered)
            if not unmet or current is start:
                return self._changed(current)
            hopeless = set(unmet)
            considered = [each for each in considered if each not in hopeless]
        return self._changed(start)

    def _changed(self, current: _Ranges) -> dict[str, Range]:
        return {name: each for name, each in current.items() if each is not self._defaults[name]}

    def _with_indices(self, indices: Collection[Demand]) -> dict[str, Range]:
        """Ranges in which indices are spread over all valid values; others are unchanged."""
        if not indices:
            return self._defaults
        forward = self.forward(self._defaults, self._deciding)
        asked = self._backward(forward, indices)
        return {name: self._spread(name, asked.get(name)) for name in self._defaults}

    def _spread(self, name: str, wanted: Range | None) -> Range:
        default = self._defaults[name]
        if wanted is None:
            return default
        near = _fitted(default, wanted)
        bounded = np.isfinite(wanted.low) & np.isfinite(wanted.high)
        least = wanted.low
        if is_whole(self._model.tensors[name].dtype):
            # An input that becomes an index only by an addition is not restricted.
            least = np.where(wanted.high >= 0, np.maximum(least, 0), least)
        return Range.of(
            np.where(bounded, least, near.low),
            np.where(bounded, wanted.high, near.high),
            default.smooth,
        ).simplest()

    def _narrowed(
        self, current: _Ranges, considered: Collection[Demand]
    ) -> tuple[_Ranges, list[Demand]]:
        """Ranges that meet as many demands as possible, and the demands that they do not meet."""
        for last in (*(False for _ in range(_ROUNDS)), True):
            forward = self.forward(current, self._deciding)
            unmet = [demand for demand in considered if not demand.met(forward[demand.tensor])]
            asked = self._backward(forward, unmet)
            moved = {
                name: _fitted(current[name], wanted)
                for name, wanted in asked.items()
                if not current[name].inside(wanted)
            }
            if last or not moved:
                break
            current = {**current, **moved}
        return current, unmet

    def forward(self, current: _Ranges, layers: Sequence[int] | None = None) -> dict[str, Range]:
        """Ranges of all tensors that lead to a demand, from those of inputs and weights.

        Args:
            current: Ranges of inputs and weights.
            layers: Indices of the layers that count; ``None`` for all that lead to a demand.
        """
        ranges = {**self._certain, **current}
        for _, step, rule in self._steps(ranges, self._layers if layers is None else layers):
            for name, spec, image in zip(
                step.layer.outputs, step.outputs, rule.image(step), strict=False
            ):
                if name and spec is not None:
                    result = held(image.simplest(), spec.dtype)
                    ranges[name] = result if step.detailed else result.hull()
            for name, spec in zip(step.layer.outputs, step.outputs, strict=True):
                if name and spec is not None:
                    ranges.setdefault(name, limits(spec.dtype))
        return ranges

    def _backward(self, forward: _Ranges, unmet: Iterable[Demand]) -> dict[str, Range]:
        """Ranges that are wanted of inputs and weights."""
        asked: dict[str, Range] = {}
        demanded: dict[int, list[Demand]] = {}
        for demand in unmet:
            demanded.setdefault(demand.layer, []).append(demand)
        for index, step, rule in self._steps(forward, reversed(self._deciding)):
            wanted = [asked.pop(name, None) for name in step.layer.outputs]
            if any(
                each is not None and (rule.carries(step) or not forward[name].inside(each))
                for name, each in zip(step.layer.outputs, wanted, strict=True)
            ):
                every = [EVERYTHING if each is None else each for each in wanted]
                for position, each in rule.asked(step, every).items():
                    if step.free[position]:
                        self._ask(asked, step.layer.inputs[position], each)
            for demand in demanded.get(index, ()):
                name = demand.tensor
                self._ask(asked, name, demand.choice(forward[name], asked.get(name, EVERYTHING)))
        return {name: each for name, each in asked.items() if name in self._defaults}

    def _ask(self, asked: dict[str, Range], name: str, wanted: Range) -> None:
        """Adds a wish to others; one that contradicts them is left out."""
        spec = self._model.tensors[name]
        if not wanted.uniform:
            wanted = _reduced(wanted, spec.sizes)
        if not self._is_detailed(name):
            wanted = wanted.core()
        both = representable(wanted.meet(asked.get(name, EVERYTHING)), spec.dtype)
        if not both.empty:
            asked[name] = both.simplest()

    def _is_detailed(self, name: str) -> bool:
        return not name or 0 < self._model.tensors[name].elements <= self._most

    def _is_static(self, name: str) -> bool:
        return not name or self._model.tensors[name].is_static

    def _steps(
        self, ranges: _Ranges, indices: Iterable[int]
    ) -> Iterable[tuple[int, RangeStep, Rule]]:
        for index in indices:
            layer = self._model.layers[index]
            if not all(map(self._is_static, (*layer.inputs, *layer.outputs))):
                continue
            detailed = all(map(self._is_detailed, (*layer.inputs, *layer.outputs)))
            read = [ranges.get(name, EVERYTHING) for name in layer.inputs]
            yield (
                index,
                RangeStep(
                    layer,
                    self._model.specs(layer.inputs),
                    self._model.specs(layer.outputs),
                    tuple(self._known.get(name) for name in layer.inputs),
                    tuple(read if detailed else [each.hull() for each in read]),
                    tuple(name in self._free for name in layer.inputs),
                    tuple(name in self._fed for name in layer.inputs),
                    detailed,
                ),
                _rule(layer),
            )


def _leading_to(wanted: Collection[Demand], model: CanonicalModel) -> list[int]:
    """Indices of the layers that demand something, and of those that this depends on."""
    demanding = {demand.layer for demand in wanted}
    needed: set[str] = set()
    found = []
    for index in range(len(model.layers) - 1, -1, -1):
        layer = model.layers[index]
        if index in demanding or not needed.isdisjoint(name for name in layer.outputs if name):
            needed.update(layer.reads)
            found.append(index)
    return found[::-1]


def _fitted(current: Range, wanted: Range) -> Range:
    """The requested part of a range; the nearest value if they do not overlap."""
    both = current.meet(wanted)
    low = np.where(
        both.low <= both.high,
        both.low,
        np.where(
            wanted.low > current.high,
            wanted.low,
            np.maximum(wanted.low, wanted.high - current.width),
        ),
    )
    high = np.where(
        both.low <= both.high,
        both.high,
        np.where(
            wanted.low > current.high,
            np.minimum(wanted.high, wanted.low + current.width),
            wanted.high,
        ),
    )
    return Range.of(low, high, current.smooth).simplest()


def _reduced(wanted: Range, sizes: tuple[int, ...]) -> Range:
    """Range wanted of elements that are broadcast, so that it suits all of their copies."""
    low, high = wanted.low, wanted.high
    leading = tuple(range(low.ndim - len(sizes)))
    low, high = low.max(leading), high.min(leading)
    repeated = (
        tuple(axis for axis, size in enumerate(sizes) if size == 1 and low.shape[axis] != 1)
        if low.ndim == len(sizes)
        else ()
    )
    low, high = low.max(repeated, keepdims=True), high.min(repeated, keepdims=True)
    return Range.of(np.broadcast_to(low, sizes), np.broadcast_to(high, sizes))

"""Form of a row of the table: facts about one operator, and about each of its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from dlbricks_core.ir.model import CanonicalModel, Layer
from dlbricks_core.ir.tensors import TensorSpec
from dlbricks_core.operators.ranges.interval import DomainRule, Rule
from dlbricks_core.operators.shapes import ShapeRule

Specs = Sequence[TensorSpec | None]

FlopsRule = Callable[[Layer, Specs, Specs], int]
"""Number of operations from ``(layer, input specs, output specs)``; the specs are static."""

IndexBound = Callable[[Layer, Specs, Specs], int | tuple[int, ...]]
"""Exclusive upper bound of valid values, from ``(layer, input specs, output specs)``.

A tuple has one bound for each position along the last axis of the index tensor. Zero is always
valid if the bound is positive. The specs are static.
"""

LengthRule = Callable[[Layer, Specs, Specs, Mapping[int, int]], int | tuple[int, ...] | None]
"""The only sensible value, from ``(layer, input specs, output specs, known whole numbers)``.

The last argument has known inputs of one whole number, by position. A tuple holds a value for each
position along the last axis. ``None`` where every value is sensible, as in a mask.
"""

Interval = tuple[float, float]

Drawn = Callable[[Layer, TensorSpec], Interval]
"""Least and greatest value to draw for an input, from its reader and its specification."""

PowerRule = Callable[[Layer, Sequence[float], CanonicalModel], float]
"""Mean square of the results, from ``(layer, mean square of each input, model)``."""


@dataclass(frozen=True)
class Lacks:
    """A fact that an operator does not have, and why not."""

    reason: str


class Traffic(Enum):
    """Bytes that an operator moves."""

    ALL = "bytes read and written"
    VIEW = "nothing: it only changes a tensor's shape"
    PICKED = "of the first input only the elements that become the result"


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of an operator.

    Attributes:
        parameter: Whether its value changes the work, or the shape of a result. Signatures cover
            its value where that is known; an index that is also a parameter is drawn otherwise.
        below: Bound of valid indices, lengths or shifts.
        length: Value with which all steps are used. Kernels do less for shorter sequences, and
            nobody times that.
        valid: Arguments for which the operator is defined.
        drawn: Values to draw for floats. By default weights are small, inputs near unit scale.
        codes: Values to draw for a weight that consists of codes, or is a zero point of them.
        zero_point: Whether it is the code that stands for zero. 0 is drawn.
        coarse: Whether bricks distinguish a zero point of the least code from all other zero
            points.
        compensates: Whether the weight is drawn so that it compensates the power of the operator's
            first input.
        bias: Whether it is added to products of the first and the second input.
        rectified: Whether it is nearly always the result of a rectifier, on which the operator's
            time depends: PyTorch's pooling branches on every comparison, which is easy if half of
            a map is zero.
        table: Whether as many of its elements are read as the operator writes.
    """

    parameter: bool = False
    below: IndexBound | None = None
    length: LengthRule | None = None
    valid: DomainRule | None = None
    drawn: Drawn | None = None
    codes: Drawn | None = None
    zero_point: bool = False
    coarse: bool = False
    compensates: bool = False
    bias: bool = False
    rectified: bool = False
    table: bool = False


DATA = Input()
PARAMETER = Input(parameter=True)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator, as its layers are in canonical form.

    Attributes:
        kind: Class and sort of its kernels. Operators of one class are computed alike, so that the
            speed of one predicts the speed of another.
        flops: Rule for the number of floating-point operations.
        ranges: Rule for the ranges of its results.
        power: Rule for the mean square of its results.
        inputs: Facts about each input. For a variadic operator, the last ones repeat.
        repeated: Number of inputs at the end that repeat.
        traffic: Bytes that it moves.
        access: Name of the function that finds its pattern of memory access; empty if it has none.
        looks_up: Whether it takes rows or elements from places all over its input.
        branches: Whether frameworks branch on each value: what follows no pattern, such as random
            signs, takes several times as long.
        channels_last: Whether it reads feature maps with the channels on the last axis.
        saturates: Whether results can hide a difference between inputs: with random weights, a
            classifier's probabilities are nearly one and zero.
        folded: Whether a layer that reads only weights becomes a weight. A runtime may keep
            quantized weights as they are, random numbers are drawn anew at each run, and a
            pattern may take for ever.
        costly: Whether its time or memory is out of proportion to its tensors, so that nobody
            computes it in passing.
        sized_by_data: Whether shapes of its results depend on values at run time.
        typed_by: Attribute that says which floating-point type its result has; empty for none.
        shape: Quick rule for the shape of its only result; ``None`` to ask ONNX.
        caches: Position of each input that is a cache of earlier steps, and of the output that is
            the cache with the new steps; both may be the same memory.
    """

    kind: str | Lacks
    flops: FlopsRule | Lacks
    ranges: Rule | Lacks
    power: PowerRule
    inputs: tuple[Input, ...]
    repeated: int = 0
    traffic: Traffic = Traffic.ALL
    access: str = ""
    looks_up: bool = False
    branches: bool = False
    channels_last: bool = False
    saturates: bool = False
    folded: bool = True
    costly: bool = False
    sized_by_data: bool = False
    typed_by: str = ""
    shape: ShapeRule | None = None
    caches: tuple[tuple[int, int], ...] = ()

    def input(self, position: int) -> Input:
        """Facts about the input at a position."""
        begin = len(self.inputs) - self.repeated
        if position >= begin and self.repeated:
            return self.inputs[begin + (position - begin) % self.repeated]
        return self.inputs[position] if position < len(self.inputs) else DATA

    @cached_property
    def parameters(self) -> frozenset[int]:
        """Positions of the inputs whose values change the work, or the shape of a result."""
        return frozenset(at for at, each in enumerate(self.inputs) if each.parameter)

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """Positions of the inputs of indices, lengths and shifts."""
        return tuple(at for at, each in enumerate(self.inputs) if each.below or each.length)


def sizes(specs: Specs, position: int) -> tuple[int, ...]:
    """Shape of an input or output.

    Raises:
        ValueError: If it is left out.
    """
    spec = specs[position]
    if spec is None:
        raise ValueError(f"input or output {position} is left out")
    return spec.sizes


def size(specs: Specs, position: int = 0) -> int:
    """Number of elements of an input or output; 0 if it is left out."""
    spec = specs[position] if position < len(specs) else None
    return 0 if spec is None else spec.elements


def has(specs: Specs, position: int) -> bool:
    """Whether an input or output is there."""
    return position < len(specs) and specs[position] is not None


def whole(layer: Layer, name: str, default: int = 0) -> int:
    """An attribute that is a whole number."""
    value = layer.attributes.get(name, default)
    assert isinstance(value, int)
    return value


def attribute_of(layer: Layer, name: str) -> Any:
    """An attribute that the canonical form always writes."""
    return layer.attributes[name]


# Rules that operators of several families share


def nothing(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """No operation: moving data counts as none."""
    return 0


def each_input(operations: int) -> FlopsRule:
    """Rule with so many operations for each element of the first input."""
    return lambda layer, inputs, outputs: operations * size(inputs)


def each_output(operations: int, bias: int | None = None) -> FlopsRule:
    """Rule with so many operations for each element of the first output, and one for a bias."""
    return lambda layer, inputs, outputs: (
        size(outputs) * (operations + (bias is not None and has(inputs, bias)))
    )


def kept(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    """The largest power that is read."""
    return max(powers, default=1.0)


def unit(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    """Power 1, as weighted sums have, because weights are drawn for that; and normalizations."""
    return 1.0


def halved(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    """Half of the power that is read, as half of the elements become zero or small."""
    return powers[0] / 2


ANYTHING = Lacks("no known model computes arguments of a domain, or indices, from such results")
BY_TYPE = Lacks("its results have only the bounds of their type")
RARE = Lacks("it is rare, and no other operator has similar kernels")
LATE = Lacks("it came after the canonical operator set, and was never measured")


def rows_of(position: int) -> Input:
    """Indices of rows of a table that is another input."""
    return Input(below=lambda layer, inputs, outputs: sizes(inputs, position)[0])


def row(
    kind: str | Lacks,
    flops: FlopsRule | Lacks,
    *inputs: Input,
    ranges: Rule | Lacks = ANYTHING,
    power: PowerRule = kept,
    **facts: Any,
) -> Operator:
    """Row of an operator whose results may be anything, and keep the power that is read.

    Args:
        kind: Class and sort of its kernels.
        flops: Rule for the number of operations.
        inputs: Facts about each input.
        ranges: Rule for the ranges of its results.
        power: Rule for the mean square of its results.
        facts: Other attributes of :class:`Operator`.
    """
    return Operator(kind=kind, flops=flops, ranges=ranges, power=power, inputs=inputs, **facts)


# Random values of weights that keep the magnitude from inputs to results.
#
# Codes are spread over their whole type, as those of trained weights are. Nothing then overflows
# through many layers, and nothing becomes denormal.


def always(low: float, high: float) -> Drawn:
    """Rule with the same interval for every layer."""
    return lambda layer, spec: (low, high)


def of_variance(variance: float) -> Interval:
    """Numbers around zero with this variance."""
    half = math.sqrt(3 * variance)
    return -half, half


def _fan_in(first_axis: int) -> Drawn:
    """Values that keep the variance of a weighted sum over the axes from ``first_axis`` on."""
    return lambda layer, spec: of_variance(1 / max(math.prod(spec.sizes[first_axis:]), 1))


def _transposed_filter(layer: Layer, spec: TensorSpec) -> Interval:
    strides = layer.attributes.get("strides", ())
    taps = math.prod(spec.sizes[2:]) / math.prod(strides if isinstance(strides, tuple) else ())
    return of_variance(1 / max(spec.sizes[0] * taps, 1))


def _gemm(layer: Layer, spec: TensorSpec) -> Interval:
    return of_variance(1 / max(spec.sizes[1 if layer.attributes.get("transB") else 0], 1))


def _matmul(layer: Layer, spec: TensorSpec) -> Interval:
    return of_variance(1 / max(spec.sizes[-2 if spec.rank > 1 else -1], 1))


def codes(layer: Layer, spec: TensorSpec) -> Interval:
    """All codes of a type; the signed ones are as many below zero as above."""
    return {"int8": (-127, 127), "uint8": (0, 255), "int4": (-7, 7), "uint4": (0, 15)}.get(
        spec.dtype, (0, 1)
    )


def _middle(layer: Layer, spec: TensorSpec) -> Interval:
    """Zero point in the middle of the codes of a type."""
    middle = {"uint8": 128, "uint4": 8}.get(spec.dtype, 0)
    return middle, middle


SMALL = Input(drawn=always(-0.1, 0.1))
NEAR_ONE = Input(drawn=always(0.9, 1.1))
SCALE = Input(drawn=always(0.01, 0.02))
BIAS = Input(drawn=always(-0.1, 0.1), bias=True)
FILTER = Input(drawn=_fan_in(1), compensates=True)
TRANSPOSED_FILTER = Input(drawn=_transposed_filter, compensates=True)
GEMM = Input(drawn=_gemm, compensates=True)
FACTOR = Input(drawn=_matmul, compensates=True)
RECURRENT = Input(drawn=_fan_in(2))
CODES = Input(codes=codes)
MIDDLE = Input(codes=_middle)
ZERO_POINT = Input(zero_point=True)
CODED = (DATA, SCALE, ZERO_POINT)
"""An input of codes, with their scale and zero point."""


def argument(valid: DomainRule, low: float, high: float) -> Input:
    """Input of an operator that is undefined for some values, and limits of its random values."""
    return Input(valid=valid, drawn=always(low, high))

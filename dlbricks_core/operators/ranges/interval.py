"""Ranges of values: intervals, what an operator is defined for, and the form of its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from dlbricks_core.ir import Array, Layer, TensorSpec, numpy_dtype

TINY = 1e-30
"""Stands for the least number above zero, as frameworks can still divide by it."""


@dataclass(frozen=True, eq=False)
class Range:
    """All values from ``low`` to ``high``, both included.

    Attributes:
        low: Lower ends: an array of rank 0 if all elements have one range, else of the tensor's
            shape.
        high: Upper ends, of the same shape.
        smooth: Whether no single value is likelier than its neighbours. An element is then
            exactly zero only by accident.
    """

    low: Array
    high: Array
    smooth: bool = False

    @classmethod
    def of(cls, low: object, high: object, smooth: bool = False) -> Range:
        """Range from numbers or arrays that broadcast; NaN stands for no bound."""
        lows, highs = np.broadcast_arrays(
            np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        )
        unknown = np.isnan(lows), np.isnan(highs)
        if unknown[0].any() or unknown[1].any():
            lows = np.where(unknown[0], -np.inf, lows)
            highs = np.where(unknown[1], np.inf, highs)
        return cls(lows, highs, smooth and bool((lows < highs).all()))

    @property
    def uniform(self) -> bool:
        """Whether one interval holds for all elements."""
        return self.low.ndim == 0

    @property
    def empty(self) -> bool:
        """Whether some element is left without a finite value."""
        return bool(((self.low > self.high) | np.isposinf(self.low) | np.isneginf(self.high)).any())

    @property
    def nonzero(self) -> bool:
        """Whether the range is without zero."""
        return self.smooth or bool(((self.low > 0) | (self.high < 0)).all())

    @property
    def width(self) -> Array:
        """Distance between the ends."""
        return np.asarray(self.high - self.low)

    @property
    def negative(self) -> Array:
        """Elements whose range lies mostly below zero."""
        return np.asarray(self.low + self.high < 0)

    def inside(self, other: Range) -> bool:
        """Whether the other range holds all of this one."""
        return bool(((self.low >= other.low) & (self.high <= other.high)).all())

    def meet(self, other: Range) -> Range:
        """Intersection of both ranges; may be empty."""
        return Range.of(
            np.maximum(self.low, other.low), np.minimum(self.high, other.high), self.smooth
        )

    def hull(self) -> Range:
        """One interval that covers the ranges of all elements."""
        if self.uniform or not self.low.size:
            return self if self.uniform else EVERYTHING
        return Range.of(self.low.min(), self.high.max(), self.smooth)

    def core(self) -> Range:
        """One interval, the intersection of the ranges of all elements; may be empty."""
        if self.uniform or not self.low.size:
            return self if self.uniform else EVERYTHING
        return Range.of(self.low.max(), self.high.min(), self.smooth)

    def simplest(self) -> Range:
        """An equal range, as a single interval if all elements have the same one."""
        if self.uniform:
            return self
        whole = self.hull()
        return whole if whole.inside(self) else self

    def rough(self) -> Range:
        """A copy of the range in which some values are likelier than others."""
        return replace(self, smooth=False)


EVERYTHING = Range.of(-np.inf, np.inf)


def join(ranges: Iterable[Range]) -> Range:
    """Smallest range that covers several ranges."""
    first, *others = ranges
    for other in others:
        first = Range.of(
            np.minimum(first.low, other.low),
            np.maximum(first.high, other.high),
            first.smooth and other.smooth,
        )
    return first


def is_whole(dtype: str) -> bool:
    """Whether elements of a type are integers, or truth values, which count as 0 and 1."""
    return dtype.startswith(("int", "uint", "bool"))


@cache
def limits(dtype: str) -> Range:
    """Range of an integer type; everything for other types."""
    if not is_whole(dtype):
        return EVERYTHING
    if dtype == "bool":
        return Range.of(0, 1)
    import ml_dtypes  # no command needs it that only predicts

    info: Any = ml_dtypes.iinfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    return Range.of(int(info.min), int(info.max))


def held(computed: Range, dtype: str) -> Range:
    """Range of a tensor whose values were computed exactly and then rounded to its type.

    Rounding keeps the order of numbers, so the results lie between the rounded ends.
    """
    if dtype == "bool":
        # All but zero is true.
        known = np.isin(computed.low, (0, 1)).all() and np.isin(computed.high, (0, 1)).all()
        return computed.rough() if known else limits(dtype)
    if is_whole(dtype):
        # What does not fit is wrapped around.
        fits = computed.inside(limits(dtype))
        return Range.of(np.trunc(computed.low), np.trunc(computed.high)) if fits else limits(dtype)
    if dtype not in _ROUNDED:
        return computed
    return Range.of(_rounded(computed.low, dtype), _rounded(computed.high, dtype), computed.smooth)


def representable(wanted: Range, dtype: str) -> Range:
    """Range of the numbers of a type that lie in a range."""
    if is_whole(dtype):
        most = limits(dtype)
        return Range.of(
            np.where(np.isinf(wanted.low), wanted.low, np.maximum(np.ceil(wanted.low), most.low)),
            np.where(
                np.isinf(wanted.high), wanted.high, np.minimum(np.floor(wanted.high), most.high)
            ),
        )
    if dtype not in _ROUNDED:
        return wanted
    low, high = _rounded(wanted.low, dtype), _rounded(wanted.high, dtype)
    return Range.of(
        np.where(low < wanted.low, _next(low, np.inf, dtype), low),
        np.where(high > wanted.high, _next(high, -np.inf, dtype), high),
    )


def loosened(computed: Range, dtype: str) -> Range:
    """Range of a float function's results, widened by the error of its computation."""
    return _wider(computed, _error(dtype))


def tightened(wanted: Range, dtype: str) -> Range:
    """Range to ask of such a function, narrowed so that its error does not lead out of a range."""
    less = _wider(wanted, -2 * _error(dtype))
    return wanted if less.empty else less


def _wider(each: Range, share: float) -> Range:
    return Range.of(
        each.low - share * np.abs(each.low), each.high + share * np.abs(each.high), each.smooth
    )


@cache
def _error(dtype: str) -> float:
    if is_whole(dtype) or dtype not in _ROUNDED:
        return 0.0
    import ml_dtypes

    info: Any = ml_dtypes.finfo(numpy_dtype(dtype))  # type: ignore[no-untyped-call]
    return 4 * float(info.eps)


#: Floats shorter than those that ranges are computed with.
_ROUNDED = frozenset({"bfloat16", "float16", "float32"})


def _rounded(bound: Array, dtype: str) -> Array:
    rounded = bound.astype(numpy_dtype(dtype)).astype(np.float64)
    # A square that is too small for the type is no zero that anybody divides by.
    return np.where((rounded == 0) & (bound != 0), bound, rounded)


def _next(bound: Array, towards: float, dtype: str) -> Array:
    kind = numpy_dtype(dtype)
    moved = np.nextafter(bound.astype(kind), np.asarray(towards).astype(kind))
    return np.asarray(moved).astype(np.float64)


# A layer with the ranges of its inputs, and the form of rules for operators.


@dataclass(frozen=True)
class RangeStep:
    """A layer, with the knowledge about its inputs by position.

    Attributes:
        layer: The layer.
        inputs: Specifications of the inputs; ``None`` where one is left out.
        outputs: Specifications of the results.
        known: Values of the inputs, where they are known.
        ranges: Ranges of the inputs.
        free: Whether each input depends on values that are still to be drawn.
        fed: Whether each input depends on inputs of the model, not on weights alone.
        detailed: Whether the tensors are small enough for ranges of single elements.
    """

    layer: Layer
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    known: tuple[Array | None, ...]
    ranges: tuple[Range, ...]
    free: tuple[bool, ...]
    fed: tuple[bool, ...]
    detailed: bool

    def sizes(self, position: int) -> tuple[int, ...]:
        """Shape of an input."""
        spec = self.inputs[position]
        assert spec is not None
        return spec.sizes

    def out_sizes(self, position: int = 0) -> tuple[int, ...]:
        """Shape of a result."""
        spec = self.outputs[position]
        assert spec is not None
        return spec.sizes

    @property
    def dtype(self) -> str:
        """Element type of the first result."""
        spec = self.outputs[0]
        return "" if spec is None else spec.dtype

    def integer(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        value = self.layer.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        value = self.layer.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.layer.attributes.get(name, default)
        assert isinstance(value, (int, float))
        return value


def _nothing(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    return {}


@dataclass(frozen=True)
class Rule:
    """Rule for the ranges of one operator.

    Attributes:
        image: Range of each result, from the ranges of the inputs.
        asked: Range that each input must have, by position, so that results have the wanted
            range. An input that is not named need not change.
        carries: Whether results are moved or shifted inputs. Indices then stay indices, and are
            spread over the whole valid range.
    """

    image: Callable[[RangeStep], Sequence[Range]]
    asked: Callable[[RangeStep, Sequence[Range]], Mapping[int, Range]] = _nothing
    carries: Callable[[RangeStep], bool] = lambda step: False

    @property
    def passes(self) -> bool:
        """Whether requested ranges of results can become requests on inputs."""
        return self.asked is not _nothing


def within(low: float, high: float) -> Rule:
    """Rule of an operator whose results are within bounds for all inputs."""
    return Rule(lambda step: [Range.of(low, high)] * len(step.outputs))


# Domains: the arguments for which an operator is defined.


@dataclass(frozen=True)
class Domain:
    """Arguments for which a function is defined.

    Attributes:
        valid: Range of all of them.
        choice: Range to choose from, at some distance from the ends.
    """

    valid: Range
    choice: Range


DomainRule = Callable[[Sequence[Array | None]], tuple[Domain, ...]]
"""Domains of an input, each of which is valid, from the known values of all inputs."""

#: Ranges to choose from for a number that must not be zero.
POSITIVE, NEGATIVE = Range.of(0.1, np.inf), Range.of(-np.inf, -0.1)

_POSITIVE = Domain(Range.of(TINY, np.inf), POSITIVE)
_NEGATIVE = Domain(Range.of(-np.inf, -TINY), NEGATIVE)
_NOT_NEGATIVE = Domain(Range.of(0, np.inf), POSITIVE)


def _always(*domains: Domain) -> DomainRule:
    return lambda known: domains


ABOVE_ZERO = _always(_POSITIVE)
NOT_NEGATIVE = _always(_NOT_NEGATIVE)
NOT_ZERO = _always(_POSITIVE, _NEGATIVE)
COSINE = _always(Domain(Range.of(-1, 1), Range.of(-0.9, 0.9)))
INSIDE_UNIT = _always(Domain(Range.of(TINY - 1, 1 - 1e-7), Range.of(-0.9, 0.9)))
ABOVE_ONE = _always(Domain(Range.of(1, np.inf), Range.of(1.1, np.inf)))


def base_of_power(known: Sequence[Array | None]) -> tuple[Domain, ...]:
    """Domains of the base of a power, by the exponent; empty if every base is valid."""
    exponent = known[1]
    if exponent is None:
        return (_POSITIVE,)
    whole = bool((exponent == np.round(exponent)).all())
    if (exponent >= 0).all():
        return () if whole else (_NOT_NEGATIVE,)
    return (_POSITIVE, _NEGATIVE) if whole else (_POSITIVE,)

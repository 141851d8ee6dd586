"""Rules for functions of one number, and of all numbers of a tensor together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dlbricks_core.ir import Array
from dlbricks_core.operators.ranges.interval import (
    EVERYTHING,
    TINY,
    Range,
    RangeStep,
    Rule,
    loosened,
    tightened,
)

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Map:
    """A function of ranges.

    Attributes:
        image: Range of the results, from the range of the argument.
        source: Range of the argument from ``(wanted, now)``: its image is within the requested
            range. Of several such ranges it is one near to the present range.
        codomain: Range of all results; ``None`` if results are rounded exactly.
    """

    image: Callable[[Range], Range]
    source: Callable[[Range, Range], Range]
    codomain: Range | None = None

    def computed(self, now: Range, dtype: str) -> Range:
        """Range of the results, computed with floats of a type."""
        exact = self.image(now)
        return exact if self.codomain is None else loosened(exact, dtype).meet(self.codomain)

    def safe_source(self, wanted: Range, now: Range, dtype: str) -> Range:
        """Range of the argument for a wanted range, despite the error of computing."""
        if self.codomain is not None:
            wanted = tightened(wanted, dtype)
        return self.source(wanted, now)


def through(
    maps: Callable[[RangeStep], Sequence[Map]],
    carries: Callable[[RangeStep], bool] = lambda step: False,
) -> Rule:
    """Rule of an operator that applies maps to its first input, one after the other."""

    def image(step: RangeStep) -> Sequence[Range]:
        result = step.ranges[0]
        for each in maps(step):
            result = each.computed(result, step.dtype)
        return [result] * len(step.outputs)

    def asked(step: RangeStep, wanted: Sequence[Range]) -> dict[int, Range]:
        passed = [step.ranges[0]]
        every = maps(step)
        for each in every[:-1]:
            passed.append(each.computed(passed[-1], step.dtype))
        result = wanted[0]
        for each, now in zip(reversed(every), reversed(passed), strict=True):
            result = each.safe_source(result, now, step.dtype)
        return {0: result}

    return Rule(image, asked, carries)


def rising(
    function: Function, inverse: Function, low: float = -np.inf, high: float = np.inf
) -> Map:
    """A function that grows with an argument between ``low`` and ``high``."""
    with np.errstate(all="ignore"):
        codomain = Range.of(function(np.asarray(low)), function(np.asarray(high)))
    return Map(
        lambda now: Range.of(
            function(np.clip(now.low, low, high)),
            function(np.clip(now.high, low, high)),
            now.smooth,
        ),
        lambda wanted, now: Range.of(inverse(wanted.low), inverse(wanted.high)),
        codomain,
    )


def rough(function: Function, source: Callable[[Range], Range]) -> Map:
    """A function that never falls, with the same result for many arguments."""
    return Map(
        lambda now: Range.of(function(now.low), function(now.high)),
        lambda wanted, now: source(wanted),
    )


def even(function: Function, inverse: Function) -> Map:
    """A function that grows with the magnitude of its argument."""

    def image(now: Range) -> Range:
        ends = np.abs(now.low), np.abs(now.high)
        least = np.where((now.low < 0) & (now.high > 0), 0, np.minimum(*ends))
        if now.smooth:
            least = np.maximum(least, TINY)
        return Range.of(function(least), function(np.maximum(*ends)), now.smooth)

    def source(wanted: Range, now: Range) -> Range:
        most = np.where(wanted.high < 0, -np.inf, inverse(np.maximum(wanted.high, 0)))
        least = inverse(np.maximum(wanted.low, 0))
        least = np.where(wanted.low <= 0, -most, least)
        mirrored = now.negative & (wanted.low > 0)
        return Range.of(np.where(mirrored, -most, least), np.where(mirrored, -least, most))

    return Map(image, source, Range.of(function(np.asarray(0.0)), np.inf))


def _reciprocal(now: Range) -> Range:
    inside = (now.low < 0) & (now.high > 0)
    return Range.of(
        np.where(inside | (now.high == 0), -np.inf, 1 / now.high),
        np.where(inside | (now.low == 0), np.inf, 1 / now.low),
        now.smooth,
    )


def _divisors(wanted: Range, now: Range) -> Range:
    """Numbers of one sign whose reciprocals are wanted."""
    mirrored = (wanted.high <= 0) | (now.negative & (wanted.low < 0))
    least = np.where(mirrored, -wanted.high, wanted.low)
    most = np.where(mirrored, -wanted.low, wanted.high)
    low = np.where(most > 0, 1 / np.maximum(most, 0), np.inf)
    high = np.where(least > 0, 1 / np.maximum(least, TINY), np.inf)
    return Range.of(np.where(mirrored, -high, low), np.where(mirrored, -low, high))


def scaled(factor: float) -> Map:
    """The sum of a number of equal arguments."""
    return Map(
        lambda now: Range.of(now.low * factor, now.high * factor, now.smooth),
        lambda wanted, now: Range.of(wanted.low / factor, wanted.high / factor),
        EVERYTHING,
    )


def accumulated(steps: int, exclusive: bool) -> Map:
    """Cumulative sums; from the empty sum on if ``exclusive``."""

    def image(now: Range) -> Range:
        sums = Range.of(
            np.minimum(now.low, now.low * steps), np.maximum(now.high, now.high * steps)
        )
        return Range.of(np.minimum(sums.low, 0), np.maximum(sums.high, 0)) if exclusive else sums

    def source(wanted: Range, now: Range) -> Range:
        return Range.of(
            np.maximum(wanted.low, wanted.low / steps), np.minimum(wanted.high, wanted.high / steps)
        )

    return Map(image, source, EVERYTHING)


def _power(exponent: float) -> Callable[[Array], Array]:
    """A power of a number that is not negative, or the same with its sign."""
    return lambda x: np.copysign(np.abs(x) ** exponent, x)


def power(exponent: float) -> Sequence[Map]:
    """Powers with a known exponent."""
    if exponent == 0:
        return (constant(1.0),)
    if exponent < 0:
        return (*power(-exponent), RECIPROCAL)
    function, inverse = _power(exponent), _power(1 / exponent)
    if exponent % 2 == 0:
        return (even(function, inverse),)
    return (rising(function, inverse, low=-np.inf if exponent % 2 == 1 else 0.0),)


def constant(value: float) -> Map:
    """A function with one result for all arguments."""
    return Map(lambda now: Range.of(value, value), lambda wanted, now: now)


TOGETHER = Map(lambda now: now.hull(), lambda wanted, now: wanted.core())
"""A function whose results lie between the least and the greatest element of a tensor."""

RECIPROCAL = Map(_reciprocal, _divisors)
ABSOLUTE = replace(even(lambda x: x, lambda x: x), codomain=None)
SQUARE = even(np.square, np.sqrt)
SQUARE_ROOT = rising(np.sqrt, lambda y: np.square(np.maximum(y, 0)), low=0.0)
EXPONENTIAL = rising(np.exp, lambda y: np.log(np.maximum(y, 0)))
LOGARITHM = rising(np.log, np.exp, low=0.0)
SIGMOID = rising(
    lambda x: 1 / (1 + np.exp(-x)), lambda y: np.log(np.clip(y, 0, 1) / (1 - np.clip(y, 0, 1)))
)
TANGENT = rising(np.tanh, lambda y: np.arctanh(np.clip(y, -1, 1)))
ROUNDED_DOWN = rough(np.floor, lambda wanted: Range.of(np.ceil(wanted.low), np.floor(wanted.high)))
ROUNDED = rough(np.round, lambda wanted: Range.of(np.ceil(wanted.low), np.floor(wanted.high)))
ROUNDED_UP = rough(np.ceil, lambda wanted: Range.of(np.ceil(wanted.low), np.floor(wanted.high)))
RECTIFIED = rough(
    lambda x: np.maximum(x, 0),
    lambda wanted: Range.of(np.where(wanted.low <= 0, -np.inf, wanted.low), wanted.high),
)
NEGATED = Map(
    lambda now: Range.of(-now.high, -now.low, now.smooth),
    lambda wanted, now: Range.of(-wanted.high, -wanted.low),
)

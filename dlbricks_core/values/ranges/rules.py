"""Rule of each operator for ranges. Results of an operator without a rule may be anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from dlbricks_core.values.ranges.arithmetic import ARITHMETIC
from dlbricks_core.values.ranges.interval import EVERYTHING, Range, join
from dlbricks_core.values.ranges.maps import (
    ABSOLUTE,
    EXPONENTIAL,
    LOGARITHM,
    NEGATED,
    RECIPROCAL,
    RECTIFIED,
    ROUNDED,
    ROUNDED_DOWN,
    ROUNDED_UP,
    SIGMOID,
    SQUARE,
    SQUARE_ROOT,
    TANGENT,
    TOGETHER,
    Map,
    accumulated,
    even,
    power,
    rising,
    scaled,
    through,
)
from dlbricks_core.values.ranges.moving import MOVING
from dlbricks_core.values.ranges.step import Rule, Step


def _always(*maps: Map) -> Rule:
    return through(lambda step: maps)


def _carrying(*maps: Map) -> Rule:
    return through(lambda step: maps, lambda step: True)


_FUNCTIONS: Mapping[str, Rule] = {
    "Abs": _always(ABSOLUTE),
    "Acos": _always(
        NEGATED,
        rising(lambda x: np.arccos(-x), lambda y: -np.cos(np.clip(y, 0, np.pi)), low=-1, high=1),
    ),
    "Acosh": _always(rising(np.arccosh, lambda y: np.cosh(np.maximum(y, 0)), low=1)),
    "Asin": _always(
        rising(np.arcsin, lambda y: np.sin(np.clip(y, -np.pi / 2, np.pi / 2)), low=-1, high=1)
    ),
    "Asinh": _always(rising(np.arcsinh, np.sinh)),
    "Atan": _always(rising(np.arctan, lambda y: np.tan(np.clip(y, -np.pi / 2, np.pi / 2)))),
    "Atanh": _always(rising(np.arctanh, np.tanh, low=-1, high=1)),
    "Ceil": _carrying(ROUNDED_UP),
    "Cosh": _always(even(np.cosh, lambda y: np.arccosh(np.maximum(y, 1)))),
    "Elu": through(
        lambda step: [
            rising(
                lambda x: np.where(
                    x < 0, step.number("alpha", 1.0) * np.expm1(np.minimum(x, 0)), x
                ),
                lambda y: np.where(
                    y < 0, np.log1p(np.maximum(y / step.number("alpha", 1.0), -1)), y
                ),
            )
        ]
    ),
    "Exp": _always(EXPONENTIAL),
    "Floor": _carrying(ROUNDED_DOWN),
    "LeakyRelu": through(
        lambda step: [
            rising(
                lambda x: np.where(x < 0, step.number("alpha", 0.01) * x, x),
                lambda y: np.where(y < 0, y / step.number("alpha", 0.01), y),
            )
        ]
    ),
    "Log": _always(LOGARITHM),
    "Neg": _carrying(NEGATED),
    "Reciprocal": _always(RECIPROCAL),
    "Relu": _always(RECTIFIED),
    "Round": _carrying(ROUNDED),
    "Sigmoid": _always(SIGMOID),
    "Sinh": _always(rising(np.sinh, np.arcsinh)),
    "Softplus": _always(
        rising(lambda x: np.logaddexp(0, x), lambda y: np.log(np.expm1(np.maximum(y, 0))))
    ),
    "Sqrt": _always(SQUARE_ROOT),
    "Tanh": _always(TANGENT),
}


# Reductions


def _summed(step: Step) -> Map:
    spec = step.inputs[0]
    assert spec is not None
    return scaled(max(spec.elements, 1) / max(math.prod(step.out_sizes()), 1))


def _reduced(*before: Map, add: bool = False, after: Sequence[Map] = ()) -> Rule:
    return through(lambda step: (*before, TOGETHER, *([_summed(step)] if add else ()), *after))


def _running(step: Step) -> Sequence[Map]:
    axis = step.known[1]
    sizes = step.sizes(0)
    steps = max(sizes) if axis is None else sizes[int(axis)]
    return TOGETHER, accumulated(max(steps, 1), bool(step.integer("exclusive", 0)))


_WITH_ZERO = Map(lambda now: join((now, Range.of(0, 0))), lambda wanted, now: wanted)
_UNKNOWN = Map(lambda now: EVERYTHING, lambda wanted, now: EVERYTHING)


def _averaged(step: Step) -> Sequence[Map]:
    return (TOGETHER, _WITH_ZERO) if step.integer("count_include_pad", 0) else (TOGETHER,)


def _resized(step: Step) -> Sequence[Map]:
    """Map of a Resize; results of cubic interpolation may exceed the range of the data."""
    return (_UNKNOWN,) if step.text("mode", "nearest") == "cubic" else (TOGETHER,)


_REDUCTIONS: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalMaxPool", "ReduceMax", "ReduceMean", "ReduceMin"),
        _reduced(),
    ),
    "AveragePool": through(_averaged),
    "Resize": through(_resized),
    "CumSum": through(_running),
    "ReduceL1": _reduced(ABSOLUTE, add=True),
    "ReduceL2": _reduced(SQUARE, add=True, after=[SQUARE_ROOT]),
    "ReduceLogSum": _reduced(add=True, after=[LOGARITHM]),
    "ReduceLogSumExp": _reduced(EXPONENTIAL, add=True, after=[LOGARITHM]),
    "ReduceSum": _reduced(add=True),
    "ReduceSumSquare": _reduced(SQUARE, add=True),
}  # fmt: skip


# Operators whose results lie within bounds, whatever they read


def _within(low: float, high: float) -> Rule:
    return Rule(lambda step: [Range.of(low, high)] * len(step.outputs))


def _along(step: Step, default: int) -> int:
    return step.sizes(0)[step.integer("axis", default)]


def _places(step: Step) -> Sequence[Range]:
    return [Range.of(0, _along(step, 0) - 1)]


def _top(step: Step) -> Sequence[Range]:
    values, places = step.ranges[0].hull(), Range.of(0, _along(step, -1) - 1)
    return [values, places][: len(step.outputs)]


def _top_asked(step: Step, wanted: Sequence[Range]) -> Mapping[int, Range]:
    return {0: wanted[0].core()}


def _pooled(step: Step) -> Sequence[Range]:
    sizes = math.prod(step.sizes(0))
    return [step.ranges[0].hull(), Range.of(0, sizes - 1)][: len(step.outputs)]


def _shares(step: Step) -> Sequence[Range]:
    """Range of the results of a Softmax."""
    spread = step.ranges[0].hull().width
    return [Range.of(np.exp(-spread) / max(_along(step, -1), 1), 1.0, smooth=True)]


def _counted(step: Step) -> Sequence[Range]:
    """Range from the first to the last number of a Range layer."""
    start, limit, _ = step.ranges
    return [join((start.hull(), limit.hull()))]


def _hot(step: Step) -> Sequence[Range]:
    return [step.ranges[2].hull()]


def _opposite(each: Range) -> Range:
    """Range of the opposite truth values."""
    return Range.of(1 - each.high, 1 - each.low)


_BOUNDED: Mapping[str, Rule] = {
    "ArgMax": Rule(_places),
    "ArgMin": Rule(_places),
    "Bernoulli": _within(0, 1),
    "Cos": _within(-1, 1),
    "Erf": _within(-1, 1),
    "EyeLike": _within(0, 1),
    "Hardmax": _within(0, 1),
    "HardSigmoid": _within(0, 1),
    "MaxPool": Rule(_pooled, _top_asked),
    "Not": Rule(
        lambda step: [_opposite(step.ranges[0])], lambda step, wanted: {0: _opposite(wanted[0])}
    ),
    "OneHot": Rule(_hot, lambda step, wanted: {2: wanted[0].core()}),
    "Range": Rule(_counted),
    "Sin": _within(-1, 1),
    "Softmax": Rule(_shares),
    "Softsign": _within(-1, 1),
    "TopK": Rule(_top, _top_asked),
}


# Powers


def _exponent(step: Step) -> float | None:
    value = step.known[1]
    if value is None or not value.size or (value != value.flat[0]).any():
        return None
    return float(value.flat[0])


def _powers(step: Step) -> Sequence[Range]:
    exponent = _exponent(step)
    if exponent is not None:
        return through(lambda step: power(exponent)).image(step)
    base, power_of = step.ranges
    base = Range.of(np.maximum(base.low, 0), np.maximum(base.high, 0))
    corners = [b**e for b in (base.low, base.high) for e in (power_of.low, power_of.high)]
    return [Range.of(reduce(np.minimum, corners), reduce(np.maximum, corners))]


def _powers_asked(step: Step, wanted: Sequence[Range]) -> Mapping[int, Range]:
    exponent = _exponent(step)
    if exponent is None:
        return {}
    return through(lambda step: power(exponent)).asked(step, wanted)


RULES: Mapping[str, Rule] = {
    **MOVING,
    **ARITHMETIC,
    **_FUNCTIONS,
    **_REDUCTIONS,
    **_BOUNDED,
    "Pow": Rule(_powers, _powers_asked),
}

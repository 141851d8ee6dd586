"""Functions of one element: each result depends on the element at the same position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    ANYTHING,
    BY_TYPE,
    DATA,
    OWN,
    Input,
    Lacks,
    Operator,
    PowerRule,
    argument,
    each_output,
    halved,
    kept,
    row,
    unit,
)
from dlbricks_core.operators.ranges.interval import (
    ABOVE_ONE,
    ABOVE_ZERO,
    COSINE,
    INSIDE_UNIT,
    NOT_NEGATIVE,
    NOT_ZERO,
    Range,
    RangeStep,
    Rule,
    within,
)
from dlbricks_core.operators.ranges.maps import (
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
    SQUARE_ROOT,
    TANGENT,
    Map,
    even,
    rising,
    through,
)


def _carrying(*maps: Map) -> Rule:
    return through(lambda step: maps, lambda step: True)


_ARC_COSINE = (
    NEGATED,
    rising(lambda x: np.arccos(-x), lambda y: -np.cos(np.clip(y, 0, np.pi)), low=-1, high=1),
)
_ARC_SINE = rising(np.arcsin, lambda y: np.sin(np.clip(y, -np.pi / 2, np.pi / 2)), low=-1, high=1)
_ARC_TANGENT = rising(np.arctan, lambda y: np.tan(np.clip(y, -np.pi / 2, np.pi / 2)))
_SOFTPLUS = rising(lambda x: np.logaddexp(0, x), lambda y: np.log(np.expm1(np.maximum(y, 0))))


def _exponential_below_zero(step: RangeStep) -> Sequence[Map]:
    alpha = step.number("alpha", 1.0)
    return [
        rising(
            lambda x: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
            lambda y: np.where(y < 0, np.log1p(np.maximum(y / alpha, -1)), y),
        )
    ]


def _flatter_below_zero(step: RangeStep) -> Sequence[Map]:
    alpha = step.number("alpha", 0.01)
    return [
        rising(lambda x: np.where(x < 0, alpha * x, x), lambda y: np.where(y < 0, y / alpha, y))
    ]


def _opposite(each: Range) -> Range:
    """Range of the opposite truth values."""
    return Range.of(1 - each.high, 1 - each.low)


_NEGATION = Rule(
    lambda step: [_opposite(step.ranges[0])], lambda step, wanted: {0: _opposite(wanted[0])}
)


def _square_root(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return math.sqrt(powers[0])


def _row(
    ranges: Rule | Map | Lacks,
    kind: str = "elementwise",
    power: PowerRule = kept,
    argument: Input = DATA,
    **facts: Any,
) -> Operator:
    """A function, whose result has the type of its argument."""
    rule = through(lambda step: (ranges,)) if isinstance(ranges, Map) else ranges
    return row(kind, each_output(1), argument, ranges=rule, power=power, shape=shapes.same, **facts)


def _slow(ranges: Rule | Map | Lacks, power: PowerRule = kept, **facts: Any) -> Operator:
    """A function that takes many instructions an element."""
    return _row(ranges, "function", power, **facts)


_TEST = row("elementwise", each_output(1), DATA, ranges=BY_TYPE)

ROWS: Mapping[str, Operator] = {
    "Abs": _row(ABSOLUTE),
    "Acos": _row(through(lambda step: _ARC_COSINE), argument=argument(COSINE, 0.1, 0.9)),
    "Acosh": _row(
        rising(np.arccosh, lambda y: np.cosh(np.maximum(y, 0)), low=1),
        argument=argument(ABOVE_ONE, 1.1, 1.9),
    ),
    "Asin": _row(_ARC_SINE, argument=argument(COSINE, 0.1, 0.9)),
    "Asinh": _row(rising(np.arcsinh, np.sinh)),
    "Atan": _row(_ARC_TANGENT),
    "Atanh": _row(
        rising(np.arctanh, np.tanh, low=-1, high=1), argument=argument(INSIDE_UNIT, 0.1, 0.9)
    ),
    "BitwiseNot": _row(BY_TYPE),
    "Ceil": _row(_carrying(ROUNDED_UP), "elementwise:round"),
    "Celu": _slow(ANYTHING),
    "Cos": _slow(within(-1, 1), unit),
    "Cosh": _row(even(np.cosh, lambda y: np.arccosh(np.maximum(y, 1)))),
    "Elu": _slow(through(_exponential_below_zero), halved),
    "Erf": _slow(within(-1, 1), unit, saturates=True),
    "Exp": _slow(EXPONENTIAL),
    "Floor": _row(_carrying(ROUNDED_DOWN), "elementwise:round"),
    "Gelu": _slow(ANYTHING, halved),
    "HardSigmoid": _row(within(0, 1), power=unit, saturates=True),
    "HardSwish": _slow(ANYTHING, halved),
    "IsInf": _TEST,
    "IsNaN": _TEST,
    "LeakyRelu": _row(through(_flatter_below_zero)),
    "Log": _slow(LOGARITHM, argument=argument(ABOVE_ZERO, 0.5, 1.5)),
    "Mish": _slow(ANYTHING, halved),
    "Neg": _row(_carrying(NEGATED)),
    "Not": _row(_NEGATION),
    "Reciprocal": _row(RECIPROCAL, argument=argument(NOT_ZERO, 0.5, 1.5)),
    "Relu": _row(RECTIFIED, power=halved),
    "Round": _row(_carrying(ROUNDED), "elementwise:round"),
    "Selu": _slow(ANYTHING, halved),
    "Shrink": _row(ANYTHING),
    "Sigmoid": _slow(SIGMOID, unit, saturates=True),
    "Sign": _row(ANYTHING),
    "Sin": _slow(within(-1, 1), unit),
    "Sinh": _row(rising(np.sinh, np.arcsinh)),
    "Softplus": _slow(_SOFTPLUS),
    "Softsign": _row(within(-1, 1), saturates=True),
    "Sqrt": _row(SQUARE_ROOT, power=_square_root, argument=argument(NOT_NEGATIVE, 0.5, 1.5)),
    "Swish": _slow(ANYTHING, halved),
    "Tan": _row(ANYTHING),
    "Tanh": _slow(TANGENT, unit, saturates=True),
    "ThresholdedRelu": _row(ANYTHING),
    "com.microsoft.BiasGelu": row(OWN, each_output(2), DATA, DATA, power=halved),
    "com.microsoft.FastGelu": row(OWN, each_output(1, bias=1), DATA, DATA, power=halved),
    "com.microsoft.Gelu": _slow(ANYTHING, halved),
    "com.microsoft.QuickGelu": row(OWN, each_output(1), DATA, power=halved),
}

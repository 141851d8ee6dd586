"""Functions of elements: of one at a time, and of many that become one or that share a sum."""

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
    PARAMETER,
    RARE,
    SCALE,
    FlopsRule,
    Input,
    Lacks,
    Operator,
    PowerRule,
    Specs,
    argument,
    attribute_of,
    each_input,
    each_output,
    halved,
    kept,
    row,
    size,
    sizes,
    unit,
)
from dlbricks_core.operators.ranges.interval import (
    ABOVE_ONE,
    ABOVE_ZERO,
    COSINE,
    EVERYTHING,
    INSIDE_UNIT,
    NOT_NEGATIVE,
    NOT_ZERO,
    Range,
    RangeStep,
    Rule,
    join,
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
    SQUARE,
    SQUARE_ROOT,
    TANGENT,
    TOGETHER,
    Map,
    accumulated,
    even,
    rising,
    scaled,
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

ELEMENT_ROWS: Mapping[str, Operator] = {
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
}


# Reductions: ranges of results


def _summed(step: RangeStep) -> Map:
    spec = step.inputs[0]
    assert spec is not None
    return scaled(max(spec.elements, 1) / max(math.prod(step.out_sizes()), 1))


def _reduced(*before: Map, add: bool = False, after: Sequence[Map] = ()) -> Rule:
    return through(lambda step: (*before, TOGETHER, *([_summed(step)] if add else ()), *after))


def _running(step: RangeStep) -> Sequence[Map]:
    axis = step.known[1]
    shape = step.sizes(0)
    steps = max(shape) if axis is None else shape[int(axis)]
    return TOGETHER, accumulated(max(steps, 1), bool(step.integer("exclusive", 0)))


_WITH_ZERO = Map(lambda now: join((now, Range.of(0, 0))), lambda wanted, now: wanted)
_UNKNOWN = Map(lambda now: EVERYTHING, lambda wanted, now: EVERYTHING)


def _averaged(step: RangeStep) -> Sequence[Map]:
    return (TOGETHER, _WITH_ZERO) if step.integer("count_include_pad", 0) else (TOGETHER,)


def _resized(step: RangeStep) -> Sequence[Map]:
    """Map of a Resize; results of cubic interpolation may exceed the range of the data."""
    return (_UNKNOWN,) if step.text("mode", "nearest") == "cubic" else (TOGETHER,)


def _along(step: RangeStep, default: int) -> int:
    return step.sizes(0)[step.integer("axis", default)]


def _places(step: RangeStep) -> Sequence[Range]:
    return [Range.of(0, _along(step, 0) - 1)]


def _top(step: RangeStep) -> Sequence[Range]:
    values, places = step.ranges[0].hull(), Range.of(0, _along(step, -1) - 1)
    return [values, places][: len(step.outputs)]


def _top_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    return {0: wanted[0].core()}


def _pooled(step: RangeStep) -> Sequence[Range]:
    most = math.prod(step.sizes(0)) - 1
    return [step.ranges[0].hull(), Range.of(0, most)][: len(step.outputs)]


def _shares(step: RangeStep) -> Sequence[Range]:
    """Range of the results of a Softmax."""
    spread = step.ranges[0].hull().width
    return [Range.of(np.exp(-spread) / max(_along(step, -1), 1), 1.0, smooth=True)]


# Reductions: operations


def window(operations: int) -> FlopsRule:
    """Rule with so many operations for each element under a pooling window."""

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        window: int = math.prod(attribute_of(layer, "kernel_shape"))
        return operations * size(outputs) * window

    return rule


def _interpolated(layer: Layer, axes: int, outputs: Specs) -> int:
    """One multiply-add for each input element that an output element depends on; 0 for nearest."""
    mode = attribute_of(layer, "mode")
    if mode == "nearest":
        return 0
    taps: int = {"linear": 2, "cubic": 4}[mode] ** axes
    return 2 * taps * size(outputs)


def _resize(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    pairs = zip(sizes(inputs, 0), sizes(outputs, 0), strict=True)
    return _interpolated(layer, sum(before != after for before, after in pairs), outputs)


def _sampled(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return _interpolated(layer, len(sizes(inputs, 0)) - 2, outputs)


def _regions(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Each output element joins samples, each of which four elements are interpolated for.

    Without a fixed ratio the number of samples follows from the sizes of regions, which are values.
    """
    samples: int = attribute_of(layer, "sampling_ratio") ** 2
    if not samples:
        raise ValueError("the number of samples depends on values")
    return size(outputs) * samples * (2 * 4 + 1)


def _compared(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Comparisons that find each element's place among the best so far, by bisection."""
    best: int = sizes(outputs, 0)[attribute_of(layer, "axis")]
    return size(inputs) * best.bit_length()


def _spread_out(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    """Power of the results of a Softmax."""
    axis = layer.attributes.get("axis", -1)
    assert isinstance(axis, int)
    return 3 / max(model.tensors[layer.inputs[0]].sizes[axis], 1) ** 2


# Reductions: rows of the table


def _reduction(
    kind: str, ranges: Rule | Lacks, operations: int = 1, data: Input = DATA
) -> Operator:
    return row(
        f"reduce:{kind}", each_input(operations), data, PARAMETER, ranges=ranges, access="reduced"
    )


def _whole_map(ranges: Rule) -> Operator:
    return row("reduce:map", each_input(1), DATA, ranges=ranges, shape=shapes.global_pooling)


def _pool(kind: str, operations: int, data: Input, ranges: Rule | Lacks) -> Operator:
    return row(f"pool:{kind}", window(operations), data, ranges=ranges, shape=shapes.pooling)


def _softmax(kind: str | Lacks, flops: FlopsRule, ranges: Rule | Lacks, **facts: Any) -> Operator:
    return row(kind, flops, DATA, ranges=ranges, saturates=True, shape=shapes.same, **facts)


_PLACES = row(
    "reduce:places", each_input(1), DATA, ranges=Rule(_places), access="reduced", saturates=True
)
_REPLACED = Lacks("its canonical form is Resize")
_REGION = Input(below=lambda layer, inputs, outputs: sizes(inputs, 0)[0])

REDUCTION_ROWS: Mapping[str, Operator] = {
    "ReduceL1": _reduction("others", _reduced(ABSOLUTE, add=True), 2),
    "ReduceL2": _reduction("squares", _reduced(SQUARE, add=True, after=[SQUARE_ROOT]), 2),
    "ReduceLogSum": _reduction(
        "others", _reduced(add=True, after=[LOGARITHM]), data=argument(ABOVE_ZERO, 0.5, 1.5)
    ),
    "ReduceLogSumExp": _reduction("others", _reduced(EXPONENTIAL, add=True, after=[LOGARITHM]), 2),
    "ReduceMax": _reduction("most", _reduced()),
    "ReduceMean": _reduction("sum", _reduced()),
    "ReduceMin": _reduction("most", _reduced()),
    "ReduceProd": _reduction("others", ANYTHING),
    "ReduceSum": _reduction("sum", _reduced(add=True)),
    "ReduceSumSquare": _reduction("squares", _reduced(SQUARE, add=True), 2),
    "ArgMax": _PLACES,
    "ArgMin": _PLACES,
    "CumProd": row(RARE, each_input(1), DATA, PARAMETER),
    "CumSum": row("reduce:cumulated", each_input(1), DATA, PARAMETER, ranges=through(_running)),
    "TopK": row(RARE, _compared, DATA, PARAMETER, ranges=Rule(_top, _top_asked), branches=True),
    "Hardmax": _softmax(RARE, each_input(1), within(0, 1)),
    # Maximum, difference to it, exponential, sum, division.
    "LogSoftmax": _softmax("softmax", each_output(5), ANYTHING, access="along"),
    "Softmax": _softmax(
        "softmax", each_output(5), Rule(_shares), access="along", power=_spread_out
    ),
    "AveragePool": _pool("mean", 1, DATA, through(_averaged)),
    "LpPool": _pool("powers", 2, DATA, ANYTHING),
    "MaxPool": _pool("max", 1, Input(rectified=True), Rule(_pooled, _top_asked)),
    "GlobalAveragePool": _whole_map(_reduced()),
    "GlobalLpPool": row("reduce:powers", each_input(2), DATA),
    "GlobalMaxPool": _whole_map(_reduced()),
    "MaxRoiPool": row(RARE, Lacks("sizes of its regions are values"), DATA, DATA),
    "GridSample": row(RARE, _sampled, DATA, DATA, costly=True),
    "Resize": row("resize", _resize, DATA, PARAMETER, PARAMETER, PARAMETER,
                  ranges=through(_resized), looks_up=True),
    "RoiAlign": row(RARE, _regions, DATA, DATA, _REGION, costly=True),
    "Upsample": row(_REPLACED, _REPLACED, DATA, PARAMETER, ranges=_REPLACED),
}  # fmt: skip


# Operators that make codes of floats and floats of codes.

_COARSE = Input(zero_point=True, coarse=True)

QUANTIZED_ROWS: Mapping[str, Operator] = {
    "DequantizeLinear": row("codes:read", each_output(2), DATA, SCALE, _COARSE, folded=False),
    # Least and greatest element, and each element scaled and shifted.
    "DynamicQuantizeLinear": row("codes:ranged", each_output(4), DATA),
    "QuantizeLinear": row("codes:written", each_output(2), DATA, SCALE, _COARSE),
}

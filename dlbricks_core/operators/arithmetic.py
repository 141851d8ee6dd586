"""Sums, products, extremes and comparisons: operators with several operands, spread over a result.

One operand alone changes its range if that is enough. Otherwise all operands change theirs, in
proportion to their widths, so that a subtrahend stays below its minuend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import compress

import numpy as np

from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    ANYTHING,
    BY_TYPE,
    DATA,
    NEAR_ONE,
    PARAMETER,
    FlopsRule,
    Input,
    Lacks,
    Operator,
    PowerRule,
    Specs,
    always,
    argument,
    each_output,
    kept,
    row,
    size,
)
from dlbricks_core.operators.ranges.interval import (
    NEGATIVE,
    NOT_ZERO,
    POSITIVE,
    Range,
    RangeStep,
    Rule,
    base_of_power,
    loosened,
)
from dlbricks_core.operators.ranges.maps import NEGATED, RECIPROCAL, SQUARE, power, through

_NEAR_ZERO = 1e-6
"""Minimum distance from zero of a divisor that is chosen."""


def _only_operand(step: RangeStep) -> int | None:
    """The only operand that can be narrowed, before the ranges of weights."""
    for candidates in step.fed, step.free:
        if sum(candidates) == 1:
            return candidates.index(True)
        if any(candidates):
            return None
    return None


def _carries(step: RangeStep) -> bool:
    return _only_operand(step) is not None


# Sums


def _total(terms: Sequence[Range]) -> Range:
    return Range.of(
        sum(term.low for term in terms),
        sum(term.high for term in terms),
        any(term.smooth for term in terms),
    )


def _raised(terms: Sequence[Range], movable: Sequence[bool], target: Array) -> list[Array]:
    """Least values of the movable terms that add up to no less than the target."""
    shape = np.broadcast_shapes(target.shape, *(term.low.shape for term in terms))
    lows = np.stack([np.broadcast_to(term.low, shape) for term in terms])
    widths = np.stack([np.broadcast_to(term.width, shape) for term in terms])
    moves = np.reshape(movable, (-1, *(1 for _ in shape)))
    unbounded = np.isneginf(lows)
    missing = target - np.where(unbounded, 0, lows).sum(0)
    opened = unbounded & moves
    # Operands without a bound get a bound from the other operands.
    equal = np.where(opened, missing / np.maximum(opened.sum(0), 1), -np.inf)
    reach = np.where(moves, np.where(np.isinf(widths).any(0), np.isinf(widths), widths), 0)
    reach = np.where(reach.sum(0) > 0, reach, moves)
    shared = np.where(missing > 0, lows + missing * reach / reach.sum(0), -np.inf)
    found = np.where(unbounded.any(0), equal, shared)
    hopeless = (unbounded & ~moves).any(0) & (target > -np.inf)
    return list(np.where(hopeless, np.inf, found))


def _shares(terms: Sequence[Range], movable: Sequence[bool], wanted: Range) -> dict[int, Range]:
    lows = _raised(terms, movable, wanted.low)
    highs = _raised([NEGATED.image(term) for term in terms], movable, -wanted.high)
    return {
        position: Range.of(lows[position], -highs[position])
        for position in compress(range(len(terms)), movable)
    }


def _rest(terms: Sequence[Range], position: int, wanted: Range) -> Range:
    """Range that one term must have if the others stay as they are."""
    others = _total([term for at, term in enumerate(terms) if at != position])
    return Range.of(
        np.where(np.isneginf(wanted.low), -np.inf, wanted.low - others.low),
        np.where(np.isposinf(wanted.high), np.inf, wanted.high - others.high),
    )


def _possible(terms: Sequence[Range], asked: Mapping[int, Range]) -> bool:
    return not any(terms[at].meet(each).empty for at, each in asked.items())


def _terms_asked(step: RangeStep, terms: Sequence[Range], wanted: Range) -> dict[int, Range]:
    alone = _only_operand(step)
    if alone is not None:
        asked = {alone: _rest(terms, alone, wanted)}
        if _possible(terms, asked) or sum(step.free) == 1:
            return asked
    asked = _shares(terms, step.fed, wanted) if any(step.fed) else {}
    return asked if asked and _possible(terms, asked) else _shares(terms, step.free, wanted)


def _sum_of(signs: Callable[[int], float], mean: bool = False) -> Rule:
    """Terms that are added, each with its sign."""

    def signed(step: RangeStep) -> list[Range]:
        return [
            each if signs(position) > 0 else NEGATED.image(each)
            for position, each in enumerate(step.ranges)
        ]

    def image(step: RangeStep) -> Sequence[Range]:
        total, count = _total(signed(step)), len(step.ranges) if mean else 1
        smooth = total.smooth and len({*step.layer.inputs}) == len(step.ranges)
        result = Range.of(total.low / count, total.high / count, smooth)
        return [loosened(result, step.dtype) if len(step.ranges) > 2 or mean else result]

    def asked(step: RangeStep, wanted: Sequence[Range]) -> dict[int, Range]:
        count = len(step.ranges) if mean else 1
        scaled = Range.of(wanted[0].low * count, wanted[0].high * count)
        return {
            position: each if signs(position) > 0 else NEGATED.image(each)
            for position, each in _terms_asked(step, signed(step), scaled).items()
        }

    return Rule(image, asked, _carries)


# Products


def _times(one: Range, other: Range) -> Range:
    corners = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    # Zero times infinity is zero: what is not bounded is finite.
    corners = [np.where(np.isnan(corner), 0, corner) for corner in corners]
    smooth = (one.smooth and other.nonzero) or (other.smooth and one.nonzero)
    return Range.of(reduce(np.minimum, corners), reduce(np.maximum, corners), smooth)


def _factor(wanted: Range, other: Range) -> Range:
    """Numbers whose product with every number in the other range is in the requested range."""

    def end(at: Array) -> Range:
        low, high = wanted.low / at, wanted.high / at
        zero = (wanted.low <= 0) & (wanted.high >= 0)
        return Range.of(
            np.where(at == 0, np.where(zero, -np.inf, np.inf), np.where(at < 0, high, low)),
            np.where(at == 0, np.where(zero, np.inf, -np.inf), np.where(at < 0, low, high)),
        )

    return end(other.low).meet(end(other.high))


def _both(factors: Sequence[Range], wanted: Range) -> list[Range]:
    """Two factors that both give way."""
    if (wanted.low > 0).all():
        return [Range.of(np.sqrt(wanted.low), np.sqrt(wanted.high))] * 2
    if (wanted.high < 0).all():
        first = Range.of(np.sqrt(-wanted.high), np.sqrt(-wanted.low))
        return [first, NEGATED.image(first)]
    positive = bool((wanted.low == 0).all())
    side = wanted.high if positive else np.minimum(-wanted.low, wanted.high)
    ends = [np.maximum(np.abs(each.low), np.abs(each.high)) for each in factors]
    shrunk = np.sqrt(side / np.maximum(ends[0] * ends[1], side))
    return [Range.of(0 if positive else -end * shrunk, end * shrunk) for end in ends]


def _factors_asked(step: RangeStep, factors: Sequence[Range], wanted: Range) -> dict[int, Range]:
    alone = _only_operand(step)
    order = [alone] if alone is not None else list(compress((0, 1), step.free))
    for position in order:
        asked = {position: _factor(wanted, factors[1 - position])}
        if _possible(factors, asked) or sum(step.free) == 1:
            return asked
    return dict(enumerate(_both(factors, wanted)))


def _product_image(step: RangeStep) -> Sequence[Range]:
    one, other = step.ranges
    same = step.layer.inputs[0] == step.layer.inputs[1]
    return [SQUARE.image(one) if same else _times(one, other)]


def _product_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    if step.layer.inputs[0] == step.layer.inputs[1]:
        return {0: SQUARE.source(wanted[0], step.ranges[0])}
    return _factors_asked(step, step.ranges, wanted[0])


def _quotient_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    divisor = step.ranges[1]
    if not ((divisor.low > _NEAR_ZERO) | (divisor.high < -_NEAR_ZERO)).all():
        side = NEGATIVE if divisor.negative.all() else POSITIVE
        divisor = side if divisor.meet(side).empty else divisor.meet(side)
    asked = _factors_asked(step, (step.ranges[0], RECIPROCAL.image(divisor)), wanted[0])
    if 1 in asked:
        asked[1] = RECIPROCAL.source(asked[1], divisor).meet(divisor)
    return asked


# Shifts of bits


def _power_of_two(step: RangeStep) -> Range:
    left = step.text("direction", "LEFT") == "LEFT"
    bits = step.ranges[1] if left else NEGATED.image(step.ranges[1])
    return Range.of(np.exp2(bits.low), np.exp2(bits.high))


def _shift_image(step: RangeStep) -> Sequence[Range]:
    return [_times(step.ranges[0], _power_of_two(step))]


def _shift_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    return {0: _factor(wanted[0], _power_of_two(step))} if step.free[0] else {}


# Remainders


def _remainder_image(step: RangeStep) -> Sequence[Range]:
    one, other = step.ranges
    if ((one.low >= 0) & (other.low > one.high)).all():
        return [one]
    whole = all(spec is not None and spec.dtype.startswith(("int", "uint")) for spec in step.inputs)
    most: Array = np.maximum(np.abs(other.low), np.abs(other.high)) - whole
    signs = one if step.integer("fmod", 0) else other
    return [Range.of(np.where(signs.low < 0, -most, 0), np.where(signs.high > 0, most, 0))]


def _remainder_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    """Numbers below the divisor, which remain as they are."""
    most: Array = step.ranges[1].low
    below = Range.of(0, np.where(most >= 1, most - 1, np.nextafter(most, 0)))
    return {0: wanted[0].meet(below)} if step.free[0] else {}


# Extremes


def _greatest(ranges: Sequence[Range]) -> Range:
    return Range.of(
        reduce(np.maximum, [each.low for each in ranges]),
        reduce(np.maximum, [each.high for each in ranges]),
        len(ranges) == 1 and ranges[0].smooth,
    )


def _greatest_asked(step: RangeStep, ranges: Sequence[Range], wanted: Range) -> dict[int, Range]:
    """All are at most the requested number; at least one reaches it."""
    reached = reduce(np.maximum, [each.low for each in ranges]) >= wanted.low
    asked = {at: Range.of(-np.inf, wanted.high) for at in compress(range(len(ranges)), step.free)}
    for at in asked:
        asked[at] = Range.of(np.where(reached, -np.inf, wanted.low), wanted.high)
        break
    return asked


_MAX = Rule(
    lambda step: [_greatest(step.ranges)],
    lambda step, wanted: _greatest_asked(step, step.ranges, wanted[0]),
)


def _min_image(step: RangeStep) -> Sequence[Range]:
    return [NEGATED.image(_greatest([NEGATED.image(each) for each in step.ranges]))]


def _min_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    negated = [NEGATED.image(each) for each in step.ranges]
    asked = _greatest_asked(step, negated, NEGATED.image(wanted[0]))
    return {at: NEGATED.image(each) for at, each in asked.items()}


def _bounds(step: RangeStep) -> tuple[Range, Range]:
    """Ranges of the bounds of a Clip; infinite for a bound that is left out."""
    given = [
        step.ranges[at] if at < len(step.ranges) and step.inputs[at] is not None else None
        for at in (1, 2)
    ]
    return given[0] or Range.of(-np.inf, -np.inf), given[1] or Range.of(np.inf, np.inf)


def _clip_image(step: RangeStep) -> Sequence[Range]:
    low, high = _bounds(step)
    return [
        Range.of(
            np.minimum(np.maximum(step.ranges[0].low, low.low), high.low),
            np.minimum(np.maximum(step.ranges[0].high, low.high), high.high),
        )
    ]


def _clip_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    low, high = _bounds(step)
    return {
        0: Range.of(
            np.where(low.low >= wanted[0].low, -np.inf, wanted[0].low),
            np.where(high.high <= wanted[0].high, np.inf, wanted[0].high),
        )
    }


# Comparisons


def _compared(
    certain: Callable[[Range, Range], bool], never: Callable[[Range, Range], bool]
) -> Rule:
    def image(step: RangeStep) -> Sequence[Range]:
        one, other = (each.hull() for each in step.ranges)
        return [Range.of(int(certain(one, other)), int(not never(one, other)))]

    return Rule(image)


def _below(one: Range, other: Range) -> bool:
    return bool(one.high < other.low)


def _at_most(one: Range, other: Range) -> bool:
    return bool(one.high <= other.low)


# Powers


def _exponent(step: RangeStep) -> float | None:
    value = step.known[1]
    if value is None or not value.size or (value != value.flat[0]).any():
        return None
    return float(value.flat[0])


def _powers(step: RangeStep) -> Sequence[Range]:
    exponent = _exponent(step)
    if exponent is not None:
        return through(lambda step: power(exponent)).image(step)
    base, power_of = step.ranges
    base = Range.of(np.maximum(base.low, 0), np.maximum(base.high, 0))
    corners = [b**e for b in (base.low, base.high) for e in (power_of.low, power_of.high)]
    return [Range.of(reduce(np.minimum, corners), reduce(np.maximum, corners))]


def _powers_asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    exponent = _exponent(step)
    if exponent is None:
        return {}
    return through(lambda step: power(exponent)).asked(step, wanted)


# Rows of the table


def _joined(last: int) -> FlopsRule:
    """Rule with an operation for each input but the first, and ``last`` more, an output element."""
    return lambda layer, inputs, outputs: (len(inputs) - 1 + last) * size(outputs)


def _bounded(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A comparison with each bound of a Clip that is there."""
    return sum(spec is not None for spec in inputs[1:]) * size(outputs)


def _bits(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    spec = inputs[0]
    return 8 if spec is None else spec.nbytes * 8 // max(spec.elements, 1)


def _sum(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return sum(powers)


def _row(
    ranges: Rule | Lacks, kind: str = "elementwise", *inputs: Input, access: str = "spread"
) -> Operator:
    """An operator of two operands."""
    return row(kind, each_output(1), *(inputs or (DATA, DATA)), ranges=ranges, access=access)


def _number_row(
    ranges: Rule, kind: str, *inputs: Input, power: PowerRule = kept, flops: FlopsRule | None = None
) -> Operator:
    """An operator whose result has the type of its operands; of any number of them with a rule."""
    return row(
        f"elementwise:{kind}", flops or each_output(1), *(inputs or (DATA, DATA)), ranges=ranges,
        power=power, repeated=1 if flops else 0, access="spread", shape=shapes.elementwise,
    )  # fmt: skip


_DIVISOR = argument(NOT_ZERO, 0.5, 1.5)

_LESS = "elementwise:less"

ROWS: Mapping[str, Operator] = {
    "Add": _number_row(_sum_of(lambda position: 1), "add", power=_sum),
    "Sub": _number_row(_sum_of(lambda position: -1 if position else 1), "mul", power=_sum),
    "Sum": _number_row(_sum_of(lambda position: 1), "add", DATA, power=_sum, flops=_joined(0)),
    "Mean": _number_row(_sum_of(lambda position: 1, mean=True), "mul", DATA, flops=_joined(1)),
    "Mul": _number_row(Rule(_product_image, _product_asked, _carries), "mul", NEAR_ONE, NEAR_ONE,
                       power=lambda layer, powers, model: math.prod(powers)),
    "Div": _number_row(
        Rule(lambda step: [_times(step.ranges[0], RECIPROCAL.image(step.ranges[1]))],
             _quotient_asked, _carries),
        "mul", DATA, _DIVISOR, power=lambda layer, powers, model: powers[0] / powers[1],
    ),
    "Max": _number_row(_MAX, "max", DATA, flops=_joined(0)),
    "Min": _number_row(Rule(_min_image, _min_asked), "max", DATA, flops=_joined(0)),
    "Mod": _row(Rule(_remainder_image, _remainder_asked), "function", DATA, _DIVISOR),
    "Pow": _row(Rule(_powers, _powers_asked), "function", argument(base_of_power, 0.5, 1.5),
                PARAMETER),
    "PRelu": replace(_row(ANYTHING, "elementwise", DATA, Input(drawn=always(0.1, 0.3))),
                     branches=True),
    "Clip": row("elementwise", _bounded, DATA, PARAMETER, PARAMETER,
                ranges=Rule(_clip_image, _clip_asked), shape=shapes.same),
    "Less": _row(_compared(_below, lambda one, other: _at_most(other, one)), _LESS),
    "LessOrEqual": _row(_compared(_at_most, lambda one, other: _below(other, one)), _LESS),
    "Greater": _row(_compared(lambda one, other: _below(other, one), _at_most), _LESS),
    "GreaterOrEqual": _row(_compared(lambda one, other: _at_most(other, one), _below), _LESS),
    "Equal": _row(
        _compared(
            lambda one, other: False, lambda one, other: _below(one, other) or _below(other, one)
        ),
        _LESS,
    ),
    **dict.fromkeys(("And", "Or", "Xor"), _row(BY_TYPE, "elementwise:and")),
    "BitShift": _row(Rule(_shift_image, _shift_asked), "elementwise", DATA, Input(below=_bits),
                     access=""),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _row(BY_TYPE, access="")),
}  # fmt: skip

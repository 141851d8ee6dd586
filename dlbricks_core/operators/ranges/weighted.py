"""Rules for weighted sums: products of matrices, convolutions, and Einstein sums of two operands.

A sum is positive without doubt only if its products are. Where a logarithm or a root needs that,
weights are drawn close to each other and with one sign, so that the sum is a mean of the inputs,
and keeps their magnitude through many layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters

import numpy as np

from dlbricks_core.operators.ranges.interval import EVERYTHING, Range, RangeStep, Rule, loosened
from dlbricks_core.operators.ranges.maps import NEGATED

# Einstein sums as matrix products.


@dataclass(frozen=True)
class Product:
    """A batched product of matrices, (rows, depth) times (depth, columns).

    Attributes:
        batch: Number of products.
        rows: Rows of each result.
        columns: Columns of each result.
        depth: Length of the axis that is summed over.
    """

    batch: int
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        """Two operations for each multiply-add."""
        return 2 * self.batch * self.rows * self.columns * self.depth


def products_of(equation: str, shapes: Sequence[tuple[int, ...]]) -> list[Product]:
    """Products of an Einstein sum that takes its operands from left to right, as frameworks do.

    Args:
        equation: Equation of the operator ``Einsum``, without spaces.
        shapes: Shape of each operand.

    Returns:
        A product for each operand but the first.

    Raises:
        ValueError: If the equation does not fit the shapes.
    """
    terms, result = spelled_out(equation, [len(shape) for shape in shapes])
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, length in zip(term, shape, strict=True):
            sizes[label] = max(length, sizes.get(label, 1))

    def size(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    found = []
    # Labels of a single operand that the result lacks are summed over before any product.
    left = set(terms[0]).intersection("".join([*terms[1:], result]))
    for i, term in enumerate(terms[1:], 1):
        needed = set(result).union(*terms[i + 1 :])
        right = set(term) & (left | needed)
        shared = left & right
        found.append(
            Product(
                size(shared & needed),
                size(left - right),
                size(right - left),
                size(shared - needed),
            )
        )
        left = (left | right) & needed
    return found


def spelled_out(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Labels of each operand and of the result, with labels in place of each ellipsis.

    Args:
        equation: Equation of the operator ``Einsum``, without spaces.
        ranks: Number of axes of each operand.

    Raises:
        ValueError: If the numbers of operands differ.
    """
    given, arrow, result = equation.partition("->")
    terms = given.split(",")
    hidden = [rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "." in term]
    most = max(hidden, default=0)
    free = "".join(label for label in ascii_letters if label not in equation)[:most]
    spelled = [
        term.replace("...", free[most - (rank - len(term) + 3) :]) if "." in term else term
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if not arrow:
        letters = given.replace(",", "").replace(".", "")
        result = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return spelled, result.replace("...", free)


_EVEN, _UNEVEN = 0.9, 1.1
"""Weights of a mean, as multiples of the mean weight."""


@dataclass(frozen=True)
class Sum:
    """Number of products that an element of a result is the sum of.

    Attributes:
        least: Minimum number; the rest is padding.
        most: Maximum number.
        gain: Factor of the sum.
        bias_gain: Factor of the bias.
    """

    least: int
    most: int
    gain: float = 1.0
    bias_gain: float = 1.0


SumOf = Callable[[RangeStep], Sum | None]
"""Sum of an operator; ``None`` where nothing is known."""


def weighted(sum_of: SumOf, bias: int | None = None) -> Rule:
    """Rule of an operator that adds products of its first two inputs.

    Args:
        sum_of: Number of products.
        bias: Position of an input that is added.
    """

    def image(step: RangeStep) -> Sequence[Range]:
        terms = sum_of(step)
        if terms is None:
            return [EVERYTHING]
        one, other = (step.ranges[at].hull() for at in (0, 1))
        ends = _corners(one, other)
        low, high = min(ends), max(ends)
        smooth = (one.smooth or other.smooth) and terms.least > 0
        total = Range.of(
            min(low * terms.least, low * terms.most),
            max(high * terms.least, high * terms.most),
            smooth,
        )
        if low < 0 < high:  # what nearly cancels has the error of the whole
            most = terms.most * max(-low, high)
            slack = loosened(Range.of(most, most), step.dtype).high - most
            total = Range.of(total.low - slack, total.high + slack, smooth)
        added = _bias(step, bias, terms)
        return [loosened(_plus(_times(total, terms.gain), added), step.dtype)]

    def asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
        terms, goal = sum_of(step), wanted[0].core()
        if terms is None or not terms.least or not terms.gain or goal.empty:
            return {}
        found: dict[int, Range] = {}
        if bias is not None and bias < len(step.free) and step.free[bias]:
            found[bias] = _share_of_bias(goal, step.ranges[bias].hull(), terms.bias_gain)
            added = _times(found[bias], terms.bias_gain)
        else:
            added = _bias(step, bias, terms)
        rest = _times(_minus(goal, added), 1 / terms.gain)
        return found if rest.empty else found | _factors(step, rest, terms)

    return Rule(image, asked)


def _factors(step: RangeStep, goal: Range, terms: Sum) -> dict[int, Range]:
    """Ranges of the two factors with which sums of their products lie in a range."""
    ranges = [step.ranges[at].hull() for at in (0, 1)]
    movable = [at for at in (0, 1) if step.free[at]]
    if goal.high <= 0:  # the negative of a sum of positive products
        at = next(iter(reversed(movable)), 1)
        ranges[at] = NEGATED.image(ranges[at])
        found = _positive(step, ranges, movable, NEGATED.image(goal), terms)
        return {k: NEGATED.image(each) if k == at else each for k, each in found.items()}
    if goal.low >= 0:
        return _positive(step, ranges, movable, goal, terms)
    return _near_zero(ranges, movable, goal, terms)


def _positive(
    step: RangeStep, ranges: Sequence[Range], movable: Sequence[int], goal: Range, terms: Sum
) -> dict[int, Range]:
    """Ranges whose products all have the sign of a goal that is not negative."""
    low, high = float(goal.low), float(goal.high)
    if len(movable) == 1:
        (at,) = movable
        other = ranges[1 - at]
        if other.high <= 0:
            return {at: NEGATED.image(_divided(low, high, NEGATED.image(other), terms))}
        return (
            {at: _divided(low, high, other, terms)}
            if other.low > 0 or not low
            else {at: Range.of(0, np.inf)}
        )
    if step.fed[0] == step.fed[1]:
        most = math.sqrt(high / terms.most)
        return dict.fromkeys((0, 1), Range.of(math.sqrt(low / terms.least), most))
    weight = 1 if step.fed[0] else 0
    mean = 1 / terms.most
    share = terms.least / terms.most
    return {
        weight: Range.of(_EVEN * mean, _UNEVEN * mean),
        1 - weight: Range.of(low / (_EVEN * share), high / _UNEVEN),
    }


def _divided(low: float, high: float, other: Range, terms: Sum) -> Range:
    """Numbers whose products with positive ones add up to a sum from ``low`` to ``high``."""
    least, most = float(other.low) * terms.least, float(other.high) * terms.most
    return Range.of(low / least if low else 0.0, high / most if most else np.inf)


def _near_zero(
    ranges: Sequence[Range], movable: Sequence[int], goal: Range, terms: Sum
) -> dict[int, Range]:
    """Ranges whose products are so small that their sums lie around zero as is wanted."""
    side = min(-float(goal.low), float(goal.high)) / terms.most
    if math.isinf(side):
        return {}
    ends = [max(abs(float(each.low)), abs(float(each.high))) for each in ranges]
    at = next((at for at in reversed(movable) if math.isfinite(ends[1 - at])), None)
    if at is not None:
        most = side / ends[1 - at] if ends[1 - at] else np.inf
        return {at: Range.of(-most, most)}
    return dict(zip(movable, (Range.of(-1, 1), Range.of(-side, side)), strict=False))


def _share_of_bias(goal: Range, now: Range, gain: float) -> Range:
    """Bias of the sign of a range, or one that leaves half of a range around zero to products."""
    if goal.low >= 0 or goal.high <= 0:
        sign = 1 if goal.low >= 0 else -1
        most = min(max(abs(float(now.low)), abs(float(now.high))), abs(float(goal.high)) / 2)
        return _times(Range.of(most / 2, most), sign * math.copysign(1, gain))
    return _times(Range.of(goal.low / 2, goal.high / 2), 1 / gain if gain else 1.0)


def _bias(step: RangeStep, position: int | None, terms: Sum) -> Range:
    if position is None or position >= len(step.inputs) or step.inputs[position] is None:
        return Range.of(0, 0)
    return _times(step.ranges[position].hull(), terms.bias_gain)


def _corners(one: Range, other: Range) -> list[float]:
    ends = (float(a) * float(b) for a in (one.low, one.high) for b in (other.low, other.high))
    return [0.0 if math.isnan(end) else end for end in ends]


def _times(each: Range, factor: float) -> Range:
    if not factor:
        return Range.of(0, 0)
    ends = each.low * factor, each.high * factor
    return Range.of(*(ends if factor > 0 else ends[::-1]), each.smooth)


def _plus(one: Range, other: Range) -> Range:
    return Range.of(one.low + other.low, one.high + other.high, one.smooth or other.smooth)


def _minus(goal: Range, other: Range) -> Range:
    """Range of a term that, added to any number of another range, lies in a range."""
    return Range.of(
        np.where(np.isneginf(goal.low), -np.inf, goal.low - other.low),
        np.where(np.isposinf(goal.high), np.inf, goal.high - other.high),
    )


def of_matrices(step: RangeStep) -> Sum:
    """Products of a matrix product, whose first factor may be transposed."""
    axis = -2 if step.integer("transA", 0) and len(step.sizes(0)) > 1 else -1
    depth = step.sizes(0)[axis]
    return Sum(depth, depth, step.number("alpha", 1.0), step.number("beta", 1.0))


def of_convolution(step: RangeStep) -> Sum:
    """Products of a convolution: fewer than taps of the filter where padding begins."""
    depth, *kernel = step.sizes(1)[1:]
    axes = len(kernel)
    pads, dilations = _numbers(step, "pads", 0, 2 * axes), _numbers(step, "dilations", 1, axes)
    least = most = depth
    for axis, (taps, spacing) in enumerate(zip(kernel, dilations, strict=True)):
        lost = [math.ceil(pads[axis + side] / spacing) for side in (0, axes)]
        both = step.sizes(0)[2 + axis] < spacing * (taps - 1) + 1
        least *= max(taps - (sum(lost) if both else max(lost)), 0)
        most *= taps
    return Sum(least, most)


def of_transposed_convolution(step: RangeStep) -> Sum:
    """Products of a transposed convolution: one tap at a corner, if there is no gap."""
    groups = step.integer("group", 1)
    kernel = step.sizes(1)[2:]
    strides = _numbers(step, "strides", 1, len(kernel))
    plain = set(_numbers(step, "dilations", 1, len(kernel))) <= {1}
    padded = any(_numbers(step, "output_padding", 0, len(kernel)))
    gapless = plain and not padded and all(t >= s for t, s in zip(kernel, strides, strict=True))
    depth = step.sizes(0)[1] // groups
    taps = (-(-t // s) if plain else t for t, s in zip(kernel, strides, strict=True))
    return Sum(depth if gapless else 0, depth * math.prod(taps))


def of_equation(step: RangeStep) -> Sum | None:
    """Products of an Einstein sum of two operands, none of which repeats a label."""
    shapes = [step.sizes(at) for at in range(len(step.inputs))]
    if len(shapes) != 2:
        return None
    terms, result = spelled_out(step.text("equation", ""), [len(shape) for shape in shapes])
    if any(len(set(term)) < len(term) for term in terms):
        return None
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    depth = math.prod(size for label, size in sizes.items() if label not in result)
    return Sum(depth, depth)


def _numbers(step: RangeStep, name: str, default: int, count: int) -> tuple[int, ...]:
    found = step.layer.attributes.get(name)
    return found if isinstance(found, tuple) and len(found) == count else (default,) * count

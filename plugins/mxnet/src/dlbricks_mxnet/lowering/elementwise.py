"""Arithmetic, comparison, logic and rounding, element by element, with broadcasting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import ANY, FLOAT, INTEGER, NUMBER, SELECTION_AXES
from dlbricks_mxnet.lowering.symbols import (
    Shape,
    Symbol,
    cast,
    npi,
    op,
    physical,
    product,
    reshape,
    where,
)
from dlbricks_mxnet.lowering.table import lowers

Unary = Callable[[Symbol], Symbol]
Binary = Callable[[Symbol, Symbol], Symbol]

_BROADCAST_AXES = 5
"""Maximum number of axes over which MXNet broadcasts."""


def check_broadcast(*shapes: Shape) -> None:
    """Raises an error where MXNet's broadcasting kernels would fail only at run time.

    The kernels merge neighbouring axes that broadcast alike, and then support five axes.

    Raises:
        UnsupportedError: If more axes remain.
    """
    if len(_joined(shapes)[0]) > _BROADCAST_AXES:
        raise UnsupportedError(f"MXNet does not broadcast over more than {_BROADCAST_AXES} axes")


def _joined(shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes, of equal rank, with neighbouring axes joined if they broadcast alike."""
    rank = max(len(shape) for shape in shapes)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    columns = [sizes for sizes in zip(*aligned, strict=True) if any(size != 1 for size in sizes)]
    groups = itertools.groupby(columns, key=lambda sizes: [size == 1 for size in sizes])
    joined = [[product(own) for own in zip(*group, strict=True)] for _, group in groups]
    return list(zip(*joined, strict=True)) if joined else [(1,) for _ in shapes]


def scalar(ctx: LayerContext, position: int) -> float | None:
    """A known, finite floating-point input of one element, which is an attribute in MXNet."""
    if ctx.dtype(position) not in FLOAT or ctx.spec(position).elements != 1:
        return None
    value = ctx.constant(position)
    if value is None or not math.isfinite(float(value.ravel()[0])):
        return None
    return float(value.ravel()[0])


def _arithmetic(name: str, same: Binary, broadcast: Binary, plain: Binary) -> None:
    """Registers an operator with two operands, lowered as users of MXNet write it.

    Args:
        name: ONNX operator.
        same: MXNet operator for operands of equal shapes.
        broadcast: MXNet operator for operands of different shapes.
        plain: MXNet operator for an operand that is a number.
    """

    @lowers(name, types=NUMBER)
    def lower(ctx: LayerContext) -> Symbol:
        out = physical(ctx.out_shape())
        for number, other in ((1, 0), (0, 1)):
            value = scalar(ctx, number)
            if value is not None and physical(ctx.shape(other)) == out:
                x = ctx.input(other)
                return plain(x, value) if number == 1 else plain(value, x)
        return pair(ctx.input(0), ctx.input(1), ctx.shape(0), ctx.shape(1), same, broadcast)


def pair(
    a: Symbol, b: Symbol, a_shape: Shape, b_shape: Shape, same: Binary, broadcast: Binary
) -> Symbol:
    """Applies the operator that fits the shapes."""
    if physical(a_shape) == physical(b_shape):
        return same(a, b)
    check_broadcast(a_shape, b_shape)
    return broadcast(a, b)


_arithmetic("Add", op.elemwise_add, op.broadcast_add, lambda a, b: a + b)
_arithmetic("Sub", op.elemwise_sub, op.broadcast_sub, lambda a, b: a - b)
_arithmetic("Mul", op.elemwise_mul, op.broadcast_mul, lambda a, b: a * b)
_arithmetic("Div", op.elemwise_div, op.broadcast_div, lambda a, b: a / b)


def _folded(ctx: LayerContext, same: Binary, broadcast: Binary) -> Symbol:
    """Combines all inputs from the left."""

    def step(left: tuple[Symbol, Shape], right: tuple[Symbol, Shape]) -> tuple[Symbol, Shape]:
        shape = np.broadcast_shapes(left[1], right[1])
        return pair(left[0], right[0], left[1], right[1], same, broadcast), shape

    terms = [(ctx.input(i), ctx.shape(i)) for i in range(ctx.count)]
    return reduce(step, terms)[0] if len(terms) > 1 else op.identity(terms[0][0])


@lowers("Sum", types=NUMBER)
def _sum(ctx: LayerContext) -> Symbol:
    alike = len({ctx.shape(i) for i in range(ctx.count)}) == 1
    if alike and ctx.count > 2:
        return op.add_n(*ctx.inputs())
    return _folded(ctx, op.elemwise_add, op.broadcast_add)


@lowers("Mean", types=FLOAT)
def _mean(ctx: LayerContext) -> Symbol:
    return _sum(ctx) / ctx.count


@lowers("Max", types=NUMBER)
def _max(ctx: LayerContext) -> Symbol:
    return _folded(ctx, op.broadcast_maximum, op.broadcast_maximum)


@lowers("Min", types=NUMBER)
def _min(ctx: LayerContext) -> Symbol:
    return _folded(ctx, op.broadcast_minimum, op.broadcast_minimum)


@lowers("Pow", types=NUMBER)
def _pow(ctx: LayerContext) -> Symbol:
    x = ctx.input(0)
    if ctx.dtype() in INTEGER:
        return _integer_power(ctx, x)
    exponent = ctx.constant(1)
    if exponent is not None and exponent.size == 1 and ctx.shape(0) == ctx.out_shape():
        power = float(exponent.ravel()[0])
        return op.square(x) if power == 2.0 else x**power
    y = ctx.input(1) if ctx.dtype(1) == ctx.dtype(0) else cast(ctx.input(1), ctx.dtype(0))
    check_broadcast(ctx.shape(0), ctx.shape(1))
    return op.broadcast_power(x, y)


def _integer_power(ctx: LayerContext, x: Symbol) -> Symbol:
    """MXNet computes powers in floating point; 53 bits represent all 32-bit integers."""
    exponent = ctx.constant(1)
    if exponent is not None and exponent.size == 1 and exponent.ravel()[0] in (1, 2, 3):
        return reduce(op.elemwise_mul, [x] * int(exponent.ravel()[0]))
    if ctx.dtype() == "int64":
        raise UnsupportedError("MXNet has no powers of 64-bit integers")
    check_broadcast(ctx.shape(0), ctx.shape(1))
    power = op.broadcast_power(cast(x, "float64"), cast(ctx.input(1), "float64"))
    return cast(power, ctx.dtype())


@lowers("Mod", types=NUMBER, axes=SELECTION_AXES)
def _mod(ctx: LayerContext) -> Symbol:
    a, b = ctx.input(0), ctx.input(1)
    check_broadcast(ctx.shape(0), ctx.shape(1))
    if ctx.attribute("fmod"):
        if ctx.dtype() == "int64":
            return _remainder(a, b)
        # MXNet's takes the sign of the divisor; on magnitudes both agree.
        size = op.broadcast_mod(op.abs(a), op.abs(b))
        return where(_is_negative(a), op.negative(size), size)
    if ctx.dtype() in FLOAT:
        # MXNet returns zero where the remainder is undefined.
        nothing = op.broadcast_div(b, b)
        return where(npi.equal_scalar(b, scalar=0), nothing, op.broadcast_mod(a, b))
    if ctx.dtype() != "int64":
        return op.broadcast_mod(a, b)
    # MXNet computes it in double precision, which holds only 53 bits.
    rest = _remainder(a, b)
    crosses = npi.not_equal(_is_negative(rest), _is_negative(b))
    wraps = npi.bitwise_and(npi.not_equal_scalar(rest, scalar=0), crosses)
    return where(wraps, op.broadcast_add(rest, b), rest)


def _remainder(a: Symbol, b: Symbol) -> Symbol:
    """Remainder of the integer division that truncates."""
    return op.broadcast_sub(a, op.broadcast_mul(op.broadcast_div(a, b), b))


def _is_negative(x: Symbol) -> Symbol:
    return npi.less_scalar(x, scalar=0)


def _unary(name: str, function: Unary, types: frozenset[str] = FLOAT) -> None:
    @lowers(name, types=types)
    def lower(ctx: LayerContext) -> Symbol:
        return function(ctx.input())


for _name, _function in {
    "Acos": op.arccos, "Acosh": op.arccosh, "Asin": op.arcsin, "Asinh": op.arcsinh,
    "Atan": op.arctan, "Atanh": op.arctanh, "Ceil": op.ceil, "Cos": op.cos, "Cosh": op.cosh,
    "Erf": op.erf, "Exp": op.exp, "Floor": op.floor, "Log": op.log,
    "Reciprocal": op.reciprocal, "Sin": op.sin, "Sinh": op.sinh, "Sqrt": op.sqrt, "Tan": op.tan,
}.items():  # fmt: skip
    _unary(_name, _function)
_unary("Identity", op.identity, ANY)
_unary("IsNaN", npi.isnan)
_unary("Neg", op.negative, NUMBER)
_unary("Not", npi.logical_not, frozenset({"bool"}))
_unary("Sign", op.sign, NUMBER)
_unary("BitwiseNot", npi.bitwise_not, INTEGER)


@lowers("Abs", types=NUMBER)
def _abs(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    if ctx.dtype() == "int64":  # MXNet's goes through floating point
        return x * op.sign(x)
    return op.abs(x)


@lowers("Round", axes=SELECTION_AXES)
def _round(ctx: LayerContext) -> Symbol:
    return round_half_even(ctx.input())


def round_half_even(x: Symbol) -> Symbol:
    """Rounds to the nearest integer, ties to even; MXNet's own rounds ties away or down."""
    below = op.floor(x)
    rest = x - below
    odd = below - 2 * op.floor(below * 0.5)
    rounded = below + op.broadcast_maximum(rest > 0.5, (rest == 0.5) * odd)
    # Values without a fraction stay unchanged, including infinities, whose fraction is not a
    # number.
    return where(npi.equal(x, below), x, rounded)


@lowers("IsInf")
def _is_inf(ctx: LayerContext) -> Symbol:
    negative = ctx.attribute("detect_negative")
    positive = ctx.attribute("detect_positive")
    x = ctx.input()
    if negative and positive:
        return npi.isinf(x)
    if negative or positive:
        return npi.isposinf(x) if positive else npi.isneginf(x)
    return cast(op.zeros_like(x), "bool")


def _comparison(name: str, function: Binary, types: frozenset[str]) -> None:
    @lowers(name, types=types)
    def lower(ctx: LayerContext) -> Symbol:
        check_broadcast(ctx.shape(0), ctx.shape(1))
        return function(ctx.input(0), ctx.input(1))


def _logical(name: str, function: Binary) -> None:
    @lowers(name, types=frozenset({"bool"}))
    def lower(ctx: LayerContext) -> Symbol:
        a, b = ctx.input(0), ctx.input(1)
        if physical(ctx.shape(0)) == physical(ctx.shape(1)):
            return function(a, b)
        # MXNet cannot broadcast booleans here.
        check_broadcast(ctx.shape(0), ctx.shape(1))
        return cast(function(cast(a, "uint8"), cast(b, "uint8")), "bool")


for _name, _compare in {
    "Equal": npi.equal, "Greater": npi.greater, "GreaterOrEqual": npi.greater_equal,
    "Less": npi.less, "LessOrEqual": npi.less_equal,
}.items():  # fmt: skip
    _comparison(_name, _compare, ANY)
for _name, _logic in {"And": npi.bitwise_and, "Or": npi.bitwise_or, "Xor": npi.bitwise_xor}.items():
    _logical(_name, _logic)
    _comparison(f"Bitwise{_name}", _logic, INTEGER)


@lowers("Where", types=ANY)
def _where(ctx: LayerContext) -> Symbol:
    shapes = [ctx.shape(i) for i in range(3)]
    check_broadcast(*shapes)
    if len(ctx.out_shape()) <= SELECTION_AXES:
        return where(*ctx.inputs())
    joined = _joined(shapes)
    parts = [reshape(x, shape) for x, shape in zip(ctx.inputs(), joined, strict=True)]
    return reshape(where(*parts), ctx.out_shape())


@lowers("Cast", "CastLike", types=ANY)
def _cast(ctx: LayerContext) -> Symbol:
    return cast(ctx.input(), ctx.out_dtype())


@lowers("Clip", types=NUMBER)
def _clip(ctx: LayerContext) -> Symbol:
    x = ctx.input()
    bounds = [ctx.constant(i) for i in (1, 2)]
    if all(b is not None and _fits_float(b) for b in bounds):
        low, high = (float(b.ravel()[0]) for b in bounds)  # type: ignore[union-attr]
        if low <= high:
            return op.clip(x, a_min=low, a_max=high)
    if ctx.has(1):
        x = op.broadcast_maximum(x, ctx.input(1))
    if ctx.has(2):
        x = op.broadcast_minimum(x, ctx.input(2))
    return x if ctx.has(1) or ctx.has(2) else op.identity(x)


def _fits_float(value: np.ndarray) -> bool:
    """Whether MXNet's attribute, a float of 32 bits, holds the bound exactly enough."""
    number = value.ravel()[0]
    if value.dtype.kind == "f":
        return bool(np.isfinite(np.float32(number))) and (
            value.dtype != np.float64 or float(np.float32(number)) == float(number)
        )
    return abs(int(number)) <= 2**24

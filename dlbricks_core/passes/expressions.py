"""Sizes that a file writes as formulas over others, and conditions on sizes.

Such as ``past_length + 1`` and ``floor(n/2)``; ``2*half <= 64`` is a condition.
"""

from __future__ import annotations

import ast
import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

_MAX_CHARACTERS = 200
"""Maximum characters of an expression; people write no longer ones."""

_MAX_POWER = 16
"""Maximum exponent: sizes have few digits."""

_MAX_VALUE = 2**63
"""Bound of every value on the way: no dimension is larger."""


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or not 0 <= exponent <= _MAX_POWER:
        raise ArithmeticError("an exponent that sizes do not have")
    return base ** int(exponent)


_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}

_FUNCTIONS: Mapping[str, Callable[..., Fraction | int]] = {
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "ceiling": math.ceil,
    "int": math.trunc,
    "trunc": math.trunc,
    "max": max,
    "min": min,
    "mod": operator.mod,
    "pow": _power,
    # As torch.export and SymPy write them.
    "pythonmod": operator.mod,
    "floordiv": operator.floordiv,
    "cleandiv": operator.truediv,
    "inttruediv": operator.truediv,
    "floattruediv": operator.truediv,
    "floortoint": math.floor,
    "ceiltoint": math.ceil,
    "trunctoint": math.trunc,
    "tofloat": lambda value: value,
    "modularindexing": lambda base, divisor, modulus: base // divisor % modulus,
}
"""Function by its name in small letters."""


_SAMPLED = (*range(65), *(2**power + more for power in range(7, 32) for more in (-1, 0, 1)))
"""Sizes at which a formula is looked at, to see whether it turns."""

_PLAIN = (ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.USub, ast.UAdd)
"""Nodes of a formula, beside numbers, operators and functions."""

_MOST_OF_CONDITION = 5000
"""Maximum characters of a condition, which programs write."""

_COMPARED: Mapping[type[ast.cmpop], Callable[[Fraction, Fraction], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def parts(text: str) -> frozenset[str]:
    """Names of sizes in a formula; none if it is a plain name or no formula.

    A formula has ``+``, ``-``, ``*``, ``/``, ``//``, ``%``, ``**``, and functions such as ``floor``
    and ``Max``.
    """
    tree, found = _formula(text)
    return frozenset() if isinstance(tree, ast.Name) else found


def value(text: str, sizes: Mapping[str, int]) -> Fraction | None:
    """Value of a formula, which is no size if it is not whole.

    Returns:
        ``None`` if it is no formula, if a size in it is unknown, or if it has no value.
    """
    names = parts(text)
    tree, _ = _formula(text)
    if tree is None or not names or not names.issubset(sizes):
        return None
    try:
        return _value(tree, sizes)
    except (ArithmeticError, TypeError):
        return None


def solved(text: str, total: int, sizes: Mapping[str, int]) -> tuple[str, Fraction] | None:
    """The one size that a formula with a known value leaves open: its name, and the number.

    Returns:
        ``None`` unless the formula grows evenly with that size. The number is no size if it is
        not whole, or below zero.
    """
    unknown = parts(text) - sizes.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown
    first, second, third = (value(text, {**sizes, name: each}) for each in (1, 2, 3))
    if first is None or second is None or third is None:
        return None
    step = second - first
    if not step or third - second != step:
        return None
    number = 1 + (total - first) / step
    # A formula that rounds grows evenly for a while only.
    whole = number.denominator == 1 and number >= 0
    fits = not whole or value(text, {**sizes, name: int(number)}) == total
    return (name, number) if fits else None


def possible(text: str, total: int, sizes: Mapping[str, int]) -> tuple[str, range] | None:
    """The one size that a formula with a known value leaves open: its name and possible values.

    Returns:
        ``None`` unless the formula has one open size, and never turns as that size grows.
    """
    unknown = parts(text) - sizes.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown

    def at(size: int) -> Fraction | None:
        return value(text, {**sizes, name: size})

    sampled = [at(size) for size in _SAMPLED]
    known = [each for each in sampled if each is not None]
    if len(known) < len(sampled) or known[0] == known[-1]:
        return None
    sign = 1 if known[0] < known[-1] else -1
    if any(sign * after < sign * before for before, after in pairwise(known)):
        return None

    def reached(bound: int, *, beyond: bool) -> int:
        """Least size from which the formula has the bound, or lies beyond it."""

        def has(size: int) -> bool:
            found = at(size)
            if found is None:
                return True
            return sign * found > sign * bound if beyond else sign * found >= sign * bound

        return bisect_left(range(_SAMPLED[-1]), True, key=has)

    return name, range(reached(total, beyond=False), reached(total, beyond=True))


def names(condition: str) -> frozenset[str]:
    """Names in a condition; none unless it compares two formulas."""
    return _condition(condition)[1]


def holds(condition: str, sizes: Mapping[str, int]) -> bool | None:
    """Whether a condition holds; ``None`` if it is none, or if a size in it is unknown."""
    tree, found = _condition(condition)
    if tree is None or not found.issubset(sizes):
        return None
    try:
        left, right = _value(tree.left, sizes), _value(tree.comparators[0], sizes)
    except (ArithmeticError, TypeError, ValueError):
        return False
    return _COMPARED[type(tree.ops[0])](left, right)


@lru_cache(maxsize=1024)
def _condition(text: str) -> tuple[ast.Compare | None, frozenset[str]]:
    """A comparison of two formulas and the names in it; nothing for any other text."""
    tree = _parsed(text, _MOST_OF_CONDITION)
    if not isinstance(tree, ast.Compare) or [type(op) in _COMPARED for op in tree.ops] != [True]:
        return None, frozenset()
    found = [_names(side) for side in (tree.left, tree.comparators[0])]
    return (None, frozenset()) if None in found else (tree, frozenset().union(*filter(None, found)))


@lru_cache(maxsize=1024)
def _formula(text: str) -> tuple[ast.expr | None, frozenset[str]]:
    """A formula and the names in it; nothing for any other text."""
    tree = _parsed(text, _MAX_CHARACTERS)
    found = None if tree is None else _names(tree)
    return (None, frozenset()) if found is None else (tree, found)


def _parsed(text: str, most: int) -> ast.expr | None:
    if len(text) > most:
        return None
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _names(tree: ast.expr) -> frozenset[str] | None:
    """Names of sizes in a formula; ``None`` if it is none."""
    nodes = list(ast.walk(tree))
    if not all(map(_is_known, nodes)):
        return None
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called)


def _is_known(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id.lower() in _FUNCTIONS
        return named and not node.keywords
    return isinstance(node, (*_PLAIN, *_OPERATORS))


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Fraction:
    found = Fraction(_applied(node, sizes))
    if abs(found) > _MAX_VALUE:
        raise OverflowError("larger than any size")
    return found


def _applied(node: ast.expr, sizes: Mapping[str, int]) -> Fraction | int | float:
    match node:
        case ast.BinOp():
            return _OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
        case ast.UnaryOp():
            operand = _value(node.operand, sizes)
            return -operand if isinstance(node.op, ast.USub) else operand
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name.lower()](*(_value(each, sizes) for each in node.args))
        case ast.Name():
            return sizes[node.id]
        case ast.Constant(value=int() | float() as number):
            return number
    raise TypeError(f"{type(node).__name__} in a formula")

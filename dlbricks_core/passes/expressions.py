"""Sizes that a file writes as sums and products of others: ``past_sequence_length + 1``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

_MAX_CHARACTERS = 200
"""Maximum characters of an expression; people write no longer ones."""

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@lru_cache(maxsize=1024)
def parts(text: str) -> frozenset[str]:
    """Names in an expression over ``+``, ``-``, ``*`` and ``//``; none if it is no expression."""
    tree = _parsed(text)
    if tree is None or isinstance(tree, ast.Name):
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def size(text: str, sizes: Mapping[str, int]) -> int | None:
    """Value of an expression; ``None`` if it is no expression, or if a size in it is unknown."""
    names = parts(text)
    tree = _parsed(text)
    if tree is None or not names or not names.issubset(sizes):
        return None
    try:
        return _value(tree, sizes)
    except ZeroDivisionError:
        return None


def _parsed(text: str) -> ast.expr | None:
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree if all(_is_known(node) for node in ast.walk(tree)) else None


def _is_known(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, (ast.Name, ast.BinOp, ast.Load, *_OPERATORS))


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        apply = _OPERATORS[type(node.op)]
        return apply(_value(node.left, sizes), _value(node.right, sizes))
    if isinstance(node, ast.Name):
        return sizes[node.id]
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return node.value

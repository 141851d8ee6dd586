"""Einstein sums as matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters


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

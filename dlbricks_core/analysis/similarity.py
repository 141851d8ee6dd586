"""Similarity of models: the layers that they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from dlbricks_core.bricks import CutModel


@dataclass(frozen=True)
class Pair:
    """Two models and how similar they are."""

    first: str
    second: str
    similarity: float


@dataclass(frozen=True)
class Similarity:
    """Jaccard similarity of every two models.

    Attributes:
        names: Names of the models, in the order of the matrix's rows and columns.
        matrix: Symmetric matrix of similarities, from 0 (nothing in common) to 1 (the same layers).
    """

    names: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, cuts: Sequence[CutModel]) -> Similarity:
        """Compares the sets of unique layer signatures."""
        sets = [frozenset(cut.layer_signatures) for cut in cuts]
        matrix = tuple(tuple(jaccard(a, b) for b in sets) for a in sets)
        return cls(tuple(cut.model.name for cut in cuts), matrix)

    @property
    def pairs(self) -> list[Pair]:
        """Every two different models, the most similar first."""
        found = [
            Pair(self.names[i], self.names[j], self.matrix[i][j])
            for i, j in combinations(range(len(self.names)), 2)
        ]
        return sorted(found, key=lambda pair: -pair.similarity)


def jaccard(first: AbstractSet[str], second: AbstractSet[str]) -> float:
    """Size of the intersection over size of the union; 1 for two empty sets."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0

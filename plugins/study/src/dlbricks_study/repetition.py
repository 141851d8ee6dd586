"""Repetition and similarity of models, and the operations that repeated layers take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from dlbricks_core.analysis import Work, layer_flops
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.ir import CanonicalModel

# Repetition of layers, in total and by operator type.


@dataclass(frozen=True)
class Count:
    """Number of layers, and of unique layers among them.

    A layer is *repeated* if a layer of the same signature comes before it. Unique and repeated
    layers together are all layers.
    """

    layers: int
    unique: int

    @property
    def repeated(self) -> int:
        """Number of repeated layers."""
        return self.layers - self.unique

    @property
    def unique_share(self) -> float | None:
        """Unique layers over all layers; ``None`` without layers."""
        return self.unique / self.layers if self.layers else None


@dataclass(frozen=True)
class Repetition:
    """Repetition within one model, or within and across several.

    Attributes:
        total: Count of all layers.
        types: Count by operator type; the type with the most repeated layers comes first.
    """

    total: Count
    types: Mapping[str, Count]

    @classmethod
    def of(cls, cuts: Iterable[CutModel]) -> Repetition:
        """Counts the layers of models, taken together.

        Example:
            >>> Repetition.of([cut]).total.unique_share
        """
        layers: Counter[str] = Counter()
        operators: dict[str, str] = {}
        for cut in cuts:
            layers.update(cut.layer_signatures)
            types = (layer.qualified_op for layer in cut.model.layers)
            operators.update(zip(cut.layer_signatures, types, strict=True))
        every: Counter[str] = Counter()
        for signature, count in layers.items():
            every[operators[signature]] += count
        unique = Counter(operators.values())
        counts = {name: Count(every[name], unique[name]) for name in every}
        ordered = sorted(counts.items(), key=lambda item: (-item[1].repeated, item[0]))
        return cls(Count(layers.total(), len(layers)), dict(ordered))

    @cached_property
    def repeated_shares(self) -> Mapping[str, float]:
        """Share of each operator type in the repeated layers, of types that repeat."""
        whole = self.total.repeated
        return {name: c.repeated / whole for name, c in self.types.items() if c.repeated}


# Similarity of models: the layers that they have in common.


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


# Analysis of models: repetition, similarity and work, without running them.


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of several models together, of layers whose operator has a rule.

    :class:`Work` names the layers of each model without a rule.

    Attributes:
        flops: Operations of all layers.
        unique: Operations of one layer of each signature.
    """

    flops: int
    unique: int

    @classmethod
    def of(cls, cuts: Iterable[CutModel]) -> Operations:
        """Adds up the layers of models, taken together."""
        occurrences: Counter[str] = Counter()
        unique: dict[str, int] = {}
        for cut in cuts:
            for signature, layer in zip(cut.layer_signatures, cut.model.layers, strict=True):
                if signature not in unique:
                    unique[signature] = layer_flops(cut.model, layer) or 0
                occurrences[signature] += 1
        every = sum(count * unique[signature] for signature, count in occurrences.items())
        return cls(every, sum(unique.values()))

    @property
    def saving(self) -> float | None:
        """Operations of all layers divided by those of unique layers; ``None`` if 0.

        If latency were proportional to operations, this would be the paper's benchmarking
        speedup for single layers.
        """
        return self.flops / self.unique if self.unique else None


@dataclass(frozen=True)
class ModelAnalysis:
    """One model: its layers, their repetition within it, and their work."""

    cut: CutModel
    repetition: Repetition
    work: Work

    @property
    def name(self) -> str:
        """The user's name of the model."""
        return self.cut.model.name


@dataclass(frozen=True)
class Analysis:
    """Several models, each on its own and together.

    Attributes:
        models: In the order in which they were given.
        repetition: Repetition of layers within and across the models.
        similarity: Similarity of every two models.
        operations: Operations of all layers, and of unique layers.
    """

    models: Sequence[ModelAnalysis]
    repetition: Repetition
    similarity: Similarity
    operations: Operations


def analyze(models: Iterable[CanonicalModel]) -> Analysis:
    """Analyzes models in canonical form, layer by layer.

    Example:
        >>> analyze([first, second]).similarity.matrix[0][1]
    """
    cuts = BrickSet.of(models).models
    each = [ModelAnalysis(cut, Repetition.of([cut]), Work.of(cut.model)) for cut in cuts]
    return Analysis(each, Repetition.of(cuts), Similarity.of(cuts), Operations.of(cuts))

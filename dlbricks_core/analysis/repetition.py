"""Repetition of layers, in total and by operator type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dlbricks_core.bricks import CutModel


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

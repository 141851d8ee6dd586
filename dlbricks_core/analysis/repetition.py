"""How often layers repeat, and of which types the repeated ones are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dlbricks_core.bricks import CutModel


@dataclass(frozen=True)
class Count:
    """A number of layers and of different ones among them.

    Every layer that another one of the same signature came before is *repeated*, so that
    unique and repeated layers together are all layers.
    """

    layers: int
    unique: int

    @property
    def repeated(self) -> int:
        """Layers beyond the first of their kind."""
        return self.layers - self.unique

    @property
    def unique_share(self) -> float | None:
        """Unique layers over all layers; ``None`` where there are none."""
        return self.unique / self.layers if self.layers else None


@dataclass(frozen=True)
class Repetition:
    """Repetition within one model, or within and across several.

    Attributes:
        total: All layers.
        types: By operator type, the one with the most repeated layers first.
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
        """Share of each type in the repeated layers; types without repetition are left out."""
        whole = self.total.repeated
        return {name: c.repeated / whole for name, c in self.types.items() if c.repeated}

"""The critical path: the most expensive path through a model's layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dlbricks_core.analysis.flops import layer_flops
from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel


class Basis(Enum):
    """What the cost of a layer is; the value says it in words."""

    LATENCY = "measured latencies"
    FLOPS = "floating-point operations"
    LAYERS = "number of layers"


@dataclass(frozen=True)
class Costs:
    """What every layer of a model costs.

    Attributes:
        basis: What the numbers are.
        values: By layer: milliseconds, operations, or 1; ``None`` where it is not known.
    """

    basis: Basis
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, cut: CutModel, latencies: Mapping[str, float] | None = None) -> Costs:
        """The best basis that there is.

        Args:
            cut: The model.
            latencies: In milliseconds, by signature of a layer, of those that were measured.

        Returns:
            The latencies if one of the layers was measured; otherwise operations if some
            layer takes any; otherwise 1 for every layer.
        """
        model, known = cut.model, latencies or {}
        measured = tuple(known.get(signature) for signature in cut.layer_signatures)
        if any(value is not None for value in measured):
            return cls(Basis.LATENCY, measured)
        operations = tuple(layer_flops(model, layer) for layer in model.layers)
        if any(operations):
            return cls(Basis.FLOPS, operations)
        return cls(Basis.LAYERS, (1.0,) * len(model.layers))

    def missing(self, model: CanonicalModel) -> Mapping[str, int]:
        """How many layers of each operator type have no cost."""
        layers = zip(model.layers, self.values, strict=True)
        return Counter(layer.qualified_op for layer, value in layers if value is None)

    def total(self, layers: Sequence[int] | None = None) -> float:
        """Sum over some layers, or all; what is not known adds nothing and must be said."""
        chosen = range(len(self.values)) if layers is None else layers
        return sum(self.values[i] or 0.0 for i in chosen)


def critical_path(model: CanonicalModel, costs: Costs) -> tuple[int, ...]:
    """Layers of the path from a start to an end with the largest sum of costs.

    Among paths that cost the same, one with the most layers. Source: Li et al., ICPE 2020,
    parallel total latency.
    """
    best: list[tuple[float, int]] = []
    before: list[int | None] = []
    for i, layer in enumerate(model.layers):
        producers = [model.producers[name] for name in layer.reads if name in model.producers]
        previous = max(producers, key=lambda p: (*best[p], -p), default=None)
        cost, length = (0.0, 0) if previous is None else best[previous]
        best.append((cost + (costs.values[i] or 0.0), length + 1))
        before.append(previous)
    path: list[int] = []
    last = max(range(len(best)), key=lambda i: (*best[i], -i), default=None)
    while last is not None:
        path.append(last)
        last = before[last]
    return tuple(reversed(path))

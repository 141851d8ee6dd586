"""Costs of layers, and the critical path: the most expensive path through a model's layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dlbricks_core.analysis import layer_flops
from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel


class Basis(Enum):
    """Quantity that the cost of a layer is measured in; the value names it in words."""

    LATENCY = "measured latencies"
    FLOPS = "floating-point operations"
    LAYERS = "number of layers"


@dataclass(frozen=True)
class LayerCosts:
    """Cost of every layer of a model.

    Attributes:
        basis: Quantity that the costs are measured in.
        values: Cost by layer: milliseconds, operations, or 1; ``None`` where it is unknown.
    """

    basis: Basis
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, cut: CutModel, latencies: Mapping[str, float] | None = None) -> LayerCosts:
        """Costs on the best basis that the data allow.

        Args:
            cut: The model.
            latencies: Measured latencies in milliseconds, by signature of a layer.

        Returns:
            Latencies if a layer was measured, else operations if a layer has any, else 1 for
            every layer.
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
        """Number of layers without a known cost, by operator type."""
        layers = zip(model.layers, self.values, strict=True)
        return Counter(layer.qualified_op for layer, value in layers if value is None)

    def total(self, layers: Sequence[int] | None = None) -> float:
        """Sum of the known costs of some layers, or of all; report :meth:`missing` with it."""
        chosen = range(len(self.values)) if layers is None else layers
        return sum(self.values[i] or 0.0 for i in chosen)


def critical_path(model: CanonicalModel, costs: LayerCosts) -> tuple[int, ...]:
    """Layers of the most expensive path from an input to an output.

    Of paths that cost the same, the result is one with the most layers.

    Source: Li et al., ICPE 2020, parallel total latency.
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

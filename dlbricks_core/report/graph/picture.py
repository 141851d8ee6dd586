"""Content of a drawing of a model, and the wording of costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from dlbricks_core.analysis import (
    Basis,
    LayerCosts,
    Module,
    Outline,
    critical_path,
    outline,
    repeated_modules,
)
from dlbricks_core.analysis.outline import OUTSIDE, Pair
from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.report.tables import ms, quantity


@dataclass(frozen=True)
class Picture:
    """A model with its critical path and repeated modules.

    Attributes:
        cut: The model and its bricks.
        costs: Costs of its layers.
        origin: Origin of the costs, or the reason why they are not latencies.
    """

    cut: CutModel
    costs: LayerCosts
    origin: str = ""

    @property
    def model(self) -> CanonicalModel:
        """The model that is drawn."""
        return self.cut.model

    @cached_property
    def modules(self) -> list[Module]:
        """Modules that are drawn once and represent several copies."""
        return repeated_modules(self.cut)

    @cached_property
    def outline(self) -> Outline:
        """The graph that is drawn."""
        return outline(self.model, self.modules)

    @cached_property
    def path(self) -> tuple[int, ...]:
        """Positions of the layers on the critical path."""
        return critical_path(self.model, self.costs)

    @cached_property
    def on_path(self) -> frozenset[int]:
        """The positions of :attr:`path` as a set."""
        return frozenset(self.path)

    @property
    def path_pairs(self) -> list[Pair]:
        """Pairs of producer and reader along the critical path, from outside to outside."""
        return list(pairwise((OUTSIDE, *self.path, OUTSIDE)))

    @property
    def drawn(self) -> int:
        """Number of layers that are drawn; a repeated module counts once."""
        hidden = sum(each.end - each.start - each.drawn for each in self.modules)
        return len(self.model.layers) - hidden

    @property
    def notes(self) -> list[str]:
        """Sentences at the top of the drawing."""
        count = len(self.model.layers)
        lines = [
            f"{count} layers, {len(set(self.cut.layer_signatures))} unique. "
            + (f"{self.drawn} drawn: dashed frames show one of several equal modules."
               if self.drawn < count else "No modules repeat in a row.")
        ]  # fmt: skip
        whole = self.costs.total()
        share = f", {self.costs.total(self.path) / whole:.1%} of the sum" if whole else ""
        lines.append(
            f"Critical path (bold) by {self.costs.basis.value}: {len(self.path)} layers{share}."
        )
        if self.origin:
            lines.append(self.origin)
        missing = self.costs.missing(self.model)
        if missing:
            listed = ", ".join(f"{op} ({number})" for op, number in missing.items())
            lines.append(f"Cost not known, missing in the path's (dashed boxes): {listed}.")
        return lines

    def cost(self, layers: Iterable[int]) -> str:
        """Total cost of some layers in words; empty if only layers are counted."""
        chosen = list(layers)
        if self.costs.basis is Basis.LAYERS:
            return ""
        unknown = any(self.costs.values[i] is None for i in chosen)
        if unknown and all(self.costs.values[i] is None for i in chosen):
            return "cost not known"
        return f"{'>' if unknown else ''}{self._write(self.costs.total(chosen))}"

    def _write(self, cost: float) -> str:
        if self.costs.basis is Basis.LATENCY:
            return f"{ms(cost)} ms"
        return f"{quantity(cost)} FLOPs" if cost < 1000 else f"{quantity(cost)}FLOPs"

"""Records of a comparison of backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbricks_compare.ranking import Ranking, Ratio
from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.results import BrickResult, ModelResult, RunResult
from dlbricks_core.facts import Failure, Note, Quantity
from dlbricks_core.figures.figure import Cost
from dlbricks_core.ir import CanonicalModel


@dataclass(frozen=True)
class BrickComparison:
    """One brick on the backends whose graphs contain it.

    Attributes:
        brick: The brick.
        results: Results by backend.
        ranking: Ranking of the backends by the cost that the brick adds to a model.
    """

    brick: Brick
    results: Mapping[str, BrickResult]
    ranking: Ranking

    @property
    def occurrences(self) -> int:
        """Number of occurrences in the models, on the backend with most occurrences."""
        return max(result.occurrences for result in self.results.values())


@dataclass(frozen=True)
class PartComparison:
    """Parts of equal structure, which all backends cut at the same positions.

    Attributes:
        brick: One of the parts, as a brick.
        occurrences: Number of parts.
        bricks: Number of runs of each brick for all parts, by backend and signature.
        ranking: Ranking of the backends by the total over all parts, or by a single part if the
            quantity does not add up.
    """

    brick: Brick
    occurrences: int
    bricks: Mapping[str, Mapping[str, int]]
    ranking: Ranking

    @property
    def difference_ms(self) -> float | None:
        """Total on the slowest backend minus total on the fastest; ``None`` with fewer than two."""
        costs = [cost.ms for cost in self.ranking.costs.values()]
        return costs[-1] - costs[0] if len(costs) > 1 else None


@dataclass(frozen=True)
class ModelComparison:
    """One model on every backend.

    Attributes:
        results: Results by backend.
        parts: Parts of the model, the largest differences first.
        ranking: Ranking of the backends by measurements of the whole model.
        sums: Sum of the parts by backend, without the call of the timer. A backend that lacks the
            measurement of a part is left out.
        ideal: Estimate with each part on the backend where it is fastest: the sum of the parts'
            minima. It is a lower bound, without the cost of passing tensors from one framework to
            another. Empty if the quantity does not add up.
        picks: Number of parts that the ideal runs on each backend.
    """

    results: Mapping[str, ModelResult]
    parts: Sequence[PartComparison]
    ranking: Ranking
    sums: Mapping[str, Cost]
    ideal: Estimate
    picks: Mapping[str, int]

    @property
    def cut(self) -> CutModel:
        """The model as the first backend cuts it."""
        return next(iter(self.results.values())).cut

    @property
    def model(self) -> CanonicalModel:
        """The model."""
        return self.cut.model

    @cached_property
    def sum_ratios(self) -> Mapping[str, Ratio]:
        """Sum of the parts by backend, relative to the backend that is fastest end to end."""
        fastest, *others = self.ranking.costs or [""]
        if fastest not in self.sums:
            return {}
        return {
            name: Ratio.of(self.sums[name], self.sums[fastest])
            for name in others
            if name in self.sums
        }

    @property
    def is_contradicted(self) -> bool:
        """Whether the parts have a smaller sum on another backend than the winner end to end."""
        ratios = self.sum_ratios.values() if self.ranking.winner else ()
        return any(ratio.value is not None and ratio.value < 1 for ratio in ratios)

    @property
    def notes(self) -> dict[str, Sequence[Note]]:
        """Notes on the figures, by backend."""
        return {name: result.notes for name, result in self.results.items() if result.notes}


@dataclass(frozen=True)
class OperatorTotal:
    """Total over all models of the parts with the same operators.

    Attributes:
        operators: Operator types of the parts.
        occurrences: Number of parts.
        totals_ms: Total of the measured parts in milliseconds by backend, without the call of the
            timer; ``None`` if no part was measured.
        missing: Number of parts without a measurement, by backend.
    """

    operators: tuple[str, ...]
    occurrences: int
    totals_ms: Mapping[str, float | None]
    missing: Mapping[str, int]

    @property
    def fastest(self) -> str | None:
        """The backend with the lowest total, among those that measured all parts."""
        whole = {
            n: ms for n, ms in self.totals_ms.items() if ms is not None and not self.missing[n]
        }
        return min(whole, key=lambda name: whole[name]) if len(whole) > 1 else None


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison.

    Attributes:
        runs: Results by backend, as of separate runs.
        models: Models in the given order.
        parts: Parts of all models, the largest differences first.
        bricks: Bricks in order of first occurrence.
        operators: Totals by operators, the longest first; empty if the quantity does not add up.
        notes: Notes on the ratios.
        unread: Models that could not be loaded.
    """

    runs: Mapping[str, RunResult]
    models: Sequence[ModelComparison]
    parts: Sequence[PartComparison]
    bricks: Sequence[BrickComparison]
    operators: Sequence[OperatorTotal]
    notes: Sequence[Note] = ()
    unread: Sequence[Failure] = ()

    @property
    def any_run(self) -> RunResult:
        """One of the runs, for their common settings: system, protocol, threads, options."""
        return next(iter(self.runs.values()))

    @property
    def quantity(self) -> Quantity:
        """The compared quantity."""
        return self.any_run.request.quantity

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed, and no figure is doubtful because of other programs."""
        return not self.unread and all(run.is_sound for run in self.runs.values())

    @property
    def failures(self) -> list[Failure]:
        """All failures, with their reasons."""
        return [*self.unread, *(each for run in self.runs.values() for each in run.failures)]

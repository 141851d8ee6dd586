"""What a comparison of backends found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.facts import Failure, Quantity
from dlbricks_core.figures.ranking import Cost, Ranking, Ratio
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.workflows.results import BrickResult, ModelResult, RunResult


@dataclass(frozen=True)
class BrickComparison:
    """One brick on the backends whose graphs contain it.

    Attributes:
        brick: The brick.
        results: By backend.
        ranking: Of the backends, by what the brick adds to a model.
    """

    brick: Brick
    results: Mapping[str, BrickResult]
    ranking: Ranking

    @property
    def occurrences(self) -> int:
        """Number of times that the brick stands in the models, on the backend with the most."""
        return max(result.occurrences for result in self.results.values())


@dataclass(frozen=True)
class PartComparison:
    """Parts of equal structure, which all backends cut at the same places.

    Attributes:
        brick: One of the parts, cut out of its model.
        occurrences: Number of the parts.
        bricks: By backend, the number of times that each brick runs for all of the parts, by
            signature.
        ranking: Of the backends, by the total over all of the parts; by one of them where the
            quantity does not add up.
    """

    brick: Brick
    occurrences: int
    bricks: Mapping[str, Mapping[str, int]]
    ranking: Ranking

    @property
    def difference_ms(self) -> float | None:
        """Total on the slowest backend less that on the fastest; ``None`` without two of them."""
        costs = [cost.ms for cost in self.ranking.costs.values()]
        return costs[-1] - costs[0] if len(costs) > 1 else None


@dataclass(frozen=True)
class ModelComparison:
    """One model on every backend.

    Attributes:
        results: By backend.
        parts: Those that differ most first.
        ranking: Of the backends, by what was measured of the whole model.
        sums: What the parts come to by backend, without the timer's own cost; a backend on which a
            part has no measurement is left out.
        ideal: Estimate that takes each part on the backend where it is fastest: the sum of the
            parts' minima. A bound: it leaves out what handing a tensor from one framework to
            another costs. No value where the quantity does not add up.
        picks: Number of the model's parts that the ideal takes on each backend.
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
        """By backend, the sum of the parts over that on the backend that is fastest end to end."""
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
        """Whether there is a winner end to end, and the parts sum up to less elsewhere."""
        ratios = self.sum_ratios.values() if self.ranking.winner else ()
        return any(ratio.value is not None and ratio.value < 1 for ratio in ratios)

    @property
    def notes(self) -> dict[str, Sequence[str]]:
        """What to keep in mind, by backend."""
        return {name: result.notes for name, result in self.results.items() if result.notes}


@dataclass(frozen=True)
class OperatorTotal:
    """Total of the parts that consist of the same operators, over all models.

    Attributes:
        operators: Operator types of the parts.
        occurrences: Number of the parts.
        totals_ms: By backend, the total of the parts that were measured there, without the timer's
            own cost; ``None`` if that is none of them.
        missing: By backend, the number of parts that have no measurement.
    """

    operators: tuple[str, ...]
    occurrences: int
    totals_ms: Mapping[str, float | None]
    missing: Mapping[str, int]

    @property
    def fastest(self) -> str | None:
        """The backend with the lowest total, among those that lack nothing."""
        whole = {
            n: ms for n, ms in self.totals_ms.items() if ms is not None and not self.missing[n]
        }
        return min(whole, key=lambda name: whole[name]) if len(whole) > 1 else None


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found out.

    Attributes:
        runs: By backend, what a run of its own would have found out.
        models: In the order in which they were given.
        parts: Of all models; those that differ most first.
        bricks: In order of first occurrence.
        operators: The longest total first; none where the quantity does not add up.
        notes: What to keep in mind when reading the ratios.
        unread: Models that were named and could not be loaded.
    """

    runs: Mapping[str, RunResult]
    models: Sequence[ModelComparison]
    parts: Sequence[PartComparison]
    bricks: Sequence[BrickComparison]
    operators: Sequence[OperatorTotal]
    notes: Sequence[str] = ()
    unread: Sequence[Failure] = ()

    @property
    def any_run(self) -> RunResult:
        """A run, for what all of them have in common: system, protocol, threads, options."""
        return next(iter(self.runs.values()))

    @property
    def quantity(self) -> Quantity:
        """What is compared."""
        return self.any_run.request.quantity

    @property
    def failures(self) -> list[Failure]:
        """What is missing and why."""
        return [*self.unread, *(each for run in self.runs.values() for each in run.failures)]

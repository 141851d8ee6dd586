"""The same bricks on several frameworks, side by side: who is fastest, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.compose import Estimate, Sequential
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure
from dlbricks_core.figures.figure import interval
from dlbricks_core.figures.ranking import Cost, Ranking
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.measuring import measure_side_by_side
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import BrickResult, ModelResult, RunResult
from dlbricks_core.workflows.timing_order import sweeps_of


@dataclass(frozen=True)
class BrickComparison:
    """One brick on every backend.

    Attributes:
        brick: The brick.
        occurrences: How often it stands in the models.
        results: By backend.
    """

    brick: Brick
    occurrences: int
    results: Mapping[str, BrickResult]

    @cached_property
    def ranking(self) -> Ranking:
        """By what the brick adds to a model."""
        return Ranking.of(
            {n: Cost.brick(r.latency) for n, r in self.results.items() if r.latency is not None}
        )


@dataclass(frozen=True)
class ModelComparison:
    """One model on every backend.

    Attributes:
        cut: The model and its bricks.
        results: By backend.
        ideal: Estimate that takes each brick on the backend where it is fastest: the sum
            of the bricks' minima. A bound: it leaves out what handing a tensor from one
            framework to the other costs.
        picks: For how many of the model's bricks the ideal takes each backend.
    """

    cut: CutModel
    results: Mapping[str, ModelResult]
    ideal: Estimate
    picks: Mapping[str, int]

    @cached_property
    def ranking(self) -> Ranking:
        """By end-to-end latency."""
        return Ranking.of(
            {n: Cost.whole(r.measured) for n, r in self.results.items() if r.measured is not None}
        )

    @property
    def notes(self) -> dict[str, Sequence[str]]:
        """What to keep in mind, by backend."""
        return {name: result.notes for name, result in self.results.items() if result.notes}


@dataclass(frozen=True)
class OperatorTotal:
    """What bricks of one kind add up to, over all models.

    Attributes:
        operators: Operator types of the bricks.
        occurrences: How many bricks of the models these are.
        totals_ms: By backend: without the timer's own cost, over the bricks that were
            measured there; ``None`` if that is none of them.
        missing: By backend: how many of the occurrences have no measurement.
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
        brickset: The models, cut once for all backends.
        models: In the order in which they were given.
        bricks: In order of first occurrence.
        operators: The longest total first.
        notes: What to keep in mind when reading the ratios.
        unread: Models that were named and could not be loaded.
    """

    runs: Mapping[str, RunResult]
    brickset: BrickSet
    models: Sequence[ModelComparison]
    bricks: Sequence[BrickComparison]
    operators: Sequence[OperatorTotal]
    notes: Sequence[str] = ()
    unread: Sequence[Failure] = ()

    @property
    def any_run(self) -> RunResult:
        """For what all backends have in common: system, protocol, threads, options."""
        return next(iter(self.runs.values()))

    @property
    def failures(self) -> list[Failure]:
        """Everything that is missing and why."""
        return [*self.unread, *(each for run in self.runs.values() for each in run.failures)]


def compare(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    requests: Sequence[Request],
    store: ResultStore,
    observer: Observer,
) -> Comparison:
    """Times the same bricks, and the whole models, on several backends in turn.

    What the store holds is not measured again.

    Args:
        models: In canonical form.
        cut_options: How to cut; estimates are sums.
        requests: How to measure: for each backend, the same but for the backend and its options.
        store: Where measurements are kept.
        observer: Told of progress.

    Raises:
        DLBricksError: If fewer than two backends are named, or one twice.
    """
    names = [each.backend.name for each in requests]
    if len(set(names)) < len(names) or len(names) < 2:
        raise DLBricksError(
            f"cannot compare {', '.join(names) or 'nothing'}",
            hint="Name two or more backends, each once.",
        )
    cut_options = replace(cut_options, composer=Sequential.name)
    observer.stage("Cutting models into bricks")
    brickset = BrickSet.of(models, cut_options.granularity, cut_options.strategy)
    cutting = Cutting.all_timed(cut_options, brickset)
    sweeps = sweeps_of(cutting, end_to_end=True)
    outcomes = measure_side_by_side(sweeps, requests, store, observer, cutting)
    runs = {
        request.backend.name: assemble(request, cutting, outcome)
        for request, outcome in zip(requests, outcomes, strict=True)
    }
    return _compared(runs, cutting)


def _compared(runs: Mapping[str, RunResult], cutting: Cutting) -> Comparison:
    bricks = [
        BrickComparison(same[0].brick, same[0].occurrences, dict(zip(runs, same, strict=True)))
        for same in zip(*(run.bricks for run in runs.values()), strict=True)
    ]
    by_signature = {each.brick.signature: each for each in bricks}
    models = [
        _model_comparison(dict(zip(runs, same, strict=True)), by_signature)
        for same in zip(*(run.models for run in runs.values()), strict=True)
    ]
    return Comparison(
        runs, cutting.brickset, models, bricks, _operators(bricks), _notes(runs, cutting)
    )


def _model_comparison(
    results: Mapping[str, ModelResult], bricks: Mapping[str, BrickComparison]
) -> ModelComparison:
    cut = next(iter(results.values())).cut
    rankings = {signature: bricks[signature].ranking for signature in cut.counts}
    picks = dict.fromkeys(results, 0)
    for signature, ranking in rankings.items():
        if ranking.fastest:
            picks[ranking.fastest] += cut.counts[signature]
    call_ms = _call_ms(results, [bricks[signature] for signature in cut.counts])
    return ModelComparison(cut, results, _ideal(cut, rankings, call_ms), picks)


def _ideal(cut: CutModel, rankings: Mapping[str, Ranking], call_ms: float) -> Estimate:
    """The sum of the bricks' minima, and one call of the timer as in every estimate."""
    minima = {s: next(iter(ranking.costs.values()), None) for s, ranking in rankings.items()}
    known = [(cut.counts[s], cost) for s, cost in minima.items() if cost is not None]
    missing = tuple(signature for signature, cost in minima.items() if cost is None)
    if not known:
        return Estimate(None, None, missing)
    replicates = sum((count * cost.replicates for count, cost in known), np.zeros(1))
    total = call_ms + sum(count * cost.ms for count, cost in known)
    return Estimate(total, interval(call_ms + replicates), missing)


def _call_ms(backends: Iterable[str], bricks: Sequence[BrickComparison]) -> float:
    """What one call of the timer costs on the backend where that is least."""
    measured = {name: [b.results[name].latency for b in bricks] for name in backends}
    calls = [[found.overhead for found in each if found] for each in measured.values()]
    return min((max(each) for each in calls if each), default=0.0)


def _operators(bricks: Sequence[BrickComparison]) -> list[OperatorTotal]:
    ordered = sorted(bricks, key=lambda each: each.brick.operators)
    totals = [
        _operator_total(operators, list(alike))
        for operators, alike in groupby(ordered, key=lambda each: each.brick.operators)
    ]
    return sorted(totals, key=lambda t: -max((ms or 0.0) for ms in t.totals_ms.values()))


def _operator_total(operators: tuple[str, ...], bricks: Sequence[BrickComparison]) -> OperatorTotal:
    totals: dict[str, float | None] = dict.fromkeys(bricks[0].results)
    missing = dict.fromkeys(totals, 0)
    for each in bricks:
        for name in totals:
            cost = each.ranking.costs.get(name)
            if cost is None:
                missing[name] += each.occurrences
            else:
                totals[name] = (totals[name] or 0.0) + each.occurrences * cost.ms
    return OperatorTotal(operators, sum(b.occurrences for b in bricks), totals, missing)


def _notes(runs: Mapping[str, RunResult], cutting: Cutting) -> tuple[str, ...]:
    """Says so where backends were not timed side by side."""
    targets = [target for sweep in sweeps_of(cutting, end_to_end=True) for target in sweep]
    apart = 0
    for target in targets:
        found = [
            run.outcome.measurements.get(run.request.key(target.brick.signature, target.kind))
            for run in runs.values()
        ]
        sessions = [{taken.session for taken in each.observations} for each in found if each]
        apart += len(sessions) > 1 and not set.intersection(*sessions)
    if not apart:
        return ()
    return (
        f"{apart} of {len(targets)} networks were timed in different sessions on different "
        "backends: drift of the machine is part of their ratios "
        f"({argument('force')} times all anew)",
    )

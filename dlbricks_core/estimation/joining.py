"""Joins results for several groups of models into one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Plan
from dlbricks_core.estimation.results import AdaptiveRun, Benchmarking, BrickResult, RunResult
from dlbricks_core.measure.cutting import Cutting


def joined(parts: Mapping[tuple[int, ...], RunResult]) -> RunResult:
    """One result for all models, each with the estimate of its part.

    Settings are those of the first part.

    Args:
        parts: Results under one request, by the positions of their models in the joint result.
    """
    results = list(parts.values())
    first = results[0]
    if len(results) == 1:
        return first
    placed = sorted(
        (position, i, part)
        for part, (positions, _) in enumerate(parts.items())
        for i, position in enumerate(positions)
    )
    return replace(
        first,
        cutting=_cutting([each.cutting for each in results], [(p, i) for _, i, p in placed]),
        models=[results[part].models[i] for _, i, part in placed],
        bricks=_bricks(results),
        benchmarking=_benchmarking(results),
        ledger=reduce(or_, (each.ledger for each in results)),
        adaptive=_adaptive(results, [(p, i) for _, i, p in placed]),
        peak_bytes=max((e.peak_bytes for e in results if e.peak_bytes is not None), default=None),
    )


def part_of(result: RunResult, positions: Sequence[int]) -> RunResult:
    """The part of a result for some models, with their bricks.

    Args:
        result: Result for all models.
        positions: Positions of the models that stay, in order.
    """
    cutting = result.cutting.only(positions)
    kept = cutting.brickset.bricks
    return replace(
        result,
        cutting=cutting,
        models=[result.models[i] for i in positions],
        bricks=[each for each in result.bricks if each.brick.signature in kept],
    )


def _cutting(cuttings: Sequence[Cutting], places: Sequence[tuple[int, int]]) -> Cutting:
    """Cutting of all models.

    Args:
        cuttings: Cuttings, each of some of the models.
        places: For each model, its cutting and its position in that cutting.
    """
    first = cuttings[0].brickset
    brickset = BrickSet(
        first.granularity,
        first.strategy,
        {s: brick for each in cuttings for s, brick in each.brickset.bricks.items()},
        [cuttings[part].brickset.models[i] for part, i in places],
        first.rereading,
    )
    plan = Plan(
        {s: brick for each in cuttings for s, brick in each.plan.timed.items()},
        {s: recipes for each in cuttings for s, recipes in each.plan.recipes.items()},
    )
    seconds = sum(each.seconds for each in cuttings)
    footprints = {s: found for each in cuttings for s, found in each.footprints.items()}
    return replace(
        cuttings[0], brickset=brickset, plan=plan, seconds=seconds, footprints=footprints
    )


def _bricks(results: Sequence[RunResult]) -> list[BrickResult]:
    """Results for all bricks, without duplicates."""
    found: dict[str, BrickResult] = {}
    for each in (brick for result in results for brick in result.bricks):
        before = found.get(each.brick.signature)
        number = each.occurrences + (before.occurrences if before else 0)
        found[each.brick.signature] = replace(before or each, occurrences=number)
    return list(found.values())


def _adaptive(
    results: Sequence[RunResult], places: Sequence[tuple[int, int]]
) -> AdaptiveRun | None:
    """Progress of all parts together, without the precision that more time would reach."""
    runs = [each.adaptive for each in results if each.adaptive is not None]
    if not runs:
        return None
    halves = [
        each.adaptive.half_widths
        if each.adaptive
        else [model.estimate.half_width for model in each.models]
        for each in results
    ]
    return replace(
        runs[0],
        half_widths=tuple(halves[part][i] for part, i in places),
        timed=sum(each.timed for each in runs),
        wholes=sum(each.wholes for each in runs),
        importing_s=sum(each.importing_s for each in runs),
        offers=(),
        seconds=_total([each.seconds for each in runs]),
        plain_s=_total([each.plain_s for each in runs]),
    )


def _total(seconds: Sequence[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


def _benchmarking(results: Sequence[RunResult]) -> Benchmarking | None:
    costs = [each.benchmarking for each in results if each.benchmarking]
    if not costs:
        return None
    return Benchmarking(sum(each.models_s for each in costs), sum(each.bricks_s for each in costs))

"""Joins results for several groups of models into one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Plan
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.measuring import Outcome
from dlbricks_core.workflows.results import Benchmarking, BrickResult, RunResult


def joined(parts: Mapping[tuple[int, ...], RunResult]) -> RunResult:
    """One result for all models, each with the estimate of its own part.

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
        outcome=reduce(_both, (each.outcome for each in results)),
    )


def part_of(result: RunResult, positions: Sequence[int]) -> RunResult:
    """The result for some of its models, with their bricks.

    Args:
        result: Result for all models.
        positions: Positions of the models that stay, in order.
    """
    cutting = cutting_of(result.cutting, positions)
    kept = cutting.brickset.bricks
    return replace(
        result,
        cutting=cutting,
        models=[result.models[i] for i in positions],
        bricks=[each for each in result.bricks if each.brick.signature in kept],
    )


def cutting_of(cutting: Cutting, positions: Sequence[int]) -> Cutting:
    """The cutting of some of its models, with their bricks.

    Args:
        cutting: Cutting of all models.
        positions: Positions of the models that stay, in order.
    """
    brickset = cutting.brickset
    models = [brickset.models[i] for i in positions]
    kept = dict.fromkeys(signature for cut in models for signature in cut.counts)
    bricks = {signature: brickset.bricks[signature] for signature in kept}
    return replace(cutting, brickset=replace(brickset, bricks=bricks, models=models))


def _cutting(cuttings: Sequence[Cutting], places: Sequence[tuple[int, int]]) -> Cutting:
    """Cutting of all models.

    Args:
        cuttings: Cuttings, each of some of the models.
        places: For each model, its cutting and its position in it.
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


def _benchmarking(results: Sequence[RunResult]) -> Benchmarking | None:
    costs = [each.benchmarking for each in results if each.benchmarking]
    if not costs:
        return None
    return Benchmarking(sum(each.models_s for each in costs), sum(each.bricks_s for each in costs))


def _both(one: Outcome, other: Outcome) -> Outcome:
    """Outcome of two results for different models."""
    return replace(
        one,
        measurements={**one.measurements, **other.measurements},
        failures={**one.failures, **other.failures},
        unsupported={**one.unsupported, **other.unsupported},
        reused=one.reused + other.reused,
        anew=one.anew | other.anew,
        effort=one.effort + other.effort,
        warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))),
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
    )

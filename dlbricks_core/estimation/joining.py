"""One result for models that were estimated in several ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TypeVar

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Plan
from dlbricks_core.estimation.results import AdaptiveRun, Benchmarking, BrickResult, RunResult
from dlbricks_core.measure.cutting import Cutting

ValueT = TypeVar("ValueT")


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
    places = sorted(
        (place, i, part) for part, own in enumerate(parts) for i, place in enumerate(own)
    )

    def in_order(of_parts: Iterable[Sequence[ValueT]]) -> list[ValueT]:
        every = list(of_parts)
        return [every[part][i] for _, i, part in places]

    costs = [each.benchmarking for each in results if each.benchmarking]
    models_s, bricks_s = sum(e.models_s for e in costs), sum(e.bricks_s for e in costs)
    return replace(
        first,
        cutting=_joint_cutting([each.cutting for each in results], in_order),
        models=in_order(each.models for each in results),
        bricks=_joint_bricks(results),
        benchmarking=Benchmarking(models_s, bricks_s) if costs else None,
        ledger=reduce(or_, (each.ledger for each in results)),
        adaptive=_joint_progress(results, in_order(map(_half_widths, results))),
        peak_bytes=max((e.peak_bytes for e in results if e.peak_bytes is not None), default=None),
    )


def _joint_cutting(
    cuttings: Sequence[Cutting],
    in_order: Callable[[Iterable[Sequence[CutModel]]], list[CutModel]],
) -> Cutting:
    """Cutting of all models.

    Args:
        cuttings: Cuttings, each of some of the models.
        in_order: Brings the models of all cuttings into their order.
    """
    first = cuttings[0]
    return replace(
        first,
        brickset=replace(
            first.brickset,
            bricks={s: each for cutting in cuttings for s, each in cutting.brickset.bricks.items()},
            models=in_order(each.brickset.models for each in cuttings),
        ),
        plan=Plan(
            {s: brick for each in cuttings for s, brick in each.plan.timed.items()},
            {s: recipes for each in cuttings for s, recipes in each.plan.recipes.items()},
        ),
        seconds=sum(each.seconds for each in cuttings),
        footprints={s: found for each in cuttings for s, found in each.footprints.items()},
    )


def _joint_bricks(results: Sequence[RunResult]) -> list[BrickResult]:
    """Results for all bricks, without duplicates."""
    found: dict[str, BrickResult] = {}
    for each in (brick for result in results for brick in result.bricks):
        before = found.get(each.brick.signature)
        number = each.occurrences + (before.occurrences if before else 0)
        found[each.brick.signature] = replace(before or each, occurrences=number)
    return list(found.values())


def _half_widths(result: RunResult) -> Sequence[float]:
    """Half-width of each model's interval. Adaptive measuring knows none of a partial estimate."""
    estimates = [each.estimate for each in result.models]
    if not result.adaptive:
        return [each.half_width_now for each in estimates]
    halves = zip(estimates, result.adaptive.half_widths, strict=True)
    return [math.inf if each.partial else half for each, half in halves]


def _joint_progress(
    results: Sequence[RunResult], half_widths: Sequence[float]
) -> AdaptiveRun | None:
    """Progress of all parts together, without the precision that more time would reach."""
    runs = [each.adaptive for each in results if each.adaptive is not None]
    if not runs:
        return None
    ran = [each.seconds for each in runs if each.seconds is not None]
    plain = [each.plain_s for each in runs if each.plain_s is not None]
    measured = [[b for b in e.bricks if b.origin not in (None, "predicted")] for e in results]
    return replace(
        runs[0],
        half_widths=tuple(half_widths),
        timed=sum(
            each.adaptive.timed if each.adaptive else len(own)
            for each, own in zip(results, measured, strict=True)
        ),
        wholes=sum(each.wholes for each in runs),
        importing_s=sum(each.importing_s for each in runs),
        offers=(),
        seconds=sum(ran) if ran else None,
        waited_s=sum(each.waited_s for each in runs),
        plain_s=sum(plain) if len(plain) == len(runs) else None,
    )

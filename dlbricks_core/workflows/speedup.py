"""What timing whole models costs, and what timing their bricks instead costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.facts import Kind, Measurement
from dlbricks_core.figures.figure import Figure, interval, relative_half_width
from dlbricks_core.figures.precision import FEWEST
from dlbricks_core.measure.session import Effort
from dlbricks_core.workflows.results import Benchmarking, ModelResult, RunResult


@dataclass(frozen=True)
class Speedups:
    """How much less benchmarking by bricks costs, in three definitions.

    Attributes:
        paper: One run of each whole model over one run of each unique brick.
        wall_clock: Seconds spent on whole models over seconds spent on bricks, loading
            included; ``None`` unless this run took all of the samples. What failed is
            part of it: its seconds were spent. Models that differ in their weights alone
            are timed once; the seconds count for each of them.
        equal_precision: The same, with the runs that both sides would need until the
            intervals are as narrow as ``precision``; see :func:`at_precision`.
        precision: Half-width of the 90% intervals, relative to the latency.
    """

    paper: Benchmarking | None
    wall_clock: Benchmarking | None
    equal_precision: Benchmarking | None
    precision: float

    @classmethod
    def of(cls, result: RunResult, models: Sequence[ModelResult], precision: float) -> Speedups:
        """Speedups of a run.

        Args:
            result: Of the run.
            models: Those of its models that have an estimate and a measured latency.
            precision: To compare both sides at.
        """
        known = all(_taken_now(result, kind) for kind in ("model", "brick"))
        both = known and bool(models)
        seconds = result.effort.seconds
        models_s = seconds["model"] + _again_s(result, models)
        return cls(
            paper=result.benchmarking,
            wall_clock=Benchmarking(models_s, seconds["brick"]) if both else None,
            equal_precision=at_precision(result, models, precision) if both else None,
            precision=precision,
        )


def at_precision(
    result: RunResult, models: Sequence[ModelResult], precision: float
) -> Benchmarking:
    """Seconds that each side would take to reach the same relative precision.

    The half-width of an interval shrinks with the root of the number of runs. A model
    whose measured latency has the relative half-width ``h`` after ``n`` runs therefore
    needs ``n * (h / precision)**2`` runs, but never fewer than :data:`FEWEST`. The
    half-width of its estimate says in the same way by how much the runs of all of its
    bricks have to be multiplied; a brick of several models takes the largest of their
    factors. Each run counts with the mean of its network's samples, and with what a run of
    that side costs besides (touching inputs, waking threads). What was spent on loading
    and warming up, and on asking the backend what it executes, counts once.

    Args:
        result: Of a run that took all of its samples itself.
        models: Those of its models that have an estimate and a measured latency.
        precision: Relative half-width to reach.
    """
    wholes: list[Figure] = []
    factors: dict[str, float] = {}
    for model in models:
        assert model.measured is not None
        wholes.append(model.measured)
        factor = _factor(relative_half_width(model.estimate.scatter), precision)
        for signature in result.timed_for(model.cut):
            factors[signature] = max(factors.get(signature, 0.0), factor)
    loading_s = Effort.of(_again(result, models)).loading["model"]
    largest = max(factors.values(), default=0.0)
    whole_runs = [
        (whole, _factor(relative_half_width(interval(whole.replicates)), precision))
        for whole in wholes
    ]
    brick_runs = [
        (each.latency, factors.get(each.brick.signature, largest))
        for each in result.bricks
        if each.latency and not each.derived_from
    ]
    return Benchmarking(
        loading_s + _side_s(result, "model", whole_runs), _side_s(result, "brick", brick_runs)
    )


def _factor(half_width: float, precision: float) -> float:
    """By how much the number of runs has to change."""
    return (half_width / precision) ** 2


def _side_s(result: RunResult, kind: Kind, runs: Iterable[tuple[Figure, float]]) -> float:
    """Seconds for loading, and for so many times the runs of each network."""
    besides_s = _besides_s(result, kind)
    seconds = result.effort.loading[kind]
    for latency, factor in runs:
        number = max(math.ceil(len(latency.samples) * factor), FEWEST)
        seconds += number * (float(np.mean(latency.samples)) / 1e3 + besides_s)
    return seconds


def _again_s(result: RunResult, models: Sequence[ModelResult]) -> float:
    """What timing them once more would take, for models that are equal but for their weights."""
    return Effort.of(_again(result, models)).seconds["model"]


def _again(result: RunResult, models: Sequence[ModelResult]) -> list[Measurement]:
    """Measurements of whole models that stand for one more model, each time that they do."""
    seen: set[str] = set()
    found = []
    for model in models:
        signature = model.cut.whole.signature
        if signature in seen:
            key = result.request.key(signature, "model")
            found.append(result.outcome.measurements[key])
        seen.add(signature)
    return found


def _measured(result: RunResult, kind: Kind) -> list[Measurement]:
    return [m for key, m in result.outcome.measurements.items() if key.subject.kind == kind]


def _taken_now(result: RunResult, kind: Kind) -> bool:
    """Whether the run itself took every sample of the kind, and so knows what they cost."""
    samples = sum(len(measurement.values) for measurement in _measured(result, kind))
    return 0 < samples <= result.effort.runs[kind]


def _besides_s(result: RunResult, kind: Kind) -> float:
    """What a run of the kind cost on average beside the latency that it was to measure."""
    effort = result.effort
    timed_s = sum(sum(measurement.values) for measurement in _measured(result, kind)) / 1e3
    spent_s = effort.seconds[kind] - effort.loading[kind]
    return max(spent_s - timed_s, 0.0) / max(effort.runs[kind], 1)

"""What timing whole models costs, and what timing their bricks instead costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.measure.latency import Latency, interval
from dlbricks_core.store import Kind, Measurement
from dlbricks_core.workflows.results import Benchmarking, ModelResult, RunResult

FEWEST_RUNS = 6
"""With fewer samples no interval of the median reaches a level of 95%."""


@dataclass(frozen=True)
class Speedups:
    """How much less benchmarking by bricks costs, in three definitions.

    Attributes:
        paper: One run of each whole model over one run of each unique brick.
        wall_clock: Seconds spent on whole models over seconds spent on bricks, loading
            included; ``None`` unless this run took all of the samples. What failed is
            part of it: its seconds were spent.
        equal_precision: The same, with the runs that both sides would need until the
            intervals are as narrow as ``precision``; see :func:`at_precision`.
        precision: Half-width of the 95% intervals, relative to the latency.
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
        return cls(
            paper=result.benchmarking,
            wall_clock=Benchmarking(seconds["model"], seconds["brick"]) if both else None,
            equal_precision=at_precision(result, models, precision) if both else None,
            precision=precision,
        )


def at_precision(
    result: RunResult, models: Sequence[ModelResult], precision: float
) -> Benchmarking:
    """Seconds that each side would take to reach the same relative precision.

    The half-width of an interval shrinks with the root of the number of runs. A model
    whose measured latency has the relative half-width ``h`` after ``n`` runs therefore
    needs ``n * (h / precision)**2`` runs, but never fewer than :data:`FEWEST_RUNS`. The
    half-width of its estimate says in the same way by how much the runs of all of its
    bricks have to be multiplied; a brick of several models takes the largest of their
    factors. Each run counts with the mean of its network's samples. All else that was
    spent on a side (loading, warming up, waking threads) counts once, as it was spent.

    Args:
        result: Of a run that took all of its samples itself.
        models: Those of its models that have an estimate and a measured latency; one that
            occurs twice is timed once.
        precision: Relative half-width to reach.
    """
    wholes: dict[str, Latency] = {}
    factors: dict[str, float] = {}
    for model in models:
        assert model.measured is not None
        wholes[model.cut.whole.signature] = model.measured
        factor = _factor(relative_half_width(model.estimate.interval_ms), precision)
        for signature in model.cut.counts:
            factors[signature] = max(factors.get(signature, 0.0), factor)
    largest = max(factors.values(), default=0.0)
    models_s = _overhead_s(result, "model") + sum(
        _sampling_s(whole, _factor(relative_half_width(interval(whole.replicates)), precision))
        for whole in wholes.values()
    )
    bricks_s = _overhead_s(result, "brick") + sum(
        _sampling_s(each.latency, factors.get(each.brick.signature, largest))
        for each in result.bricks
        if each.latency
    )
    return Benchmarking(models_s, bricks_s)


def relative_half_width(ends: tuple[float, float] | None) -> float:
    """Half the width of an interval over its middle; 0 where there is none."""
    if ends is None or not sum(ends):
        return 0.0
    low, high = ends
    return (high - low) / (high + low)


def _factor(half_width: float, precision: float) -> float:
    """By how much the number of runs has to change."""
    return (half_width / precision) ** 2


def _sampling_s(latency: Latency, factor: float) -> float:
    runs = max(math.ceil(len(latency.samples_ms) * factor), FEWEST_RUNS)
    return runs * float(np.mean(latency.samples_ms)) / 1e3


def _measured(result: RunResult, kind: Kind) -> list[Measurement]:
    return [m for key, m in result.outcome.measurements.items() if key.kind == kind]


def _taken_now(result: RunResult, kind: Kind) -> bool:
    """Whether the run itself took every sample of the kind, and so knows what they cost."""
    samples = sum(len(measurement.samples_ms) for measurement in _measured(result, kind))
    return 0 < samples <= result.effort.runs[kind]


def _overhead_s(result: RunResult, kind: Kind) -> float:
    """Seconds that did not go into the timed runs themselves."""
    runs_s = sum(sum(measurement.samples_ms) for measurement in _measured(result, kind)) / 1e3
    return max(result.effort.seconds[kind] - runs_s, 0.0)

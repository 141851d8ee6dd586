"""Speedup of benchmarking by bricks over benchmarking by whole models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.estimation.results import Benchmarking, ModelResult, RunResult
from dlbricks_core.facts import Kind, Measurement
from dlbricks_core.figures.figure import Figure, interval, relative_half_width
from dlbricks_core.figures.precision import FEWEST
from dlbricks_core.measure.ledger import Effort


@dataclass(frozen=True)
class Speedups:
    """Speedup of benchmarking by bricks, in three definitions.

    Attributes:
        paper: Time of one run of each whole model, divided by one run of each unique brick.
        wall_clock: Seconds spent on whole models over seconds spent on bricks, including loading;
            ``None`` unless this run took all of the samples. Failed networks count with the seconds
            spent on them. Models that differ only in their weights are timed once, and the seconds
            count for each of them.
        equal_precision: Wall-clock speedup with the runs that both sides would need to narrow their
            intervals to ``precision``; see :func:`at_precision`.
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
            result: Result of the run.
            models: Models of the run with an estimate and a measured latency.
            precision: Relative half-width at which both sides are compared.
        """
        known = all(_taken_now(result, kind) for kind in ("model", "brick"))
        both = known and bool(models)
        seconds = result.effort.seconds
        # Models that differ from others only in their weights would be timed again.
        models_s = seconds["model"] + Effort.of(_again(result, models)).seconds["model"]
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
    needs ``n * (h / precision)**2`` runs, but never fewer than :data:`FEWEST`. The half-width of
    its estimate gives the factor for the runs of all its bricks in the same way; a brick of several
    models gets the largest of their factors. Each run counts with the mean of its network's
    samples, plus the mean overhead of a run on that side (touching inputs, waking threads). The
    seconds of loading, of warming up and of rewriting models count once.

    Args:
        result: Result of a run that took all of its samples itself.
        models: Models of the run with an estimate and a measured latency.
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
    """Factor by which the number of runs has to change."""
    return (half_width / precision) ** 2


def _side_s(result: RunResult, kind: Kind, runs: Iterable[tuple[Figure, float]]) -> float:
    """Seconds for loading, and for the runs of each network times a factor."""
    besides_s = _besides_s(result, kind)
    seconds = result.effort.loading[kind]
    for latency, factor in runs:
        number = max(math.ceil(len(latency.samples) * factor), FEWEST)
        seconds += number * (float(np.mean(latency.samples)) / 1e3 + besides_s)
    return seconds


def _again(result: RunResult, models: Sequence[ModelResult]) -> list[Measurement]:
    """Measurements of whole models, once for each additional model that they represent."""
    seen: set[str] = set()
    found = []
    for model in models:
        signature = model.cut.whole.signature
        if signature in seen:
            key = result.request.key(signature, "model")
            found.append(result.ledger.measurements[key])
        seen.add(signature)
    return found


def _measured(result: RunResult, kind: Kind) -> list[Measurement]:
    return [m for key, m in result.ledger.measurements.items() if key.subject.kind == kind]


def _taken_now(result: RunResult, kind: Kind) -> bool:
    """Whether the run itself took every sample of the kind, so that their cost is known."""
    samples = sum(len(measurement.values) for measurement in _measured(result, kind))
    return 0 < samples <= result.effort.runs[kind]


def _besides_s(result: RunResult, kind: Kind) -> float:
    """Mean overhead of a run of the kind, beyond the measured latency, in seconds."""
    effort = result.effort
    timed_s = sum(sum(measurement.values) for measurement in _measured(result, kind)) / 1e3
    spent_s = effort.seconds[kind] - effort.loading[kind]
    return max(spent_s - timed_s, 0.0) / max(effort.runs[kind], 1)

"""Service times of instances that never ran side by side, predicted from latencies.

The latency of an instance alone is that of one inference after another. Beside others, an instance
is slower by the baseline's factor for shared caches and memory. Inferences scatter as samples of
the whole model did, if it was timed. Otherwise all take the same time, because disturbances of a
machine cannot be predicted: only queues are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import Note
from dlbricks_core.figures.figure import RESAMPLES, Measured
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.operators.domains import as_run_by
from dlbricks_core.store import ResultStore
from dlbricks_serving.notes import note
from dlbricks_serving.scenarios import ServiceTimes
from dlbricks_serving.serving.composed import Composed
from dlbricks_serving.serving.slowdowns import slowdowns

UNDISTURBED = note("disturbances-not-predicted")
"""Note on predicted percentiles."""


@dataclass(frozen=True)
class RepetitionEffect:
    """Change of latency from a timed model to inferences one after another."""

    #: Standard deviation of the relative difference between a latency and one in an instance that
    #: does nothing else: its weights are as warm as the inference before leaves them.
    error: float


@cache
def repeated() -> RepetitionEffect:
    """The difference that was fitted."""
    return RepetitionEffect(**fitted.values(__file__, "repeated"))


@dataclass(frozen=True)
class PredictedLoads:
    """Service times of models, predicted."""

    #: Service times of each model, by number of instances.
    models: Sequence[Mapping[int, Composed]]
    notes: Sequence[Note] = ()  #: Basis of the predictions, and reasons to doubt them.


def predicted_service_times(
    models: Sequence[CanonicalModel],
    request: Request,
    numbers: Sequence[int],
    store: ResultStore,
    predictor: str,
) -> PredictedLoads:
    """Service times of each model's instances, predicted from latencies. Runs nothing.

    Args:
        models: Models in canonical form.
        request: How each instance runs, and on which system.
        numbers: Numbers of instances, all of which are busy.
        store: Store of latencies, which come before predicted ones.
        predictor: Name of the predictor of latencies.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    result = estimate(models, None, request, store, predictor)
    found = [
        _predicted(model, each, request, numbers)
        for model, each in zip(models, result.models, strict=True)
    ]
    return PredictedLoads(found, result.ledger.notes)


def _predicted(
    model: CanonicalModel, result: ModelResult, request: Request, numbers: Sequence[int]
) -> Mapping[int, Composed]:
    alone = _latency(result)
    if alone is None:
        first = next(iter(result.missing.values()), "no figure of it is known")
        return {number: Composed(model, reason=first) for number in numbers}
    assert alone.value is not None
    figure = result.measured
    samples = figure.samples if isinstance(figure, Measured) else [alone.value]
    layers = as_run_by(request.backend.traits.domains, model)
    longer = slowdowns(layers, request.target, request.setup, numbers)
    return {
        number: _beside(model, alone, np.array(samples), number, factor)
        for number, factor in zip(numbers, longer, strict=True)
    }


def _latency(result: ModelResult) -> Estimate | None:
    """Latency of the model that nothing disturbs: measured, or else estimated."""
    if result.measured is not None:
        known = Estimate(result.measured.value, None, draws=result.measured.plausible)
    elif result.estimate.partial or result.estimate.draws is None:
        return None
    else:
        known = result.estimate
    return replace(known, composing_error=math.hypot(known.composing_error, repeated().error))


def _beside(
    model: CanonicalModel, alone: Estimate, single: FloatArray, number: int, factor: float
) -> Composed:
    """Service times of a number of busy instances.

    Args:
        model: The model.
        alone: Latency of one of them alone.
        single: Latencies of one of them alone that may occur, in milliseconds: shape (k,).
        number: Number of instances.
        factor: Expected latency beside the others over that alone.
    """
    assert alone.value is not None
    assert alone.draws is not None
    if number == 1:
        return Composed(model, ServiceTimes(1, single), alone, predicted=True)
    # Between no contention and twice as much as expected; the same for all models of a system.
    doubts = np.random.default_rng(number).uniform(0, 2, RESAMPLES)
    several = replace(
        alone, value=factor * alone.value, draws=alone.draws * factor**doubts, interval=None
    )
    service = ServiceTimes(number, factor * single, {1: single})
    return Composed(model, service, alone, several, predicted=True)

"""Python of the program whose figures the answers are, beside the operators that are timed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dlbricks_core.backends import Interpreted
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.facts import System
from dlbricks_core.figures.figure import RESAMPLES, Combined
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.machine.speed import generation_of
from dlbricks_sizes.machine_speed import call_s
from dlbricks_sizes.notes import note


def with_engine(result: RunResult) -> RunResult:
    """The result of a run, with the time of the program's Python in all latencies.

    A model of the user's own runs its own graph, without such a program. Measured latencies are
    those of the operators, and get the time as well. A note names it.
    """
    backend, settings = result.request.backend, result.request.settings
    found = [
        backend.interpreted(each.cut.model, settings) if each.cut.model.configuration else None
        for each in result.models
    ]
    works = [each for each in found if each is not None]
    if not works:
        return result
    model = result.models[0].cut.model
    is_here = result.request.target.fingerprint == result.request.system.fingerprint
    call_ms = 1e3 * (call_s() if is_here else _call_s(works[0], result.request.target))
    models = [
        each if work is None else _with_python(each, work.calls * call_ms, work.spread)
        for each, work in zip(result.models, found, strict=True)
    ]
    most = call_ms * max(work.calls for work in works)
    named = note("engine-python", engine=backend.engine(settings, model), ms=most, measured=is_here)
    return replace(result, models=models).noting(named)


def _call_s(work: Interpreted, system: System) -> float:
    """Seconds of a call of a Python method on another system, by its published speed."""
    published = generation_of(system.vendor, system.family, system.model)
    return 1e-9 * work.call_work / (published.ghz * published.instructions)


def _with_python(result: ModelResult, ms: float, spread: float) -> ModelResult:
    if result.estimate.value is None:
        return result
    measured = result.measured
    if measured is not None:
        factors = np.exp(spread * np.random.default_rng(1).standard_normal(RESAMPLES))
        measured = Combined(((1.0, measured), (1.0, Predicted(ms, ms * factors))))
    return replace(result, estimate=_later(result.estimate, ms, spread), measured=measured)


def _later(estimate: Estimate, ms: float, spread: float) -> Estimate:
    """An estimate that takes some milliseconds longer, with their relative error in its ends."""
    assert estimate.value is not None
    error = NORMAL_HALF_WIDTH * spread * ms

    def later(ends: tuple[float, float] | None) -> tuple[float, float] | None:
        return ends and (ends[0] + max(ms - error, 0.0), ends[1] + ms + error)

    value = estimate.value + ms
    share = estimate.value / value
    return replace(
        estimate,
        value=value,
        interval=later(estimate.interval),
        this_hour=later(estimate.this_hour),
        scatter=estimate.scatter and (estimate.scatter[0] + ms, estimate.scatter[1] + ms),
        draws=None if estimate.draws is None else estimate.draws + ms,
        composing_error=float(np.hypot(share * estimate.composing_error, spread * ms / value)),
    )

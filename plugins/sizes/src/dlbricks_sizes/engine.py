"""Python and page faults of the program whose figures the answers are, beside the operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

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
from dlbricks_sizes.machine_speed import call_s, fault_s
from dlbricks_sizes.notes import note


def with_engine(result: RunResult) -> RunResult:
    """The result of a run, with the time of the program's Python and page faults in all latencies.

    A model of the user's own runs its own graph, without such a program. Measured latencies are
    those of the operators, and get the time as well. Notes name it.
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
    fault_ms = 1e3 * fault_s() if any(each.faults for each in works) else 0.0
    models = [
        each if work is None else _with_program(each, _Added.of(work, call_ms, fault_ms))
        for each, work in zip(result.models, found, strict=True)
    ]
    program = backend.engine(settings, model)
    most = call_ms * max(work.calls for work in works)
    notes = [note("engine-python", engine=program, ms=most, measured=is_here)]
    faults_ms = fault_ms * max(work.faults for work in works)
    if faults_ms >= _LEAST_MS:
        notes.append(note("engine-faults", engine=program, ms=faults_ms))
    return replace(result, models=models).noting(*notes)


_LEAST_MS = 0.5
"""Milliseconds of page faults that are worth a note."""


@dataclass(frozen=True)
class _Added:
    """Time of a program beside the operators.

    Attributes:
        ms: Mean milliseconds of one run.
        spread_ms: Standard deviation of their error.
    """

    ms: float
    spread_ms: float

    @classmethod
    def of(cls, work: Interpreted, call_ms: float, fault_ms: float) -> Self:
        """The time of calls of Python and of page faults."""
        python, faults = work.calls * call_ms, work.faults * fault_ms
        spread = float(np.hypot(work.spread * python, work.faults_spread * faults))
        return cls(python + faults, spread)


def _call_s(work: Interpreted, system: System) -> float:
    """Seconds of a call of a Python method on another system, by its published speed."""
    published = generation_of(system.vendor, system.family, system.model)
    return 1e-9 * work.call_work / (published.ghz * published.instructions)


def _with_program(result: ModelResult, added: _Added) -> ModelResult:
    if result.estimate.value is None:
        return result
    measured = result.measured
    if measured is not None:
        errors = added.spread_ms * np.random.default_rng(1).standard_normal(RESAMPLES)
        drawn = np.maximum(added.ms + errors, 0.0)
        measured = Combined(((1.0, measured), (1.0, Predicted(added.ms, drawn))))
    return replace(result, estimate=_later(result.estimate, added), measured=measured)


def _later(estimate: Estimate, added: _Added) -> Estimate:
    """An estimate that takes some milliseconds longer, with their error in its ends."""
    assert estimate.value is not None
    ms, error = added.ms, NORMAL_HALF_WIDTH * added.spread_ms

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
        composing_error=float(np.hypot(share * estimate.composing_error, added.spread_ms / value)),
    )

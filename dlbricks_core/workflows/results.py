"""What a run found out, put together from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.compose import Composer, Estimate, Parallel
from dlbricks_core.measure.latency import Inferred, Latency, interval
from dlbricks_core.measure.session import Effort
from dlbricks_core.measure.statistics import median, warnings_for
from dlbricks_core.plugins import find
from dlbricks_core.store import Calibration, CalibrationKey, Measurement
from dlbricks_core.workflows.context import Context, MeasureOptions
from dlbricks_core.workflows.measuring import Outcome

_NATIVE_TOLERANCE = 0.03
"""Relative difference to the framework's own form from which on it is worth a note."""

_CALIBRATED_ON = ("its interval is not calibrated: the calibration was taken on it, among others",)


@dataclass(frozen=True)
class CutOptions:
    """How models are cut and composed again.

    Attributes:
        granularity: The most layers that a brick may hold.
        strategy: Name of the split strategy.
        composer: Name of the composer behind ``Estimate``.
    """

    granularity: int = 1
    strategy: str = "chain"
    composer: str = "sequential"

    @classmethod
    def chosen(
        cls, granularity: int | None, strategy: str | None, composer: str | None
    ) -> CutOptions:
        """What is meant where the user left something open.

        Whoever asks for a granularity or a strategy and for no composer gets the paper's
        sum; whoever asks for nothing gets the composer that estimates best.

        Raises:
            PluginError: If there is no such composer, or it is broken.
        """
        if composer is None:
            asked = granularity is not None or strategy is not None
            composer = PAPER_COMPOSER if asked else DEFAULT_COMPOSER
        found = find_composer(composer)
        return cls(granularity or found.granularity, strategy or found.strategy, composer)

    def calibration_key(self, context: Context) -> CalibrationKey:
        """Where numbers are kept that were fitted for this."""
        return context.calibration_key(self.composer, self.strategy, self.granularity)


DEFAULT_COMPOSER = "segmented"
FASTEST_COMPOSER = "similar"
PAPER_COMPOSER = "sequential"


@dataclass(frozen=True)
class ModelResult:
    """What is known about one model.

    Attributes:
        cut: The model and its bricks.
        estimate: By the composer that was asked for.
        parallel: The critical path's estimate.
        measured: Latency of the whole model, if it was measured.
        native: The same in its framework's own form, if the backend is that framework.
        missing: Why each brick without a measurement has none, by signature.
        unsupported: Those of them that the backend has no counterpart for.
        failure: Why the whole model has no latency, if it was to be measured.
        notes: What to keep in mind when reading the figures.
    """

    cut: CutModel
    estimate: Estimate
    parallel: Estimate
    measured: Latency | None = None
    native: Latency | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    notes: Sequence[str] = ()

    @property
    def normalized(self) -> float | None:
        """Estimate over measurement; ``None`` if one is missing or partial."""
        if self.measured is None or self.estimate.ms is None or self.estimate.partial:
            return None
        return self.estimate.ms / self.measured.ms

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval over the measurement; ``None`` as for ``normalized``."""
        ends = self.estimate.interval_ms
        if self.measured is None or self.normalized is None or ends is None:
            return None
        return ends[0] / self.measured.ms, ends[1] / self.measured.ms


@dataclass(frozen=True)
class BrickResult:
    """What is known about one brick.

    Attributes:
        brick: The brick.
        occurrences: How often it stands in the models of this run.
        latency: If it was measured, or follows from that of a similar brick.
        failure: Why it was not, otherwise.
        warnings: What makes its samples doubtful.
    """

    brick: Brick
    occurrences: int
    latency: Latency | None
    failure: str = ""
    warnings: Sequence[str] = ()

    @property
    def like(self) -> str:
        """Signature of the similar brick that was timed in its place; empty for its own."""
        return self.latency.like if isinstance(self.latency, Inferred) else ""

    @property
    def interval_ms(self) -> tuple[float, float] | None:
        """90% interval of the latency."""
        return interval(self.latency.plausible) if self.latency else None


@dataclass(frozen=True)
class Benchmarking:
    """What benchmarking costs by models and by bricks, over models with both.

    Attributes:
        models_s: Sum of all models' end-to-end latencies, in seconds.
        bricks_s: Sum of the latencies of their unique bricks, in seconds.
    """

    models_s: float
    bricks_s: float

    @property
    def speedup(self) -> float:
        """The paper's benchmarking speedup."""
        return self.models_s / self.bricks_s


@dataclass(frozen=True)
class Failure:
    """Something that has no measurement.

    Attributes:
        model: Name of the model; empty for a brick that came without one.
        what: Operators of the brick and the start of its signature, or "end to end".
        reason: Why it has none.
    """

    model: str
    what: str
    reason: str

    @property
    def where(self) -> str:
        """The model and what in it."""
        return f"{self.model}: {self.what}" if self.model else self.what


@dataclass(frozen=True)
class RunResult:
    """Everything that a run found out.

    Attributes:
        context: What its measurements are identified by.
        options: How it measured.
        cut_options: How models were cut and composed.
        brickset: The bricks.
        models: In the order in which they were given.
        bricks: In order of first occurrence.
        benchmarking: What it saves; ``None`` if no model has both figures.
        outcome: What came of measuring.
        calibration: What the composer's numbers were fitted on; ``None`` for its own.
    """

    context: Context
    options: MeasureOptions
    cut_options: CutOptions
    brickset: BrickSet
    models: Sequence[ModelResult]
    bricks: Sequence[BrickResult]
    benchmarking: Benchmarking | None
    outcome: Outcome
    calibration: Calibration | None = None

    @cached_property
    def timed(self) -> Mapping[str, str]:
        """Of each brick the one that was timed to know of it: itself, or a similar one."""
        return {
            each.brick.signature: each.like or each.brick.signature
            for each in self.bricks
            if each.latency
        }

    @property
    def effort(self) -> Effort:
        """What measuring cost in this run."""
        return self.outcome.effort

    @property
    def call_ms(self) -> float | None:
        """The timer's own cost a call: the median over what was measured."""
        stored = [brick.latency.call_ms for brick in self.bricks if brick.latency]
        return float(median(stored)) if stored else None

    @property
    def failures(self) -> list[Failure]:
        """Everything that is missing and why, each once."""
        found: dict[Failure, None] = {}
        for model in self.models:
            name = model.cut.model.name
            for signature, reason in model.missing.items():
                what = f"{', '.join(model.cut.operators(signature))} ({signature[:8]})"
                found[Failure(name, what, reason)] = None
            if model.failure:
                found[Failure(name, "end to end", model.failure)] = None
        if not self.models:
            for each in self.bricks:
                if each.failure:
                    what = f"{', '.join(each.brick.operators)} ({each.brick.signature[:8]})"
                    found[Failure("", what, each.failure)] = None
        return list(found)


def find_composer(name: str) -> Composer:
    """The composer of that name.

    Raises:
        PluginError: If there is none, or it is broken.
    """
    composer: Composer = find("composer", name, Composer).loaded()
    return composer


def assemble(
    context: Context,
    options: MeasureOptions,
    cut_options: CutOptions,
    brickset: BrickSet,
    outcome: Outcome,
    calibration: Calibration | None = None,
) -> RunResult:
    """Composes estimates and collects what belongs to each model and brick.

    Args:
        context: What the measurements are identified by.
        options: How they were made.
        cut_options: How models were cut, and how they are composed.
        brickset: The models and their bricks.
        outcome: What came of measuring.
        calibration: Fitted numbers for the composer; ``None`` for its own.
    """
    composer = find_composer(cut_options.composer)
    calibrated = composer.calibrated(calibration.values) if calibration else composer
    seen = calibration.signatures if calibration else frozenset()
    counts: dict[str, int] = {}
    for cut in brickset.models:
        for signature, count in cut.counts.items():
            counts[signature] = counts.get(signature, 0) + count
    timed = {
        signature: Latency.of(outcome.measurements[key], context.protocol)
        for signature in brickset.bricks
        if (key := context.key(signature, "brick")) in outcome.measurements
    }
    latencies = calibrated.complete(brickset.bricks, timed)
    bricks = [
        _brick_result(brick, counts.get(signature, 1), latencies.get(signature), context, outcome)
        for signature, brick in brickset.bricks.items()
    ]
    models = [
        # What was measured of a whole model must not come back to it by way of a calibration.
        _model_result(cut, composer, latencies, context, outcome, _CALIBRATED_ON)
        if cut.whole.signature in seen
        else _model_result(cut, calibrated, latencies, context, outcome)
        for cut in brickset.models
    ]
    return RunResult(
        context=context,
        options=options,
        cut_options=cut_options,
        brickset=brickset,
        models=models,
        bricks=bricks,
        benchmarking=_benchmarking(models, latencies),
        outcome=outcome,
        calibration=calibration,
    )


def _brick_result(
    brick: Brick, occurrences: int, latency: Latency | None, context: Context, outcome: Outcome
) -> BrickResult:
    key = context.key(brick.signature, "brick")
    measurement = outcome.measurements.get(key)
    if latency is None:
        reason = outcome.failures.get(key, "not measured")
        return BrickResult(brick, occurrences, None, failure=reason)
    if measurement is None:
        return BrickResult(brick, occurrences, latency)
    warnings = (*warnings_for(latency.samples_ms), *measurement.warnings)
    return BrickResult(brick, occurrences, latency, warnings=warnings)


def _model_result(
    cut: CutModel,
    composer: Composer,
    latencies: Mapping[str, Latency],
    context: Context,
    outcome: Outcome,
    notes: tuple[str, ...] = (),
) -> ModelResult:
    keys = {
        signature: context.key(_timed(signature, latencies), "brick") for signature in cut.counts
    }
    reasons = {
        signature: outcome.failures.get(key, "not measured")
        for signature, key in keys.items()
        if signature not in latencies
    }
    unsupported = {s: r for s, r in reasons.items() if keys[s] in outcome.unsupported}
    whole = context.key(cut.whole.signature, "model")
    measurement = outcome.measurements.get(whole)
    bricks = [outcome.measurements[k] for k in keys.values() if k in outcome.measurements]
    original = outcome.measurements.get(context.key(cut.whole.signature, "native"))
    measured = Latency.of(measurement, context.protocol) if measurement else None
    native = Latency.of(original, context.protocol) if original else None
    return ModelResult(
        cut=cut,
        estimate=composer.compose(cut, latencies),
        parallel=Parallel().compose(cut, latencies),
        measured=measured,
        missing=reasons,
        unsupported=unsupported,
        # Where a brick is missing, the whole model fails for the same reason.
        failure="" if reasons else outcome.failures.get(whole, ""),
        native=native,
        notes=(
            *cut.notes,
            *notes,
            *_session_notes(measurement, bricks),
            *_native_notes(measured, native),
        ),
    )


def _timed(signature: str, latencies: Mapping[str, Latency]) -> str:
    """The brick that was timed to know of this one."""
    latency = latencies.get(signature)
    return latency.like if isinstance(latency, Inferred) else signature


def _native_notes(measured: Latency | None, native: Latency | None) -> tuple[str, ...]:
    """Says so where exporting and lowering a model changed its latency."""
    if measured is None or native is None or abs(measured.ms / native.ms - 1) <= _NATIVE_TOLERANCE:
        return ()
    return (
        f"in its framework's own form it takes {native.ms:.3g} ms; as the IR lowers it, "
        f"{measured.ms / native.ms:.2f} times that",
    )


def _session_notes(whole: Measurement | None, bricks: Sequence[Measurement]) -> tuple[str, ...]:
    """Says so where a model and its bricks were not timed side by side."""
    if whole is None:
        return ()
    sessions = {taken.session for taken in whole.samples}
    apart = sum(sessions.isdisjoint(t.session for t in brick.samples) for brick in bricks)
    if not apart:
        return ()
    return (
        f"{apart} of {len(bricks)} bricks were timed in another session than the whole model: "
        "drift of the machine is part of the normalized latency (--force times all anew)",
    )


def _benchmarking(
    models: Sequence[ModelResult], latencies: Mapping[str, Latency]
) -> Benchmarking | None:
    compared = [m for m in models if m.measured is not None and not m.estimate.partial]
    bricks = {_timed(signature, latencies) for m in compared for signature in m.cut.counts}
    if not bricks:
        return None
    return Benchmarking(
        # Every model counts, also one that differs from another in its weights alone.
        models_s=sum(m.measured.ms for m in compared if m.measured) / 1e3,
        bricks_s=sum(latencies[signature].ms for signature in bricks) / 1e3,
    )

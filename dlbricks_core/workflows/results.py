"""What a run found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.bricks.naming import fold
from dlbricks_core.compose import Estimate
from dlbricks_core.facts import LATENCY, Calibration, Failure, Quantity
from dlbricks_core.facts.failure import Stage
from dlbricks_core.figures.figure import Figure, Origin, interval
from dlbricks_core.figures.statistics import median
from dlbricks_core.measure.session import Effort
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.measuring import Outcome
from dlbricks_core.workflows.request import Request


@dataclass(frozen=True)
class ModelResult:
    """What is known about one model.

    Attributes:
        cut: The model and its bricks.
        estimate: By the composer that was asked for.
        parallel: The critical path's estimate.
        measured: Figure of the whole model, if it was measured.
        native: The same in its framework's own form, if the backend is that framework.
        missing: Why each brick without a measurement has none, by signature.
        unsupported: Those of them that the backend has no counterpart for.
        failure: Why the whole model has no latency, if it was to be measured.
        notes: What to keep in mind when reading the figures.
        origin: Shares of the sum over the known bricks by where their figures come from, without
            the timer's own cost. They add up to 1; empty if no brick is known.
    """

    cut: CutModel
    estimate: Estimate
    parallel: Estimate
    measured: Figure | None = None
    native: Figure | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    notes: Sequence[str] = ()
    origin: Mapping[Origin, float] = field(default_factory=dict)

    @property
    def normalized(self) -> float | None:
        """Estimate over measurement; ``None`` if one is missing or partial, or 0 was measured."""
        if self.measured is None or self.estimate.value is None or self.estimate.partial:
            return None
        return self.estimate.value / self.measured.value if self.measured.value else None

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval over the measurement; ``None`` as for ``normalized``."""
        ends = self.estimate.interval
        if self.measured is None or self.normalized is None or ends is None:
            return None
        return ends[0] / self.measured.value, ends[1] / self.measured.value


@dataclass(frozen=True)
class BrickResult:
    """What is known about one brick.

    Attributes:
        brick: The brick.
        occurrences: How often it stands in the models of this run; 0 for what is timed besides.
        latency: If it was measured, follows from those of others, or was predicted.
        failure: Why there is none, otherwise.
        warnings: What makes its samples doubtful.
        origin: Where the latency comes from; ``None`` if there is none.
        quantity: What the figure is of.
    """

    brick: Brick
    occurrences: int
    latency: Figure | None
    failure: str = ""
    warnings: Sequence[str] = ()
    origin: Origin | None = None
    quantity: Quantity = LATENCY

    @property
    def derived_from(self) -> tuple[str, ...]:
        """Signatures of what was timed in its place; none if it was timed itself."""
        return self.latency.derived_from if self.latency else ()

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
class RunResult:
    """Everything that a run found out.

    Attributes:
        request: How it measured.
        cutting: How models were cut and composed, the bricks, and what was timed for them.
        models: In the order in which they were given.
        bricks: In order of first occurrence, then what was timed besides.
        benchmarking: What it saves; ``None`` if no model has both figures.
        outcome: What came of measuring.
        unread: Models that were named and could not be loaded.
        predictor: Name of the predictor of bricks that the store does not hold; empty for none.
    """

    request: Request
    cutting: Cutting
    models: Sequence[ModelResult]
    bricks: Sequence[BrickResult]
    benchmarking: Benchmarking | None
    outcome: Outcome
    unread: Sequence[Failure] = ()
    predictor: str = ""

    @property
    def cut_options(self) -> CutOptions:
        """How models were cut and composed."""
        return self.cutting.options

    @property
    def brickset(self) -> BrickSet:
        """The models and their bricks."""
        return self.cutting.brickset

    @property
    def calibration(self) -> Calibration | None:
        """Fitted numbers of the composer; ``None`` for its own."""
        return self.cutting.calibration

    @cached_property
    def timed(self) -> Mapping[str, tuple[str, ...]]:
        """Signatures of what was timed to know of each brick: itself, or others."""
        return {
            each.brick.signature: each.latency.networks(each.brick.signature)
            for each in self.bricks
            if each.latency
        }

    def timed_for(self, cut: CutModel) -> set[str]:
        """Signatures of all that was timed, or should have been, to know of a model."""
        return {timed for each in cut.counts for timed in self.timed.get(each, (each,))}

    @property
    def effort(self) -> Effort:
        """What measuring cost in this run."""
        return self.outcome.effort

    @property
    def call_ms(self) -> float | None:
        """The timer's own cost a call: the median over what was measured; of latencies only."""
        if self.request.probe:
            return None
        stored = [brick.latency.overhead for brick in self.bricks if brick.latency]
        return float(median(stored)) if stored else None

    @property
    def failures(self) -> list[Failure]:
        """Everything that is missing and why, each once."""
        found: dict[Failure, None] = dict.fromkeys(self.unread)
        for model in self.models:
            name = model.cut.model.name
            for signature, reason in model.missing.items():
                part = f"{fold(model.cut.operators(signature))} ({signature[:8]})"
                stage: Stage = "check" if signature in model.unsupported else "measure"
                found[self._failure(name, reason, stage, part)] = None
            if model.failure:
                found[self._failure(name, model.failure, "measure", "end to end")] = None
        if not self.models:
            for each in self.bricks:
                if each.failure:
                    brick = f"{fold(each.brick.operators)} ({each.brick.signature[:8]})"
                    found[self._failure(brick, each.failure, "measure")] = None
        return list(found)

    def _failure(self, subject: str, reason: str, stage: Stage, part: str = "") -> Failure:
        return Failure(subject, reason, stage, part, self.request.backend.name)

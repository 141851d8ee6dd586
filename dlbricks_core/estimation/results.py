"""Results of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.bricks.naming import fold
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.facts import LATENCY, Calibration, Failure, Note, Quantity
from dlbricks_core.facts.observation import Stage
from dlbricks_core.figures.figure import Figure, Origin
from dlbricks_core.figures.statistics import median
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Effort, Ledger
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "AdaptiveRun",
    "Benchmarking",
    "BrickResult",
    "ModelResult",
    "Offer",
    "OverSizes",
    "QuantityPredictor",
    "RunResult",
]


@dataclass(frozen=True)
class BrickResult:
    """Result for one brick.

    Attributes:
        brick: The brick.
        occurrences: Number of occurrences in the models of this run; 1 if unknown.
        latency: Figure of the brick: measured, derived from other bricks, or predicted; ``None``
            if it is missing.
        failure: Reason for a missing figure.
        warnings: Reasons to doubt its samples.
        origin: Origin of the figure; ``None`` without a figure.
        quantity: Quantity of the figure.
    """

    brick: Brick
    occurrences: int
    latency: Figure | None
    failure: str = ""
    warnings: Sequence[Note] = ()
    origin: Origin | None = None
    quantity: Quantity = LATENCY

    @property
    def derived_from(self) -> tuple[str, ...]:
        """Signatures of networks that were timed instead; empty if the brick itself was timed."""
        return self.latency.derived_from if self.latency else ()

    @property
    def interval_ms(self) -> tuple[float, float] | None:
        """90% interval of the latency."""
        return self.latency.interval if self.latency else None


@dataclass(frozen=True)
class Benchmarking:
    """Cost of benchmarking by models and by bricks, over the models that have both figures.

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
class Offer:
    """A precision that more measuring time would reach.

    Attributes:
        half_width: Half-width of all models' 90% intervals, relative to their latencies.
        seconds: Predicted seconds of measuring until this precision.
    """

    half_width: float
    seconds: float


@dataclass(frozen=True)
class Characterized:
    """Networks that were timed first, because the system was unknown.

    Attributes:
        networks: Number of these networks.
        seconds: Seconds of their timing, without the start of the framework.
        half_width_before: Largest half-width of the models' 90% intervals before, relative to the
            latency.
        half_width: Largest half-width with these networks.
    """

    networks: int
    seconds: float
    half_width_before: float
    half_width: float


@dataclass(frozen=True)
class AdaptiveRun:
    """Progress of a run between an estimate without any run and a timing of every brick.

    Attributes:
        half_widths: Half-width of each model's 90% interval in the hour of the measurements,
            relative to its latency, in the order of the models.
        timed: Number of bricks that were measured, in this run or before.
        wholes: Number of whole models that were measured in place of their bricks.
        importing_s: Seconds of starting the framework, in addition to the seconds of measuring.
        offers: Precisions that more time would reach, the cheapest first.
        probed: Summary of the probes; ``None`` without probes.
        seconds: Seconds from the end of importing to the estimates; ``None`` if nothing ran.
        waited_s: Seconds among these of waiting for a quiet machine.
        plain_s: Seconds of a plain script for the same models, computed from their measured
            latencies; ``None`` unless all models were measured.
    """

    half_widths: tuple[float, ...]
    timed: int
    wholes: int
    importing_s: float
    offers: tuple[Offer, ...]
    probed: Characterized | None = None
    seconds: float | None = None
    waited_s: float = 0.0
    plain_s: float | None = None

    @property
    def widest(self) -> float:
        """The largest half-width; 0 if there are no models."""
        return max(self.half_widths, default=0.0)


class OverSizes(ABC):
    """Figures of models at several sizes, which a distribution computes and shows."""

    @property
    @abstractmethod
    def by_name(self) -> Mapping[str, Sequence[ModelResult]]:
        """Results by model name; results of a model at all sizes are grouped."""

    @abstractmethod
    def sentence(self, result: RunResult) -> str:
        """A sentence on the figures of a result."""

    @abstractmethod
    def shown(self, result: RunResult) -> Iterator[str | Table]:
        """Tables of the figures of a result, and explanations of them."""

    @abstractmethod
    def data(self, result: RunResult) -> Mapping[str, Any]:
        """Fields of a result's JSON with the figures: ``answers`` and ``curves``."""


@dataclass(frozen=True)
class RunResult:
    """Results of a run.

    Attributes:
        request: How networks were measured.
        cutting: How models were cut and composed, the bricks, and the timed networks.
        models: Results for models in the given order.
        bricks: Results for bricks in order of first occurrence.
        benchmarking: Cost by models and by bricks; ``None`` if no model has both figures.
        ledger: Figures and failures.
        unread: Models that could not be loaded.
        predictor: Name of the predictor of bricks that are not in the store; empty for none.
        adaptive: Progress of adaptive measuring; ``None`` for runs without it.
        over_sizes: Figures of models at several sizes, if they were requested.
        peak_bytes: Upper bound on the peak memory of all processes of the run, in bytes; ``None``
            where nothing ran.
        phase_threads: Threads of each phase of an answer, if the phases differ.
    """

    request: Request
    cutting: Cutting
    models: Sequence[ModelResult]
    bricks: Sequence[BrickResult]
    benchmarking: Benchmarking | None
    ledger: Ledger
    unread: Sequence[Failure] = ()
    predictor: str = ""
    adaptive: AdaptiveRun | None = None
    over_sizes: OverSizes | None = None
    peak_bytes: int | None = None
    phase_threads: Mapping[str, int] = field(default_factory=dict)

    def noting(self, *added: Note, first: Iterable[Note] = ()) -> RunResult:
        """The result with further notes after and before its own notes."""
        return replace(self, ledger=self.ledger.noting(*added, first=first))

    @property
    def by_name(self) -> Mapping[str, Sequence[ModelResult]]:
        """Results by model name; results of a model at all sizes are grouped."""
        if self.over_sizes is not None:
            return self.over_sizes.by_name
        return {each.cut.model.name: [each] for each in self.models}

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
        """Calibration of the composer; ``None`` for its default parameters."""
        return self.cutting.calibration

    @cached_property
    def timed(self) -> Mapping[str, tuple[str, ...]]:
        """Signatures of the networks behind each brick's figure: the brick itself or others."""
        return {
            each.brick.signature: each.latency.networks(each.brick.signature)
            for each in self.bricks
            if each.latency
        }

    @property
    def timed_networks(self) -> int:
        """Number of networks whose samples give the bricks' figures."""
        return len({network for several in self.timed.values() for network in several})

    def timed_for(self, cut: CutModel) -> set[str]:
        """Signatures of the networks behind a model's estimate, including failed ones."""
        return {timed for each in cut.counts for timed in self.timed.get(each, (each,))}

    @property
    def effort(self) -> Effort:
        """Cost of measuring in this run, with that of rewriting the models."""
        return self.ledger.effort.with_loading("brick", self.cutting.seconds)

    @property
    def is_doubtful(self) -> bool:
        """Whether a figure was measured while other programs used much of the CPUs."""
        bricks = [each.latency.disturbance for each in self.bricks if each.latency]
        models = [each.disturbance for each in self.models]
        return any(each.is_doubtful for each in models or bricks)

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed, and no figure is doubtful because of other programs."""
        return not self.failures and (self.request.accepts_busy or not self.is_doubtful)

    @property
    def call_ms(self) -> float | None:
        """Median cost of a call of the timer in milliseconds; ``None`` except for latency."""
        if self.request.metric:
            return None
        stored = [brick.latency.overhead for brick in self.bricks if brick.latency]
        return float(median(stored)) if stored else None

    @property
    def failures(self) -> list[Failure]:
        """All failures, without duplicates."""
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


class QuantityPredictor(ABC):
    """Predicts a quantity other than latency.

    Found through the entry-point group ``dlbricks.quantity_predictors``. The class must be
    importable without what predicts, because the list of plugins imports it.
    """

    #: Name, equal to the entry point's.
    name: str

    @abstractmethod
    def fill(self, result: RunResult, store: ResultStore) -> RunResult:
        """The result with predicted values for bricks and models without a value.

        Args:
            result: Result from the store alone.
            store: Store of the observations.
        """

"""Evaluates estimates: whole models are timed side by side with their bricks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dlbricks_accuracy.side_by_side import run_in_turn
from dlbricks_accuracy.speedup import Speedups
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.results import ModelResult, RunResult
from dlbricks_core.estimation.run import run_bricks
from dlbricks_core.facts import Failure
from dlbricks_core.figures.figure import Measured, relative_half_width
from dlbricks_core.figures.precision import PRECISION
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Cutting, cut_models, run_targets
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


def evaluate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
    precision: float | None = None,
) -> Evaluation:
    """Estimates models, measures them, and compares both.

    In the hot condition, every model runs as its user runs it, and its estimate rests on the runs
    of the other models and on predictions.

    In the cold condition, whole models and their bricks are timed in the same rounds. Stored
    measurements are used only if all were taken together, as in an interrupted evaluation.
    Otherwise everything is timed again, because drift of the machine would count as an error of the
    estimate.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose.
        request: How networks are measured.
        store: Store of the measurements.
        observer: Receives the progress.
        precision: Relative half-width of the intervals at which the costs of both ways of
            benchmarking are compared; ``None`` for the request's precision.
    """
    if request.condition == "hot":
        return Evaluation.of(_run_each(models, request, store, observer))
    cutting = cut_models(models, cut_options, request, observer, store)
    return evaluate_bricks(cutting, request, store, observer, precision)


def _run_each(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, observer: Observer
) -> RunResult:
    """Runs every model, and estimates each from the runs of the others and from predictions.

    Args:
        models: Models in canonical form.
        request: How models run, in the hot condition.
        store: Store of the measurements.
        observer: Receives the progress.

    Returns:
        Estimates beside measured latencies. A model that cannot run as a whole has no latency.
    """
    with ExitStack() as opened:
        (figures,) = run_in_turn(models, [request], store, observer, opened)
        observer.stage("Composing")
        return figures.left_out()


def evaluate_bricks(
    cutting: Cutting,
    request: Request,
    store: ResultStore,
    observer: Observer,
    precision: float | None = None,
) -> Evaluation:
    """Evaluates cut models; other arguments as for :func:`evaluate`."""
    if not request.force and not _timed_together(cutting, request, store):
        observer.note("The stored measurements are of different sessions; timing everything again.")
        request = replace(request, force=True)
    result = run_bricks(cutting, request, store, observer)
    return Evaluation.of(result, precision or request.precision or PRECISION)


def _timed_together(cutting: Cutting, request: Request, store: ResultStore) -> bool:
    """Whether one session contributed to all measurements, or nothing was timed yet."""
    targets = run_targets(cutting, end_to_end=True, backend=request.backend)
    keys = {target.key(request) for target in targets}
    found = store.get(keys)
    sessions = [
        {taken.session for taken in found[key].observations} if key in found else set()
        for key in keys
        if key not in found or not found[key].failure
    ]
    return not any(sessions) or bool(set.intersection(*sessions))


@dataclass(frozen=True)
class ModelEvaluation:
    """A model's estimate and its measured latency.

    Attributes:
        model: Result of the run for the model.
        same_rounds: Whether all bricks of the model were timed in rounds that also timed the whole
            model.
    """

    model: ModelResult
    same_rounds: bool

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.cut.model.name

    @property
    def estimate_ms(self) -> float:
        """The estimate in milliseconds."""
        assert self.model.estimate.value is not None
        return self.model.estimate.value

    @property
    def measured_ms(self) -> float:
        """Latency of the whole model in milliseconds."""
        assert self.model.measured is not None
        return self.model.measured.value

    @property
    def normalized(self) -> float:
        """Estimate divided by measured latency."""
        return self.estimate_ms / self.measured_ms

    @property
    def error(self) -> float:
        """Error of the estimate relative to the measured latency; negative for a low estimate."""
        return self.normalized - 1

    @property
    def normalized_interval(self) -> tuple[float, float] | None:
        """The estimate's interval, relative to the measured latency."""
        return self.model.normalized_interval

    @property
    def covered(self) -> bool:
        """Whether the estimate's interval contains the measured latency of the same hour."""
        ends = self.model.estimate.interval_now
        return ends is not None and ends[0] <= self.measured_ms <= ends[1]

    @property
    def half_width(self) -> float:
        """Half the width of the estimate's interval of this hour, relative to its middle."""
        return relative_half_width(self.model.estimate.interval_now)


@dataclass(frozen=True)
class Evaluation:
    """Errors of estimates relative to measured latencies, over all models.

    Figures over all models are ``None`` if no model has both. A model that is named twice counts
    twice.

    Attributes:
        result: The run behind the evaluation.
        models: Models with a complete estimate and a measured latency.
        left_out: All other models.
        speedups: Savings of benchmarking by bricks.
    """

    result: RunResult
    models: Sequence[ModelEvaluation]
    left_out: Sequence[Failure]
    speedups: Speedups

    @classmethod
    def of(cls, result: RunResult, precision: float = PRECISION) -> Evaluation:
        """Evaluates a run that also timed whole models; it measures nothing."""
        compared = [model for model in result.models if model.normalized is not None]
        bricks, wholes = (
            result.ledger.networks(kind, result.request.quantity).figures
            for kind in ("brick", "model")
        )
        return cls(
            result=result,
            models=[
                ModelEvaluation(
                    each,
                    _same_rounds(
                        wholes.get(each.cut.whole.signature),
                        [bricks.get(signature) for signature in result.timed_for(each.cut)],
                    ),
                )
                for each in compared
            ],
            left_out=[
                Failure(each.cut.model.name, _why(each), "compose")
                for each in result.models
                if each.normalized is None
            ],
            speedups=Speedups.of(result, compared, precision),
        )

    def lacking(self, unread: Sequence[Failure]) -> Evaluation:
        """A copy with the models that could not be loaded."""
        return replace(self, result=replace(self.result, unread=unread))

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """Signed relative error of each model."""
        return tuple(model.error for model in self.models)

    @property
    def mape(self) -> float | None:
        """Mean absolute error, relative to the measured latencies (0.03: 3%)."""
        return float(np.mean(np.abs(self.errors))) if self.models else None

    def within(self, tolerance: float) -> float | None:
        """Share of the models whose absolute error is at most the tolerance."""
        return float(np.mean(np.abs(self.errors) <= tolerance)) if self.models else None

    @property
    def worst(self) -> ModelEvaluation | None:
        """The model with the largest absolute error."""
        return max(self.models, key=lambda model: abs(model.error), default=None)

    @property
    def geometric_mean(self) -> float | None:
        """Geometric mean of the normalized latencies, which the paper reports."""
        if not self.models:
            return None
        normalized = np.array([model.normalized for model in self.models])
        return float(np.prod(normalized ** (1 / len(normalized))))

    @property
    def coverage(self) -> float | None:
        """Share of the models whose interval contains the measured latency."""
        return float(np.mean([model.covered for model in self.models])) if self.models else None

    @property
    def median_half_width(self) -> float | None:
        """Median over the models of the intervals' relative half-widths."""
        return float(np.median([m.half_width for m in self.models])) if self.models else None


def _why(model: ModelResult) -> str:
    """Reason why a model cannot be compared."""
    if model.missing:
        reasons = dict.fromkeys(model.missing.values())
        more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
        lacking = f"{len(model.missing)} of {len(model.cut.counts)} bricks missing"
        return f"{lacking}: {next(iter(reasons))}{more}"
    if model.estimate.value is None:
        return "nothing to estimate: it has no layers"
    return f"end to end: {model.failure or 'not measured'}"


def _same_rounds(whole: Measured | None, bricks: Sequence[Measured | None]) -> bool:
    """Whether each brick shares rounds with the whole model."""
    own = set(whole.rounds if whole else ())
    return all(each is not None and not own.isdisjoint(each.rounds) for each in bricks)

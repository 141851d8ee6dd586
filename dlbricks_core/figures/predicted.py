"""Figures of networks without samples, and of measured networks as parts of models."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dlbricks_core.figures.figure import Figure, Origin
from dlbricks_core.figures.statistics import RESAMPLES, Disturbance, FloatArray

_LEAST_MS, _MOST_MS = 1.0, 400.0
"""Latencies of the shortest and longest models that factors of the spread were fitted to."""

_USUAL_MS = 20.0
"""Latency of a model with the usual factor, in milliseconds."""


@dataclass(frozen=True)
class SpreadFactor:
    """Factor between the error of a predicted model and the spread of its draws.

    In a long model, errors of many layers average out better than their draws tell. In a short
    one, what a framework adds to its layers is a larger part.

    Attributes:
        usual: Factor for a model of 20 ms.
        exponent: The factor of other models falls with this power of the latency.
    """

    usual: float = 1.0
    exponent: float = 0.0

    def of(self, latency_ms: float) -> float:
        """Factor for a model.

        Args:
            latency_ms: Predicted latency of the model in milliseconds.
        """
        within = min(max(latency_ms, _LEAST_MS), _MOST_MS)
        return float(self.usual * (within / _USUAL_MS) ** -self.exponent)


@dataclass(frozen=True)
class Discrepancy:
    """Relative errors that the bricks of one model share, and that differ between models.

    A predictor learns from models that were measured. A model of another family combines its layers
    differently, so that the predictions of its bricks err together. The bricks of other models tell
    nothing about this error (model discrepancy; Kennedy and O'Hagan, Bayesian Calibration of
    Computer Models, JRSS B 63, 2001).

    Attributes:
        predicted: Standard deviation of the relative error of bricks that were not timed.
        measured: Standard deviation of the relative error of bricks that were timed: a brick alone
            does not take exactly as long as in the model.
        spread: Factor of the spread of a model's draws.

    Raises:
        ValueError: If a number is negative or not finite.
    """

    predicted: float = 0.0
    measured: float = 0.0
    spread: SpreadFactor = SpreadFactor()

    def __post_init__(self) -> None:
        if not (0 <= self.predicted < math.inf and 0 <= self.measured < math.inf):
            raise ValueError("a discrepancy is negative or not finite")


@dataclass(frozen=True, eq=False)
class Predicted(Figure):
    """Figure that a predictor gives for a network without samples.

    Attributes:
        expected: The number that stands for the prediction.
        draws: Numbers that are equally likely to be right: shape (RESAMPLES,). The i-th draws of
            all figures of one prediction belong together, so that errors that networks have in
            common do not average out in a sum.
        overhead: What of all these numbers is the measurement's own.
        discrepancy: Errors that the figures of one model share. The draws do not include them,
            because a figure may belong to many models.
        samples: Always empty.

    Raises:
        ValueError: If a number is negative or not finite, or draws have another shape.
    """

    expected: float
    draws: FloatArray
    overhead: float = 0.0
    discrepancy: Discrepancy = Discrepancy()
    samples: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if np.shape(self.draws) != (RESAMPLES,):
            raise ValueError(f"draws have the shape {np.shape(self.draws)}, and not {(RESAMPLES,)}")
        numbers = self.expected, self.overhead, np.min(self.draws), np.max(self.draws)
        if not all(0 <= number < math.inf for number in numbers):
            raise ValueError("a predicted number is negative or not finite")

    @property
    def origin(self) -> Origin:
        """A predictor."""
        return "predicted"

    def networks(self, signature: str) -> tuple[str, ...]:
        """No networks: a prediction rests on no samples of this run."""
        return ()

    @property
    def value(self) -> float:
        """The expected number."""
        return self.expected

    @property
    def replicates(self) -> FloatArray:
        """The expected number each time: no samples scatter."""
        return np.full(RESAMPLES, self.expected)

    @property
    def plausible(self) -> FloatArray:
        """The draws."""
        return self.draws

    @property
    def common_error(self) -> float:
        """Common error of bricks that were not timed."""
        return self.discrepancy.predicted

    def spread_in(self, model_ms: float) -> float:
        """Factor that models without runs proved to need."""
        return self.discrepancy.spread.of(model_ms)


@dataclass(frozen=True, eq=False)
class Placed(Figure):
    """Figure of a measured network as a part of a model.

    Run alone, a network also hands over its inputs and outputs; a predictor tells what is left of
    its latency in the middle of a model.

    Attributes:
        measured: Figure of the network alone.
        predicted: What the predictor makes of it.
    """

    measured: Figure
    predicted: Predicted

    @property
    def overhead(self) -> float:  # type: ignore[override]
        """Overhead of the predicted figure."""
        return self.predicted.overhead

    @property
    def samples(self) -> tuple[float, ...]:  # type: ignore[override]
        """Samples of the network alone."""
        return self.measured.samples

    @property
    def origin(self) -> Origin:
        """Samples."""
        return self.measured.origin

    @property
    def value(self) -> float:
        """Value that the predictor expects."""
        return self.predicted.value

    @property
    def replicates(self) -> FloatArray:
        """The expected number, which scatters as the samples do."""
        scale = self.value / self.measured.value if self.measured.value else 1.0
        return np.asarray(self.measured.replicates * scale)

    @property
    def disturbance(self) -> Disturbance:
        """Disturbance of the samples of the network alone."""
        return self.measured.disturbance

    @property
    def plausible(self) -> FloatArray:
        """The predictor's draws, for samples that may be longer than on a quiet machine."""
        return np.asarray(self.predicted.plausible * self.disturbance.factors)

    @property
    def common_error(self) -> float:
        """Common error of bricks that were timed."""
        return self.predicted.discrepancy.measured

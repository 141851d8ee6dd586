"""Number of runs that each network needs until sums of their latencies are precise enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from dlbricks_core.facts import Question
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.statistics import FASTER_HALF_VARIANCE, FloatArray, median

PRECISION = 0.01
"""Default half-width of intervals to reach, relative to the latency."""

BUDGET_S = 120.0
"""Seconds after which no round begins, precise or not, unless the user gives another number."""

SURVEY_S = 180.0
"""Default seconds of a survey."""

FEWEST = 6
"""Minimum number of rounds. With fewer, the faster half has only one or two samples."""

MOST = 200
"""Maximum number of rounds. If a network is too noisy for them, waiting does not pay."""

NORMAL_HALF_WIDTH = NormalDist().inv_cdf(0.95)
"""Half-width of a normal distribution's 90% interval, in standard deviations."""

STEP_MS = 1.0
"""Milliseconds that a run costs on top: to ask the worker, warm inputs and store the sample."""

_NORMAL = 1 / NormalDist().inv_cdf(0.75)
_SMALL = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""Factors that make the median distance from the median unbiased: in standard deviations, and for
small numbers of samples.
"""


def deviation(samples: Sequence[float]) -> float:
    """Robust standard deviation: the median distance from the median, made unbiased.

    A sample that an interrupt made longer does not widen it, just as it does not move the mean of
    the faster half. Small numbers of samples would look quieter than they are without a factor
    from Croux and Rousseeuw, "Time-Efficient Algorithms for Two Highly Robust Estimators of
    Scale", COMPSTAT 1992.
    """
    count = len(samples)
    if count < 2:
        return math.inf
    distances = np.abs(np.asarray(samples) - median(samples))
    return float(median(distances)) * _NORMAL * _SMALL.get(count, count / (count - 0.8))


@dataclass(frozen=True)
class Spread:
    """Location and scatter of a network's samples so far.

    Attributes:
        taken: Number of samples that count.
        ms: Mean of the faster half in milliseconds, without the cost of a call.
        deviation_ms: Robust standard deviation of a sample, in milliseconds.
        call_ms: Cost of a call of the timer, in milliseconds.
        run_ms: Cost of one more sample, in milliseconds.
        errors_ms: Differences between bootstrap replicates of that mean and the mean itself, in
            milliseconds.
    """

    taken: int
    ms: float
    deviation_ms: float
    call_ms: float
    run_ms: float
    errors_ms: FloatArray = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def of(cls, figure: Measured) -> Spread:
        """Spread of a figure with at least one sample, taken in rounds."""
        return cls(
            taken=len(figure.samples),
            ms=figure.own,
            deviation_ms=deviation(figure.samples),
            call_ms=figure.overhead,
            run_ms=figure.value + STEP_MS,
            errors_ms=figure.replicates - figure.value,
        )


Spreads = Mapping[Question, Spread]


@dataclass(frozen=True)
class PrecisionTarget:
    """A sum of latencies that is to become precise.

    The methods use only those terms of the sum that ``spreads`` has. If the other terms are known
    as precisely from elsewhere, the whole sum is at least as precise as this part.

    Attributes:
        name: Name of the model, for people to read.
        counts: Factor of each network's latency in the sum. A whole model is a sum with one term.
            A factor may be a fraction, or negative.
    """

    name: str
    counts: Mapping[Question, float]

    def total_ms(self, spreads: Spreads) -> float:
        """The sum in milliseconds: the networks' latencies, and the cost of one call."""
        known = [(count, spreads[key]) for key, count in self.counts.items() if key in spreads]
        call = max((spread.call_ms for _, spread in known), default=0.0)
        return call + sum(count * spread.ms for count, spread in known)

    def half_width(self, spreads: Spreads) -> float:
        """Half-width of the sum's 90% interval, relative to the sum.

        It is the larger of two half-widths. :meth:`own_half_width` assumes that networks scatter
        independently. The bootstrap's half-width includes drift that all networks of a round have
        in common.
        """
        known = [(count, spreads[key]) for key, count in self.counts.items() if key in spreads]
        errors = sum((count * spread.errors_ms for count, spread in known), np.zeros(1))
        low, high = np.percentile(errors, (5, 95))
        together = _relative(float(high - low) / 2, self.total_ms(spreads))
        return max(self.own_half_width(spreads), together)

    def own_half_width(self, spreads: Spreads) -> float:
        """Half-width of the interval if the networks scatter independently, relative to the sum.

        The mean of the faster half of n normal samples has the variance ``v * s**2 / n`` with
        ``v = FASTER_HALF_VARIANCE``. The variances of the networks add up, each times the square
        of its factor.
        """
        variance = sum(
            (count * spreads[key].deviation_ms) ** 2 / spreads[key].taken
            for key, count in self.counts.items()
            if key in spreads
        )
        deviation_ms = math.sqrt(FASTER_HALF_VARIANCE * variance)
        return _relative(NORMAL_HALF_WIDTH * deviation_ms, self.total_ms(spreads))

    def allocation(self, spreads: Spreads, precision: float) -> dict[Question, float]:
        """Numbers of samples that make the sum precise at the least cost; not rounded.

        The numbers ``n_b`` minimize the time ``sum(n_b * t_b)``, while the variance
        ``v * sum((c_b * s_b)**2 / n_b)`` is ``V = (precision * total / z)**2``. At the optimum,
        the derivatives of time and variance by each ``n_b`` have the same ratio. So ``t_b`` is
        proportional to ``(c_b * s_b / n_b)**2``, and ``n_b = k * c_b * s_b / sqrt(t_b)``. With
        these numbers, the variance is ``V`` for ``k = v / V * sum(c_b * s_b * sqrt(t_b))``.

        Source: Neyman, "On the Two Different Aspects of the Representative Method",
        Journal of the Royal Statistical Society 97 (1934), with the costs of a sample as in
        Cochran, "Sampling Techniques", section 5.5; bricks are the strata.
        """
        parts = {
            key: (abs(count) * spreads[key].deviation_ms, math.sqrt(spreads[key].run_ms))
            for key, count in self.counts.items()
            if key in spreads
        }
        variance = (precision * self.total_ms(spreads) / NORMAL_HALF_WIDTH) ** 2
        common = FASTER_HALF_VARIANCE * sum(scatter * root for scatter, root in parts.values())
        return {
            key: _relative(common * scatter / root, variance)
            for key, (scatter, root) in parts.items()
        }

    def needs(self, spreads: Spreads, precision: float) -> dict[Question, int]:
        """Number of samples that each network should have; empty if the sum is precise already.

        Each number is at least :data:`FEWEST` and at most :data:`MOST`. If drift makes the interval
        wider than the networks' own scatter does, the optimum is computed for a precision that is
        finer in the same ratio.
        """
        half_width = self.half_width(spreads)
        if half_width <= precision:
            return {}
        own = self.own_half_width(spreads)
        optimum = self.allocation(spreads, precision * (own / half_width if own > 0 else 1.0))
        return {key: max(FEWEST, math.ceil(min(n, MOST))) for key, n in optimum.items()}


def _relative(value: float, to: float) -> float:
    """A quotient; zero divided by zero is zero."""
    return value / to if to > 0 else (math.inf if value > 0 else 0.0)

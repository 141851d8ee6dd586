"""How often each network has to run until sums of their latencies are precise enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from dlbricks_core.facts import Measurement, Question
from dlbricks_core.figures.figure import means_by_rounds, overhead_of, rounds_of, undisturbed
from dlbricks_core.figures.statistics import (
    FASTER_HALF_VARIANCE,
    FloatArray,
    faster_half,
    median,
)

PRECISION = 0.01
"""Relative half-width that is reached unless the user asks for another."""

BUDGET_S = 120.0
"""Seconds after which no round begins, precise or not, unless the user gives others."""

FEWEST = 6
"""Rounds at the least: with fewer, a half that counts holds but one or two samples."""

MOST = 200
"""Rounds at the most: a network that is noisier than that is not for waiting."""

NORMAL_HALF_WIDTH = NormalDist().inv_cdf(0.95)
"""Half-width of a normal distribution's 90% interval, in standard deviations."""

STEP_MS = 1.0
"""What a run costs besides: asking the worker, touching inputs, committing the sample."""

_NORMAL = 1 / NormalDist().inv_cdf(0.75)
_SMALL = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


def deviation(samples: Sequence[float]) -> float:
    """Robust standard deviation: the median distance from the median, made unbiased.

    A sample that an interrupt hit does not widen it, as it does not move the mean of the
    faster half that a figure rests on. The factors for few samples, without which these would look
    quieter than they are: Croux and Rousseeuw, "Time-Efficient Algorithms for Two Highly
    Robust Estimators of Scale", COMPSTAT 1992.
    """
    count = len(samples)
    if count < 2:
        return math.inf
    distances = np.abs(np.asarray(samples) - median(samples))
    return float(median(distances)) * _NORMAL * _SMALL.get(count, count / (count - 0.8))


@dataclass(frozen=True)
class Spread:
    """What the samples of a network say so far, in milliseconds.

    Attributes:
        taken: Number of samples that count.
        ms: Mean of the faster half, without the timer's own cost.
        deviation_ms: Robust standard deviation of a sample.
        call_ms: The timer's own cost.
        run_ms: What one more sample costs.
        errors_ms: How far bootstrap replicates of that mean are from it.
    """

    taken: int
    ms: float
    deviation_ms: float
    call_ms: float
    run_ms: float
    errors_ms: FloatArray = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def of(cls, measurement: Measurement) -> Spread:
        """Of at least one sample, taken in rounds."""
        used = undisturbed(measurement)
        samples_ms, call_ms = used.values, overhead_of(used, faster_half)
        mean_ms = float(faster_half(samples_ms))
        return cls(
            taken=len(samples_ms),
            ms=max(mean_ms - call_ms, 0.0),
            deviation_ms=deviation(samples_ms),
            call_ms=call_ms,
            run_ms=mean_ms + STEP_MS,
            errors_ms=means_by_rounds(samples_ms, rounds_of(used)) - mean_ms,
        )


Spreads = Mapping[Question, Spread]


@dataclass(frozen=True)
class PrecisionTarget:
    """A figure that is to become precise: a sum of latencies.

    Attributes:
        name: Of the model, for people.
        counts: How often each network's latency is in the sum; a whole model is a sum
            of one. A network may count for a part of a latency, even a negative one.

    Only what ``spreads`` knows of a sum takes part in the methods below. Where the rest
    is known elsewhere as precisely, the whole sum is at least as precise as its parts.
    """

    name: str
    counts: Mapping[Question, float]

    def total_ms(self, spreads: Spreads) -> float:
        """The sum: what the networks add, and one call of the timer."""
        known = [(count, spreads[key]) for key, count in self.counts.items() if key in spreads]
        call = max((spread.call_ms for _, spread in known), default=0.0)
        return call + sum(count * spread.ms for count, spread in known)

    def half_width(self, spreads: Spreads) -> float:
        """Of the sum's 90% interval, relative to the sum: the wider of two.

        One takes each network's scatter for its own: :meth:`own_half_width`. The other is
        the bootstrap's, in which what all networks saw in a round is common to them.
        """
        known = [(count, spreads[key]) for key, count in self.counts.items() if key in spreads]
        errors = sum((count * spread.errors_ms for count, spread in known), np.zeros(1))
        low, high = np.percentile(errors, (5, 95))
        together = _relative(float(high - low) / 2, self.total_ms(spreads))
        return max(self.own_half_width(spreads), together)

    def own_half_width(self, spreads: Spreads) -> float:
        """The half-width if nothing is common to the networks.

        The mean of the faster half of n normal samples has the variance ``v * s**2 / n``
        with ``v`` = ``FASTER_HALF_VARIANCE``; those of the networks add up, with the squares
        of their counts.
        """
        variance = sum(
            (count * spreads[key].deviation_ms) ** 2 / spreads[key].taken
            for key, count in self.counts.items()
            if key in spreads
        )
        deviation_ms = math.sqrt(FASTER_HALF_VARIANCE * variance)
        return _relative(NORMAL_HALF_WIDTH * deviation_ms, self.total_ms(spreads))

    def allocation(self, spreads: Spreads, precision: float) -> dict[Question, float]:
        """The cheapest numbers of samples that make the sum precise; not rounded.

        Wanted are numbers ``n_b`` for which ``sum(n_b * t_b)``, the time spent, is least,
        while the variance ``v * sum((c_b * s_b)**2 / n_b)`` is
        ``V = (precision * total / z)**2``. At the optimum the derivatives of both by each
        ``n_b`` have the same ratio, so that ``t_b`` is proportional to
        ``(c_b * s_b / n_b)**2``: ``n_b = k * c_b * s_b / sqrt(t_b)``. Put into the
        variance, that gives ``k = v / V * sum(c_b * s_b * sqrt(t_b))``.

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
        """How many samples each network should have; nothing if the sum is precise already.

        Between :data:`FEWEST` and :data:`MOST`, whatever the optimum. Where something
        common makes the interval wider than the networks' own scatter does, the optimum
        for that scatter has to be as much more precise.
        """
        half_width = self.half_width(spreads)
        if half_width <= precision:
            return {}
        own = self.own_half_width(spreads)
        optimum = self.allocation(spreads, precision * (own / half_width if own > 0 else 1.0))
        return {key: max(FEWEST, math.ceil(min(n, MOST))) for key, n in optimum.items()}


def _relative(value: float, to: float) -> float:
    """A quotient; nothing by nothing is nothing."""
    return value / to if to > 0 else (math.inf if value > 0 else 0.0)

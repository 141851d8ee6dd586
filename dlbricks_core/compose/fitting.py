"""Fits the numbers of a composer to measurements on one system.

The default of each number was fitted to the development corpus. It counts as much as
:data:`PRIOR_COUNT` observations, so that a few networks shift it and do not replace it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import Figure

PRIOR_COUNT = 10.0
"""Weight of the value from the development corpus, in observations."""

_TYPICAL = 1.3
"""Typical ratio of operations divided by ratio of bytes, between two bricks of one form."""


@dataclass(frozen=True)
class Composing:
    """Number of a composer of segments, as found on the development corpus."""

    composing_error: float  #: Standard deviation of the relative error of composing.


@cache
def composing() -> Composing:
    """The fitted number."""
    return Composing(**fitted.values(__file__, "composing"))


@dataclass(frozen=True)
class Inferring:
    """Fitted numbers that derive a brick's latency from a similar brick."""

    #: Share of operations in the logarithm of a latency; the remainder is the share of bytes.
    computing_share: float
    inference_error: float  #: Standard deviation of the relative error of a derived latency.


@cache
def inferring() -> Inferring:
    """The fitted numbers."""
    return Inferring(**fitted.values(__file__, "similar"))


@dataclass(frozen=True)
class Deviation:
    """Error of one estimate."""

    error: float  #: Relative error; negative where the estimate is too low.
    #: Standard deviation of the error that the scatter of the samples alone would cause.
    scatter: float


@dataclass(frozen=True)
class Whole:
    """A network that was timed whole."""

    cut: CutModel  #: The network and its bricks.
    measured: Figure  #: Figure of the whole network.


@dataclass(frozen=True)
class FittingData:
    """Measurements to fit to: networks that were timed whole, and all of their bricks."""

    wholes: Sequence[Whole]  #: The networks.
    bricks: Mapping[str, Brick]  #: Bricks of the networks, by signature.
    latencies: Mapping[str, Figure]  #: Figures of the bricks that could be timed, by signature.
    setup: Setup  #: Backend, version, options and threads of networks and bricks.
    system: System  #: System of the measurements.


@dataclass(frozen=True)
class LogRatio:
    """Natural logarithms of ratios between two bricks of one form."""

    flops: float  #: Logarithm of the ratio of operations.
    nbytes: float  #: Logarithm of the ratio of bytes.
    cost: float  #: Logarithm of the ratio of latencies, without the cost of starting a call.
    #: Standard deviation of ``cost`` that the scatter of the samples alone would cause.
    scatter: float


def fitted_deviation(prior: float, deviations: Sequence[Deviation]) -> float:
    """Standard deviation of errors beyond the scatter of the samples.

    It is the scale of a scaled inverse chi-squared posterior distribution. The prior is of the
    same kind and has ``PRIOR_COUNT`` degrees of freedom. The squares of the scatter are subtracted
    from the squares of the errors; a negative sum counts as 0. Source: Gelman et al., "Bayesian
    Data Analysis", 3rd edition, section 2.6.

    Args:
        prior: Standard deviation on the development corpus.
        deviations: Errors to fit to.
    """
    beyond = sum(each.error**2 - each.scatter**2 for each in deviations)
    total = PRIOR_COUNT * prior**2 + max(beyond, 0.0)
    return math.sqrt(total / (PRIOR_COUNT + len(deviations)))


def fitted_share(prior: float, noise: float, ratios: Sequence[LogRatio]) -> float:
    """Share of operations in the logarithm of a ratio of latencies, from 0 to 1.

    The rest is the share of bytes. The fit is by least squares of
    ``cost = share * flops + (1 - share) * nbytes``. The prior counts as ``PRIOR_COUNT`` ratios
    whose operations and bytes differ by the factor :data:`_TYPICAL`. A ratio whose samples scatter
    more has a smaller weight.

    Args:
        prior: Share on the development corpus.
        noise: Standard deviation of ``cost`` around that rule.
        ratios: Ratios to fit to.
    """
    apart = np.array([each.flops - each.nbytes for each in ratios])
    beyond = np.array([each.cost - each.nbytes for each in ratios])
    weights = np.array([1 / (1 + (each.scatter / noise) ** 2) for each in ratios])
    before = PRIOR_COUNT * math.log(_TYPICAL) ** 2
    share = (before * prior + np.sum(weights * apart * beyond)) / (
        before + np.sum(weights * apart**2)
    )
    return float(np.clip(share, 0.0, 1.0))

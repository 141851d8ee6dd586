"""How numbers of a composer are fitted to what was measured on one system.

Each of them has a value that was found on the development corpus. It counts as much as
:data:`PRIOR_COUNT` observations do: a few networks move it, and hardly replace it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import Figure

PRIOR_COUNT = 10.0
"""Observations that the value from the development corpus counts for."""

_TYPICAL = 1.3
"""Factor by which operations and bytes of one brick differ, relative to another's."""


@dataclass(frozen=True)
class Deviation:
    """How far something was off, relative to what it should have been.

    Attributes:
        error: By how much.
        scatter: Standard deviation of that which the samples' scatter explains.
    """

    error: float
    scatter: float


@dataclass(frozen=True)
class Whole:
    """A network that was timed as a whole.

    Attributes:
        cut: Its bricks.
        measured: Its latency.
    """

    cut: CutModel
    measured: Figure


@dataclass(frozen=True)
class Observed:
    """What there is to fit to: networks that were timed as a whole, and all of their bricks.

    Attributes:
        wholes: The networks.
        bricks: By signature.
        latencies: Of those bricks that could be timed.
        setup: How networks and bricks ran.
        system: Where they ran.
    """

    wholes: Sequence[Whole]
    bricks: Mapping[str, Brick]
    latencies: Mapping[str, Figure]
    setup: Setup
    system: System


@dataclass(frozen=True)
class LogRatio:
    """A brick beside a similar one; logarithms of how many times more it takes.

    Attributes:
        flops: Of operations.
        nbytes: Of memory.
        cost: Of time, without the timer's own.
        scatter: Standard deviation of ``cost`` which the samples' scatter explains.
    """

    flops: float
    nbytes: float
    cost: float
    scatter: float


def fitted_deviation(prior: float, deviations: Sequence[Deviation]) -> float:
    """Standard deviation of what is off beyond the samples' scatter.

    The scale of the scaled inverse chi-squared distribution that a prior of the same kind
    with ``PRIOR_COUNT`` degrees of freedom becomes (Gelman et al., "Bayesian Data Analysis",
    3rd edition, section 2.6). Squares of the errors are taken less the scatter's, and
    together as nothing at the least.
    """
    beyond = sum(each.error**2 - each.scatter**2 for each in deviations)
    total = PRIOR_COUNT * prior**2 + max(beyond, 0.0)
    return math.sqrt(total / (PRIOR_COUNT + len(deviations)))


def fitted_share(prior: float, noise: float, ratios: Sequence[LogRatio]) -> float:
    """Share of operations in the logarithm of a latency's ratio; the rest is memory's.

    Least squares of ``cost = share * flops + (1 - share) * nbytes`` with a prior that counts
    as ``PRIOR_COUNT`` ratios whose operations and bytes differ by a factor of
    :data:`_TYPICAL` from each other; ratios weigh the less the more their samples scatter.
    Between 0 and 1.

    Args:
        prior: The share to begin with.
        noise: Standard deviation of a ratio's logarithm from that rule.
        ratios: To fit to.
    """
    apart = np.array([each.flops - each.nbytes for each in ratios])
    beyond = np.array([each.cost - each.nbytes for each in ratios])
    weights = np.array([1 / (1 + (each.scatter / noise) ** 2) for each in ratios])
    before = PRIOR_COUNT * math.log(_TYPICAL) ** 2
    share = (before * prior + np.sum(weights * apart * beyond)) / (
        before + np.sum(weights * apart**2)
    )
    return float(np.clip(share, 0.0, 1.0))

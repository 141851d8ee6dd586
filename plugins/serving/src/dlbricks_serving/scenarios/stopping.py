"""MLPerf's early-stopping rule: the number of queries that suffices to claim a percentile.

A system fails if it meets the bound with less than the probability p. Queries suffice if a failing
system would show so few of them over the bound with a probability of at most 1%.

Source: MLCommons, MLPerf Inference Rules, appendix "Early Stopping Criterion", with a tolerance of
0 and a confidence of 99%.

Functions import scipy's distributions when they need them. At the top of the module, that import
would almost double the time that a command takes to start.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dlbricks_core.figures.statistics import FloatArray, Samples

CONFIDENCE = 0.99
"""Confidence of MLPerf's rule for stopping early."""


def percentile(latencies: Samples, share: float) -> float:
    """Percentile of latencies as MLPerf's LoadGen counts it, in their unit.

    The percentile is one of the latencies: the first in ascending order that has at least that
    share of the latencies before it.
    """
    ordered = np.sort(np.asarray(latencies, dtype=np.float64))
    return float(ordered[min(int(len(ordered) * share), len(ordered) - 1)])


def queries_needed(overlatency: int, share: float, confidence: float = CONFIDENCE) -> int:
    """Minimum number of queries in a run with a given number of queries over the bound.

    Args:
        overlatency: Number of queries over the latency bound.
        share: Share of the queries that must be within the bound, such as 0.99.
        confidence: Probability with which a failing system is detected.
    """
    most = 2 * overlatency + 2
    while not _suffices(most, overlatency, share, confidence):
        most *= 2
    # More queries must be within the bound than over it in any case.
    return _first(lambda n: _suffices(n, overlatency, share, confidence), overlatency, most)


def _suffices(queries: int, overlatency: int, share: float, confidence: float) -> bool:
    from scipy import special

    # The distribution function of the binomial distribution; the wrapper in scipy.stats is slow.
    return bool(special.bdtr(overlatency, queries, 1 - share) <= 1 - confidence)


def overlatency_allowed(queries: int, share: float, confidence: float = CONFIDENCE) -> int | None:
    """Maximum number of queries over the bound in a run of a given length.

    Returns ``None`` if the run is too short even with all queries within the bound.
    """
    if not _suffices(queries, 0, share, confidence):
        return None
    # A run with all queries over the bound never suffices.
    return _first(lambda t: not _suffices(queries, t, share, confidence), 0, queries) - 1


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Least number that meets a condition, which ``high`` meets and ``low`` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def early_stopping_estimate(
    latencies: Samples, share: float, confidence: float = CONFIDENCE
) -> float | None:
    """Conservative estimate of a percentile from a run of finitely many queries, in their unit.

    With t queries allowed over the bound, the estimate is the t-th highest latency. It exceeds the
    run's own percentile, by less the longer the run is.

    Returns: The estimate; ``None`` if the run is too short to allow one query over the bound.
    """
    values = np.sort(np.asarray(latencies, dtype=np.float64))
    allowed = overlatency_allowed(len(values), share, confidence)
    return float(values[-allowed]) if allowed else None


def meets_bound(latencies: Samples, bound: float, share: float) -> bool:
    """Whether a share of all queries is within a bound, by the early-stopping rule."""
    values = np.asarray(latencies, dtype=np.float64)
    return len(values) >= queries_needed(int(np.sum(values > bound)), share)


def percentile_interval(
    latencies: FloatArray, share: float, level: float = 0.90
) -> tuple[float, float]:
    """Interval of a percentile, for independent latencies of any distribution, in their unit.

    Both ends are elements of the latencies, because the number of queries below the true percentile
    follows the binomial distribution.

    Args:
        latencies: At least one latency.
        share: The percentile as a share.
        level: Probability that the interval holds the percentile. In a run with too few queries,
            the highest latency is the upper end.
    """
    from scipy import stats

    ordered = np.sort(latencies)
    first, last = stats.binom.ppf([(1 - level) / 2, (1 + level) / 2], len(ordered), share)
    return float(ordered[max(int(first) - 1, 0)]), float(ordered[min(int(last), len(ordered) - 1)])

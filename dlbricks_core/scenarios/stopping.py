"""MLPerf's early-stopping rule: how many queries tell enough of a percentile of the latency.

Source: MLCommons, MLPerf Inference Rules, appendix "Early Stopping Criterion", with a tolerance of
0 and a confidence of 99%. A system that fails meets the bound with less than the probability p. So
many queries suffice that such a system would show so few over the bound with a probability of at
most 1%.

scipy's distributions are imported where they are used: they take almost as long to import as all
else that a command needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dlbricks_core.figures.statistics import FloatArray, Samples

CONFIDENCE = 0.99


def percentile(latencies: Samples, share: float) -> float:
    """The latency that a share of the queries does not exceed, as MLPerf's LoadGen counts it.

    It is an element of the latencies: the first in ascending order that has at least that share of
    the others before it.
    """
    ordered = np.sort(np.asarray(latencies, dtype=np.float64))
    return float(ordered[min(int(len(ordered) * share), len(ordered) - 1)])


def queries_needed(overlatency: int, share: float, confidence: float = CONFIDENCE) -> int:
    """Minimum number of queries of which so many may be over the bound.

    Args:
        overlatency: Number of queries over the latency bound.
        share: Share of the queries that must be within it, such as 0.99.
        confidence: Confidence that a system which fails is found out.
    """
    most = 2 * overlatency + 2
    while not _suffices(most, overlatency, share, confidence):
        most *= 2
    # As many queries as are over the bound never suffice.
    return _first(lambda n: _suffices(n, overlatency, share, confidence), overlatency, most)


def _suffices(queries: int, overlatency: int, share: float, confidence: float) -> bool:
    from scipy import special

    # The distribution function of the binomial distribution, which scipy's stats wraps slowly.
    return bool(special.bdtr(overlatency, queries, 1 - share) <= 1 - confidence)


def overlatency_allowed(queries: int, share: float, confidence: float = CONFIDENCE) -> int | None:
    """Maximum number of queries over the bound of so many; ``None`` if even none are too many."""
    if not _suffices(queries, 0, share, confidence):
        return None
    # With all of them over the bound they never suffice.
    return _first(lambda t: not _suffices(queries, t, share, confidence), 0, queries) - 1


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Least number for which something holds that holds for ``high`` and not for ``low``."""
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
    """Estimate of a percentile that a run of finitely many queries may claim, in their unit.

    With t queries allowed over the bound, it is the t-th highest latency. So it is above the
    percentile of the run, by less the more queries there are.

    Returns:
        The estimate; ``None`` if queries are too few for it: t must be 1 or more.
    """
    values = np.sort(np.asarray(latencies, dtype=np.float64))
    allowed = overlatency_allowed(len(values), share, confidence)
    return float(values[-allowed]) if allowed else None


def meets_bound(latencies: Samples, bound: float, share: float) -> bool:
    """Whether a run shows by the rule that a share of all queries is within a bound."""
    values = np.asarray(latencies, dtype=np.float64)
    return len(values) >= queries_needed(int(np.sum(values > bound)), share)


def queries_for_margin(share: float, margin: float, confidence: float = CONFIDENCE) -> int:
    """Number of queries that tell the share within a bound to a margin, by the older rules.

    Source: MLPerf Inference Rules, table of minimum query counts, where the margin is a twentieth
    of the distance of the share to 1. The rules round the numbers up to multiples of 2**13.
    """
    from scipy import stats

    z = float(stats.norm.ppf((1 + confidence) / 2))
    return round(z**2 * share * (1 - share) / margin**2)


def percentile_interval(
    latencies: FloatArray, share: float, level: float = 0.90
) -> tuple[float, float]:
    """Interval of a percentile, for independent latencies of any distribution.

    Its ends are latencies themselves, because the number of queries below the true percentile
    follows the binomial distribution.

    Args:
        latencies: One or more.
        share: The percentile as a share.
        level: Probability that the interval holds the percentile, where there are enough queries;
            the highest latency ends it otherwise.
    """
    from scipy import stats

    ordered = np.sort(latencies)
    first, last = stats.binom.ppf([(1 - level) / 2, (1 + level) / 2], len(ordered), share)
    return float(ordered[max(int(first) - 1, 0)]), float(ordered[min(int(last), len(ordered) - 1)])

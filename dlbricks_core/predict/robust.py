"""Robust conditioning: observations that surprise tell less."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.belief import Belief, shares_of

_FREEDOM = 4.0
"""Degrees of freedom of Student's t distribution, which observations have about what others tell
of them."""

_ROUNDS = 6


def doubt(
    belief: Belief,
    counts: sparse.csr_array,
    log_ms: FloatArray,
    noise: FloatArray,
    call_ms: FloatArray | float = 0.0,
) -> FloatArray:
    """Variance that observations have beyond their noise, as far as others contradict them.

    A layer that a framework computes in another way than its like is often off by half. Were it
    believed, all layers would follow. Each observation is compared with what the others tell of
    it, and what deviates by more than the standard deviation gets the variance that Student's t
    distribution would have there (iteratively reweighted least squares).

    Args:
        belief: What was believed before.
        counts: How often each observed network has each layer.
        log_ms: Logarithm of each network's measured latency in milliseconds.
        noise: Variance of each logarithm.
        call_ms: What of each latency is the cost of a call of the timer, in milliseconds.
    """
    extra = np.zeros(len(log_ms))
    if len(log_ms) < 2:
        return extra
    shares, totals = shares_of(counts, belief.mean, call_ms)
    covariance = shares @ belief.covariance @ shares.T + np.diag(noise)
    left = log_ms - np.log(totals)
    for _ in range(_ROUNDS):
        inverse = np.linalg.inv(covariance + np.diag(extra))
        scale = np.diag(inverse)
        deviation, variance = inverse @ left / scale, 1 / scale - extra
        wanted = variance * np.maximum((deviation**2 / variance - 1) / (_FREEDOM + 1), 0.0)
        extra = (extra + wanted) / 2
    return extra

"""Robust conditioning: surprising observations get less weight."""

from __future__ import annotations

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_prediction.grouped import inverse_of
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of

_FREEDOM = 4.0
"""Degrees of freedom of Student's t distribution for an observation, given the others."""

_ROUNDS = 6
"""Number of times that weights are computed anew."""


def doubt(
    belief: LayerPosterior,
    counts: scipy.sparse.csr_array,
    log_ms: FloatArray,
    noise: FloatArray,
    call_ms: FloatArray | float = 0.0,
) -> FloatArray:
    """Additional variance of observations, as far as others contradict them.

    A layer that a framework computes in an unusual way is often off by half. At full weight it
    would mislead the belief about all similar layers. Each observation is compared with its
    prediction from the others. If it deviates by more than the standard deviation, it gets the
    variance of Student's t distribution there (iteratively reweighted least squares).

    Args:
        belief: Prior belief.
        counts: Number of occurrences of each layer in each observed network.
        log_ms: Logarithm of each network's measured latency in milliseconds.
        noise: Variance of each logarithm.
        call_ms: Cost of a call of the timer within each latency, in milliseconds.
    """
    extra = np.zeros(len(log_ms))
    if len(log_ms) < 2:
        return extra
    shares, totals = shares_of(counts, belief.mean, call_ms)
    covariance = belief.between(shares)
    covariance[np.diag_indices_from(covariance)] += noise
    left = log_ms - np.log(totals)
    plain = inverse_of(scipy.linalg.cholesky(covariance, lower=True, overwrite_a=True))
    pull = plain @ left
    for _ in range(_ROUNDS):
        own, scale = _doubted(plain, pull, extra)
        deviation, variance = own / scale, 1 / scale - extra
        wanted = variance * np.maximum((deviation**2 / variance - 1) / (_FREEDOM + 1), 0.0)
        extra = (extra + wanted) / 2
    return extra


def _doubted(
    plain: FloatArray, pull: FloatArray, extra: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Inverse covariance with additional variances: its product with residuals, and its diagonal.

    Few observations have any, so Woodbury's formula needs a matrix of these alone.

    Args:
        plain: Inverse of the covariance without additional variances.
        pull: Its product with the residuals.
        extra: Additional variance of each observation.
    """
    (some,) = np.nonzero(extra)
    if not len(some):
        return pull, np.diag(plain)
    root = np.sqrt(extra[some])
    inner = root[:, None] * plain[np.ix_(some, some)] * root
    inner[np.diag_indices_from(inner)] += 1
    factor = scipy.linalg.cholesky(inner, lower=True, overwrite_a=True)
    sides = np.column_stack([root[:, None] * plain[some], root * pull[some]])
    half = scipy.linalg.solve_triangular(factor, sides, lower=True, overwrite_b=True)
    told = half[:, :-1]
    return pull - half[:, -1] @ told, np.diag(plain) - np.einsum("ij,ij->j", told, told)

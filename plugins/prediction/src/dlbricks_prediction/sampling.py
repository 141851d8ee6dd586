"""Draws from a belief, each consistent with measured networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of

_ROUNDS = 4
"""Number of corrections of each draw. The first is exact for single layers."""

_LONGEST = 2.0
"""Maximum change of a logarithm by a correction; beyond it, the linear approximation fails."""


_SETTLED = 1e-6
"""Change of a logarithm below which no further correction is worth its time."""

_CENTRING = 200
"""Number of draws behind a median, besides their mirror images."""


def agreeing_draws(
    prior: LayerPosterior,
    counts: scipy.sparse.csr_array,
    log_ms: FloatArray,
    noise: FloatArray,
    call_ms: FloatArray | float = 0.0,
    count: int = 1000,
    seed: int = 0,
) -> FloatArray:
    """Equally likely logarithms of latencies after networks were measured.

    The normal distribution of :meth:`LayerPosterior.observed` treats the logarithm of a sum as
    linear in its parts. In fact it is convex: where parts are uncertain, nearly all draws of that
    distribution add up to more than the measurement. So each draw of the prior is conditioned
    individually, on the measurement plus an error that the noise may have caused (Wilson et al.,
    Pathwise Conditioning of Gaussian Processes, JMLR 22, 2021; for sums that are not linear,
    Bardsley et al., Randomize-Then-Optimize, SIAM J. Sci. Comput. 36, 2014).

    Args:
        prior: Prior belief.
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        log_ms: Logarithm of each network's measured latency in milliseconds.
        noise: Variance of each logarithm that the layers do not explain.
        call_ms: Cost of a call of the timer within each latency, in milliseconds.
        count: Number of draws.
        seed: Seed of the draws.

    Returns:
        Array of shape (count, layers).
    """
    if not counts.shape[0]:
        return prior.draws(count, seed)
    random = np.random.default_rng(seed)
    begin = prior.draws(count, seed)
    wanted = log_ms + random.standard_normal((count, len(log_ms))) * np.sqrt(noise)
    likely = prior.likely(counts, log_ms, noise, call_ms)
    shares, totals = shares_of(counts, likely, call_ms)
    spread = prior.to_layers(shares)
    common = np.asarray(spread @ shares.T)
    factor = scipy.linalg.cho_factor(common + np.diag(noise), lower=True)
    timed = np.unique(counts.indices)
    parts, start, moving = counts[:, timed], begin[:, timed], spread[:, timed]

    def missed(source: FloatArray) -> FloatArray:
        """Residuals of the sums: shape (count, networks)."""
        sums = parts @ np.exp(start + source @ moving).T
        return np.asarray(wanted - np.log(sums.T + call_ms))

    def misfit(source: FloatArray, left: FloatArray) -> FloatArray:
        """Misfit of each draw: its distance from the measurements and from its starting point."""
        return np.asarray((left**2 / noise).sum(axis=1) + (source @ common * source).sum(axis=1))

    # A draw differs from its starting point by its source times the covariance with the networks.
    linear = wanted - np.log(totals) - (shares @ (begin - likely).T).T
    source = scipy.linalg.cho_solve(factor, linear.T).T
    left = missed(source)
    for _ in range(_ROUNDS):
        step = scipy.linalg.cho_solve(factor, (left + source @ common).T).T - source
        longest = np.abs(step @ moving).max(axis=1, keepdims=True)
        if longest.max() < _SETTLED:
            break
        tried = source + step * (_LONGEST / np.maximum(longest, _LONGEST))
        lacking = missed(tried)
        better = (misfit(tried, lacking) < misfit(source, left))[:, None]
        source, left = np.where(better, tried, source), np.where(better, lacking, left)
    return np.asarray(begin + source @ spread)


def centred(belief: LayerPosterior, counts: scipy.sparse.csr_array) -> LayerPosterior:
    """The belief with a shifted mean, so that the median draw of each network is its likely sum.

    Layers that were only measured together are uncertain individually, but their sum is not. Then
    draws of a normal distribution of logarithms add up to more than the measured sum.

    Args:
        belief: Posterior of layers, whose mean is the most probable one.
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
    """
    drawn = belief.draws(_CENTRING)
    # With each draw's mirror image, medians of single layers are exact.
    sums = (counts @ np.exp(np.concatenate([drawn, 2 * belief.mean - drawn])).T).T
    shares, likely = shares_of(counts, belief.mean)
    off = np.log(likely / np.median(sums, axis=0))
    weights = np.asarray(shares.sum(axis=0)).ravel()
    moved = np.divide(shares.T @ off, weights, out=np.zeros(len(weights)), where=weights > 0)
    return replace(belief, mean=belief.mean + moved)

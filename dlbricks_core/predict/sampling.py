"""Draws from a belief that agree with measured networks, one by one."""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.belief import Belief, shares_of

_ROUNDS = 4
"""Corrections of each draw. The first is exact for single layers."""

_LONGEST = 2.0
"""Most that a correction changes a logarithm: farther away, nothing is linear any more."""


_CENTRING = 200
"""Draws that a median is found from, beside their mirror images."""


def agreeing_draws(
    prior: Belief,
    counts: sparse.csr_array,
    log_ms: FloatArray,
    noise: FloatArray,
    call_ms: FloatArray | float = 0.0,
    count: int = 1000,
    seed: int = 0,
) -> FloatArray:
    """Logarithms that are equally likely to be right after networks were measured.

    The normal distribution of :meth:`Belief.observed` holds the logarithm of a sum only where the
    sum is linear in its parts. It is convex: where parts are uncertain, nearly all draws of that
    distribution add up to more than what was measured. So each draw of the prior is conditioned
    by itself, on what was measured and an error that the noise may have caused (Wilson et al.,
    Pathwise Conditioning of Gaussian Processes, JMLR 22, 2021; for sums that are not linear,
    Bardsley et al., Randomize-Then-Optimize, SIAM J. Sci. Comput. 36, 2014).

    Args:
        prior: What was believed before.
        counts: How often each network has each layer: shape (networks, layers).
        log_ms: Logarithm of each network's measured latency in milliseconds.
        noise: Variance of each logarithm beyond what the layers account for.
        call_ms: What of each latency is the cost of a call of the timer, in milliseconds.
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
    likely = prior.observed(counts, log_ms, noise, call_ms).mean
    shares, totals = shares_of(counts, likely, call_ms)
    spread = shares @ prior.covariance
    common = np.asarray(spread @ shares.T)
    factor = linalg.cho_factor(common + np.diag(noise), lower=True)

    def missed(source: FloatArray) -> FloatArray:
        """What the sums lack of what is wanted: shape (count, networks)."""
        sums = counts @ np.exp(begin + source @ spread).T
        return np.asarray(wanted - np.log(sums.T + call_ms))

    def misfit(source: FloatArray, left: FloatArray) -> FloatArray:
        """Of each draw: how far it is from what is wanted, and from where it began."""
        return np.asarray((left**2 / noise).sum(axis=1) + (source @ common * source).sum(axis=1))

    # Draws differ from where they began by their source, times the covariance with the networks.
    linear = wanted - np.log(totals) - (begin - likely) @ shares.T
    source = linalg.cho_solve(factor, linear.T).T
    left = missed(source)
    for _ in range(_ROUNDS):
        step = linalg.cho_solve(factor, (left + source @ common).T).T - source
        longest = np.abs(step @ spread).max(axis=1, keepdims=True)
        tried = source + step * (_LONGEST / np.maximum(longest, _LONGEST))
        lacking = missed(tried)
        better = (misfit(tried, lacking) < misfit(source, left))[:, None]
        source, left = np.where(better, tried, source), np.where(better, lacking, left)
    return np.asarray(begin + source @ spread)


def centred(belief: Belief, counts: sparse.csr_array) -> Belief:
    """The belief with its mean moved, so that draws of networks have the likely sum as median.

    Layers that were only measured together are uncertain one by one, and their sum is not. Draws
    of a normal distribution of logarithms then add up to more than the sum that was measured.

    Args:
        belief: What is believed of layers; its mean is the most probable one.
        counts: How often each network has each layer: shape (networks, layers).
    """
    drawn = belief.draws(_CENTRING)
    # With each draw's mirror image, medians of single layers are exact.
    sums = np.exp(np.concatenate([drawn, 2 * belief.mean - drawn])) @ counts.T.toarray()
    shares, likely = shares_of(counts, belief.mean)
    off = np.log(likely / np.median(sums, axis=0))
    weights = np.asarray(shares.sum(axis=0)).ravel()
    moved = np.divide(shares.T @ off, weights, out=np.zeros(len(weights)), where=weights > 0)
    return Belief(belief.mean + moved, belief.covariance)

"""Probes: the networks whose latencies yield most information about others per second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of

from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.statistics import FloatArray

OVERHEAD_S = 2.0
"""Overhead of a probe in seconds, besides its runs: loading, and a share of starting the framework.
The value is high enough to justify the runs of layers that dominate a latency.
"""


LEAST_GAIN = 0.004
"""Minimum share by which a useful probe narrows the intervals of other bricks. Below it, errors
that no probe reduces prevail (research/2026-11-29-strangers.md).
"""


def choose_probes(
    belief: LayerPosterior,
    candidates: scipy.sparse.csr_array,
    asked: scipy.sparse.csr_array,
    noise: float,
    runs: int,
    most: int,
) -> Sequence[int]:
    """Candidates that reduce the variance of the wanted networks most per second.

    Logarithms of latencies are linear close to the mean, so all covariances follow from the belief
    about layers. Candidates are chosen one after another, each conditioned on the previous ones.
    Their actual latencies make no difference.

    Args:
        belief: Posterior of layers.
        candidates: Number of occurrences of each layer in each candidate: shape (candidates,
            layers).
        asked: Number of occurrences of each layer in each network to predict: shape (networks,
            layers).
        noise: Variance of the logarithm of a measured latency, beyond that of its layers.
        runs: Number of runs of each probe.
        most: Number of probes.

    Returns:
        Positions of the candidates, the most informative one first.
    """
    mean = belief.mean + belief.variances / 2
    shares, ms = shares_of(candidates, mean)
    seconds = OVERHEAD_S + runs * ms / 1e3
    spread = belief.to_layers(shares)
    between = np.asarray(spread @ shares.T)
    told = shares_of(asked, mean)[0] @ spread.T
    found: list[int] = []
    for _ in range(min(most, len(seconds))):
        variance = np.diag(between) + noise
        gain = (told**2).sum(axis=0) / variance / seconds
        gain[found] = -np.inf
        best = int(np.argmax(gain))
        found.append(best)
        row, column = between[best] / variance[best], told[:, best].copy()
        told -= np.outer(column, row)
        between -= np.outer(between[best].copy(), row)
    return found


def half_widths(belief: LayerPosterior, networks: scipy.sparse.csr_array) -> FloatArray:
    """Half-width of the 90% interval of each network's latency, relative to the latency.

    Args:
        belief: Posterior of layers.
        networks: Number of occurrences of each layer in each network: shape (networks, layers).
    """
    shares, _ = shares_of(networks, belief.mean)
    variance = np.diag(belief.between(shares))
    return np.asarray(np.sinh(NORMAL_HALF_WIDTH * np.sqrt(np.maximum(variance, 0.0))))


def gain(
    belief: LayerPosterior,
    probes: scipy.sparse.csr_array,
    asked: scipy.sparse.csr_array,
    noise: float,
) -> float:
    """Expected share by which a probe narrows the median interval: mean over some probes.

    Args:
        belief: Beliefs about layers.
        probes: Number of occurrences of each layer in each probe: shape (probes, layers).
        asked: Number of occurrences of each layer in each network to predict: shape (networks,
            layers).
        noise: Variance of the logarithm of a measured latency, beyond that of its layers.
    """
    number = probes.shape[0]
    narrowed = belief.narrowed(probes, np.full(number, noise))
    before, after = (np.median(half_widths(each, asked)) for each in (belief, narrowed))
    return float(1 - after / before) / number if before else 0.0

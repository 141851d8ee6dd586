"""Probes: the networks whose latencies tell most about others for each second of measuring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.belief import Belief, shares_of

OVERHEAD_S = 2.0
"""Seconds that a probe costs beside its runs: loading, and a share of starting the framework. It
is high enough that layers which make up most of a latency are worth their runs."""


def choose_probes(
    belief: Belief,
    candidates: sparse.csr_array,
    asked: sparse.csr_array,
    noise: float,
    runs: int,
    most: int,
) -> Sequence[int]:
    """Candidates that take the most variance off the asked networks for each second.

    Logarithms of latencies are linear close to what is believed, so that all covariances follow
    from the belief about layers. One candidate is chosen after another, each given those before it;
    which latencies they turn out to have makes no difference.

    Args:
        belief: What is believed of layers.
        candidates: How often each candidate has each layer: shape (candidates, layers).
        asked: How often each network that is asked about has each layer: shape (networks, layers).
        noise: Variance of the logarithm of a measured latency, beyond that of its layers.
        runs: Runs of each probe.
        most: Number of probes.

    Returns:
        Positions of the candidates, the one that tells most first.
    """
    mean = belief.mean + np.diag(belief.covariance) / 2
    shares, ms = shares_of(candidates, mean)
    seconds = OVERHEAD_S + runs * ms / 1e3
    spread = shares @ belief.covariance
    between = spread @ shares.T
    told = (shares_of(asked, mean)[0] @ spread.T).copy()
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


def half_widths(belief: Belief, networks: sparse.csr_array) -> FloatArray:
    """Half-width of the 90% interval of each network's latency, relative to the latency.

    Args:
        belief: What is believed of layers.
        networks: How often each network has each layer: shape (networks, layers).
    """
    shares, _ = shares_of(networks, belief.mean)
    variance = np.asarray(sparse.csr_array(shares).multiply(shares @ belief.covariance).sum(axis=1))
    return np.asarray(np.sinh(_Z * np.sqrt(variance.ravel())))


_Z = 1.645
"""Standard deviations on each side that hold 90% of a normal distribution."""

"""Sites: the information of networks about single layers.

The networks of a contribution are sums of layers, so their information is joint over all layers.
The message of a network about one of its layers depends on the uncertainty of its other layers
without this network (expectation propagation; Minka, 2001). All messages about a layer together
make its *site*: a measurement of the layer alone, with a variance. Classes of layers are
conditioned separately, and a few similar sites suffice for a new layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray
from dlbricks_prediction.grouped import Grouped, inverse_of
from dlbricks_prediction.layer_posterior import LayerPosterior, shares_of

_DRAWS = 400
"""Number of draws behind the variance of a layer: they give it to 7%."""

_BLOCK = 256
"""Number of networks that are processed at once."""

_LEAST, _MOST = 1e-5, 1e4
"""Bounds of a site's variance. Above them, a network has almost no information about the layer."""


@dataclass(frozen=True, eq=False)
class Sites:
    """Information of networks on each layer, as if it had been timed alone.

    Attributes:
        variances: Variance of each layer's site: shape (layers,).
        common: Variance, given all sites, of the error that all layers share.
    """

    variances: FloatArray
    common: float


def sites_of(
    belief: LayerPosterior,
    counts: scipy.sparse.csr_array,
    noise: FloatArray,
    call_ms: FloatArray,
    mean: FloatArray,
) -> Sites:
    """Sites of layers, from networks.

    Args:
        belief: Prior belief about the layers.
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        noise: Variance of the logarithm of each network's latency.
        call_ms: Cost of a call of the timer within each latency, in milliseconds.
        mean: Most probable logarithm of each layer's latency.
    """
    shares = shares_of(counts, mean, call_ms)[0].astype(np.float32)
    prior = belief.spread.single
    spread = prior.below(shares)
    spread[np.diag_indices_from(spread)] += noise.astype(np.float32)
    factor = scipy.linalg.cholesky(spread.T, overwrite_a=True, check_finite=False)
    layer_variances = _drawn_variances(prior, shares, noise, factor)
    inverse = inverse_of(factor.T)
    precision = np.diag(inverse)
    # Remaining covariance of a layer and a network after conditioning on the network.
    layers, networks = shares.indices, np.repeat(np.arange(len(noise)), np.diff(shares.indptr))
    left = _covariances(prior, shares, inverse) * noise[networks]
    # Without the network itself, its latency is as uncertain as its prediction error.
    apart = np.maximum(1 / precision - noise, 0.0)[networks]
    without = left * (apart + noise[networks]) / noise[networks]
    own = layer_variances[layers] + left**2 / (noise[networks] ** 2 * precision[networks])
    rest = apart + shares.data**2 * own - 2 * shares.data * without
    told = shares.data**2 / (noise[networks] + np.maximum(rest, 0.0))
    total = np.bincount(layers, told, minlength=len(mean))
    variances = np.clip(1 / np.maximum(total, 1 / _MOST), _LEAST, _MOST)
    return Sites(variances, _common(prior, variances))


def _drawn_variances(
    prior: Grouped, shares: scipy.sparse.csr_array, noise: FloatArray, factor: FloatArray
) -> FloatArray:
    """Variance of each layer given the networks, from joint draws.

    Each draw of the prior is conditioned on the networks as they would be with errors of their own
    (Wilson et al., Pathwise Conditioning of Gaussian Processes, JMLR 22, 2021).
    """
    random, single = np.random.default_rng(0), prior.shared.dtype
    drawn = prior.moved(random.standard_normal((_DRAWS, prior.sources)).astype(single))
    errors = random.standard_normal((_DRAWS, len(noise))) * np.sqrt(noise)
    seen = (shares @ drawn.T + errors.T).astype(single)
    pulls = shares.T @ scipy.linalg.cho_solve((factor, False), seen, check_finite=False)
    return np.asarray(((drawn - prior.times(pulls).T) ** 2).mean(axis=0))


def _covariances(prior: Grouped, shares: scipy.sparse.csr_array, inverse: FloatArray) -> FloatArray:
    """Covariance of each network with each of its layers before any is observed, times the inverse.

    Returns:
        Array of one number for each share, in their order.
    """
    found = np.empty(shares.nnz)
    of, place = np.empty(len(prior), dtype=np.intp), np.empty(len(prior), dtype=np.intp)
    for number, group in enumerate(prior.groups):
        of[group.layers], place[group.layers] = number, np.arange(len(group.layers))
    to_layers = scipy.sparse.csr_array(shares.T)
    for begin in range(0, shares.shape[0], _BLOCK):
        some = slice(begin, begin + _BLOCK)
        pulls = np.ascontiguousarray((to_layers @ inverse[:, some]).T)
        parts = slice(shares.indptr[begin], shares.indptr[min(begin + _BLOCK, shares.shape[0])])
        layers = shares.indices[parts]
        networks = np.repeat(
            np.arange(len(pulls)), np.diff(shares.indptr[begin:][: len(pulls) + 1])
        )
        told = (prior.shared[layers] * (pulls @ prior.shared)[networks]).sum(axis=1)
        for number in np.unique(of[layers]):
            group = prior.groups[number]
            (pairs,) = np.nonzero(of[layers] == number)
            own = group.covariance[place[layers[pairs]]]
            told[pairs] += np.einsum("ij,ij->i", own, pulls[:, group.layers][networks[pairs]])
        found[parts] = told
    return found


def _common(prior: Grouped, variances: FloatArray) -> float:
    """Variance, given all sites, of an error that all layers share."""
    told = 0.0
    for group in prior.groups:
        matrix = group.covariance + np.diag(variances[group.layers])
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
        moved = prior.shared[group.layers, 0]
        told += float(moved @ scipy.linalg.cho_solve(factor, moved))
    return 1 / (1 + told)

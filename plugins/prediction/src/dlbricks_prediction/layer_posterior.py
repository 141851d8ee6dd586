"""Posteriors: joint distributions of layer latencies, updated by observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_prediction.grouped import Grouped, padded, weighted

_STEPS = 30
"""Maximum number of Newton steps. With single layers, the first step is exact."""

_LENGTHS = tuple(0.5**i for i in range(8))
"""Step lengths, as shares of a full Newton step. Full steps overshoot where layers hide in the sum
of others.
"""

_SETTLED = 1e-3
"""Minimum increase of the log posterior per network that justifies another step."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions in which networks were observed. The networks of one session share an error.

    A shared machine may be slower for a whole session. The scatter of the session's samples does
    not show this.

    Attributes:
        of: Session of each network, as a number from 0: shape (networks,).
        variance: Variance of the error that the networks of a session share.
    """

    of: Indices
    variance: float

    def add_to(self, covariance: FloatArray) -> None:
        """Adds the covariance of the shared errors to a covariance between networks, in place."""
        order = np.argsort(self.of, kind="stable")
        for members in np.split(order, np.cumsum(np.bincount(self.of))[:-1]):
            covariance[np.ix_(members, members)] += self.variance

    def times(self, weights: FloatArray) -> FloatArray:
        """The covariance of the shared errors times weights of the networks: shape (networks,)."""
        return np.asarray(self.variance * np.bincount(self.of, weights)[self.of])

    def shared(self, apart: FloatArray, noise: FloatArray) -> FloatArray:
        """Most probable shared error of each network: shape (networks,).

        Args:
            apart: Residual of each network.
            noise: Variance of the further error that each network has for itself.
        """
        precision = np.bincount(self.of, 1 / noise)
        pull = np.bincount(self.of, apart / noise)
        return np.asarray((self.variance * pull / (1 + self.variance * precision))[self.of])


@dataclass(frozen=True, eq=False)
class LayerPosterior:
    """Normal distribution of the logarithms of latencies, joint over layers.

    A network's latency is the sum over its layers. Close to the mean, its logarithm is linear in
    the layers' logarithms, with the layers' shares of the sum as factors. So a measured network
    informs about its layers, and correlations between layers are preserved.

    Attributes:
        mean: Expected logarithm of each layer's latency in milliseconds: shape (layers,).
        spread: Prior covariance of these logarithms, without observed networks.
        told: Information of networks: the covariance is smaller than the spread by this matrix,
            transposed, times itself. Shape (networks, layers).
    """

    mean: FloatArray
    spread: Grouped
    told: FloatArray

    @classmethod
    def dense(cls, mean: FloatArray, covariance: FloatArray) -> Self:
        """The belief with its covariance as a single matrix."""
        return cls.untold(mean, Grouped.dense(covariance))

    @classmethod
    def untold(cls, mean: FloatArray, spread: Grouped) -> Self:
        """The belief before any network was observed."""
        return cls(mean, spread, np.zeros((0, len(mean))))

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the logarithms: shape (layers, layers)."""
        return np.asarray(self.spread.matrix - self.told.T @ self.told)

    @property
    def variances(self) -> FloatArray:
        """Variance of each layer's logarithm: shape (layers,)."""
        return np.asarray(self.spread.variances - (self.told**2).sum(axis=0))

    def to_layers(self, weights: scipy.sparse.csr_array) -> FloatArray:
        """Covariance of weighted sums of logarithms with the layers: shape (sums, layers)."""
        found = self.spread.to_layers(weights)
        if len(self.told):
            found -= (weights @ self.told.T) @ self.told
        return found

    def between(self, weights: scipy.sparse.csr_array) -> FloatArray:
        """Covariance between weighted sums of logarithms: shape (sums, sums)."""
        found = self.spread.between(weights)
        if len(self.told):
            moved = weights @ self.told.T
            found -= moved @ moved.T
        return found

    def observed(
        self,
        counts: scipy.sparse.csr_array,
        log_ms: FloatArray,
        noise: FloatArray,
        call_ms: FloatArray | float = 0.0,
        sessions: Sessions | None = None,
    ) -> Self:
        """The belief after an observation of networks.

        The mean is the most probable one (Newton's method on the posterior), and the covariance
        that of the posterior's normal approximation there (Laplace's method; Rasmussen and
        Williams, 2006, section 3.4).

        Args:
            counts: Number of occurrences of each layer in each network: shape (networks, layers).
            log_ms: Logarithm of each network's measured latency in milliseconds.
            noise: Variance of each logarithm that the layers do not explain.
            call_ms: Cost of a call of the timer within each latency, in milliseconds. A layer that
                takes less carries little information, which the logarithm of the whole latency
                reflects.
            sessions: Sessions of the networks; ``None`` if they share no error.
        """
        if not counts.shape[0]:
            return self
        fitted = self._fitted(counts, log_ms, noise, call_ms, sessions)
        return replace(self._narrowed(fitted.shares, fitted.factor), mean=self.mean + fitted.shift)

    def narrowed(
        self, counts: scipy.sparse.csr_array, noise: FloatArray, call_ms: FloatArray | float = 0.0
    ) -> Self:
        """The belief after an observation of networks that the mean already accounts for.

        The arguments are those of :meth:`observed`.
        """
        if not counts.shape[0]:
            return self
        shares, _ = shares_of(counts, self.mean, call_ms)
        among = self.between(shares)
        among[np.diag_indices_from(among)] += noise
        return self._narrowed(shares, scipy.linalg.cholesky(among, lower=True, overwrite_a=True))

    def _narrowed(self, shares: scipy.sparse.csr_array, factor: FloatArray) -> Self:
        told = scipy.linalg.solve_triangular(factor, self.to_layers(shares), lower=True)
        return replace(self, told=np.concatenate([self.told, told]))

    def likely(
        self,
        counts: scipy.sparse.csr_array,
        log_ms: FloatArray,
        noise: FloatArray,
        call_ms: FloatArray | float = 0.0,
    ) -> FloatArray:
        """The most probable mean after an observation of networks, as in :meth:`observed`."""
        if not counts.shape[0]:
            return self.mean
        return self.mean + self._fitted(counts, log_ms, noise, call_ms, None).shift

    def _fitted(
        self,
        counts: scipy.sparse.csr_array,
        log_ms: FloatArray,
        noise: FloatArray,
        call_ms: FloatArray | float,
        sessions: Sessions | None,
    ) -> _Fitted:
        """The most probable latencies of observed layers."""
        pulls, shift, misfit = np.zeros(len(self.mean)), np.zeros(len(self.mean)), np.inf
        for _ in range(_STEPS):
            shares, totals = shares_of(counts, self.mean + shift, call_ms)
            left = log_ms - np.log(totals) + shares @ shift
            among = self.between(shares)
            among[np.diag_indices_from(among)] += noise
            if sessions is not None:
                sessions.add_to(among)
            factor = scipy.linalg.cholesky(among, lower=True, overwrite_a=True)
            target = shares.T @ scipy.linalg.cho_solve((factor, True), left)
            moved = self._times(target)
            found = []
            for length in _LENGTHS:
                way = pulls + length * (target - pulls), shift + length * (moved - shift)
                apart = log_ms - np.log(counts @ np.exp(self.mean + way[1]) + call_ms)
                misses = misfit_of(apart, noise, sessions)
                found.append((float(misses + way[0] @ way[1]) / 2, *way))
            best, pulls, shift = min(found, key=lambda each: each[0])
            if best > misfit - _SETTLED * len(log_ms):
                break
            misfit = best
        return _Fitted(shift, shares, factor)

    def widened(self, share: float, spread: Grouped) -> Self:
        """The belief with an additional, independent error of each layer.

        Args:
            share: Factor of the error's covariance.
            spread: Covariance with the groups of this belief.
        """
        return replace(self, spread=weighted([(1.0, self.spread), (share, spread)]))

    def _times(self, weights: FloatArray) -> FloatArray:
        """The covariance times weights of the layers."""
        return self.spread.times(weights) - self.told.T @ (self.told @ weights)

    def of(self, layers: Sequence[int] | Indices) -> Self:
        """The belief about some of the layers."""
        chosen = np.asarray(layers, dtype=np.intp)
        return type(self)(self.mean[chosen], self.spread.of(chosen), self.told[:, chosen])

    def draws(self, count: int, seed: int = 0) -> FloatArray:
        """Equally likely logarithms of latencies, joint over layers.

        Returns:
            Array of shape (count, layers).
        """
        spread = self.spread
        normal = np.random.default_rng(seed).standard_normal((count, spread.sources))
        if len(self.told):
            # The symmetric root of the identity less the information, in terms of the sources.
            told = spread.traced(spread.solved(self.told))
            squares, ways = np.linalg.eigh(told @ told.T)
            less = 1 / (1 + np.sqrt(np.clip(1 - squares, 0.0, None)))
            rows = ways.T @ told
            normal -= (normal @ (rows.T * less)) @ rows
        return np.asarray(self.mean + spread.moved(normal))


def joined_beliefs(
    parts: Sequence[Sequence[int]], beliefs: Sequence[LayerPosterior]
) -> LayerPosterior:
    """Posterior of layers in several parts whose errors have nothing in common.

    Args:
        parts: Positions of the layers of each part.
        beliefs: Posterior of each part.
    """
    size = sum(len(each) for each in parts)
    mean, told = np.zeros(size), []
    places = [np.asarray(each, dtype=np.intp) for each in parts]
    for layers, each in zip(places, beliefs, strict=True):
        mean[layers] = each.mean
        told.append(np.zeros((len(each.told), size)))
        told[-1][:, layers] = each.told
    spreads = [each.spread for each in beliefs]
    return LayerPosterior(
        mean, padded(places, spreads), np.concatenate([np.zeros((0, size)), *told])
    )


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Most probable latencies of observed layers.

    Attributes:
        shift: Movement of each layer's mean.
        shares: Share of each layer in each network's latency.
        factor: Cholesky factor of the covariance of the networks' measured logarithms.
    """

    shift: FloatArray
    shares: scipy.sparse.csr_array
    factor: FloatArray


def misfit_of(apart: FloatArray, noise: FloatArray, sessions: Sessions | None) -> float:
    """Squared distance of residuals from 0, in units of the covariance of their errors.

    Args:
        apart: Residual of each network.
        noise: Variance of each network's own error.
        sessions: Sessions of the networks; ``None`` if they share no error.
    """
    own = apart if sessions is None else apart - sessions.shared(apart, noise)
    return float(apart @ (own / noise))


def shares_of(
    counts: scipy.sparse.csr_array, log_ms: FloatArray, call_ms: FloatArray | float = 0.0
) -> tuple[scipy.sparse.csr_array, FloatArray]:
    """Share of each layer in each network's latency, and the latencies.

    Args:
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        log_ms: Logarithm of each layer's latency in milliseconds.
        call_ms: Cost of a call of the timer in each network's latency, in milliseconds.
    """
    parts = scipy.sparse.csr_array(counts.multiply(np.exp(log_ms)[None, :]))
    totals = np.asarray(parts.sum(axis=1)).ravel() + call_ms
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / totals) @ parts), totals
